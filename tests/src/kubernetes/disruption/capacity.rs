//! Room for pods on nodes.
//!
//! kube-scheduler may bind an evicted pod elsewhere than planned, so that a larger one finds no node with enough room
//! although the room is there. [`without_room`] is therefore asked before pods move, and [`units`] while they do: it
//! does not depend on where pods are bound.

use std::ops::{AddAssign, SubAssign};

/// What pods request, or a node has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount {
    pub millicores: i64,
    pub bytes: i64,
    pub pods: i64,
}

impl Amount {
    fn holds(self, requested: Self) -> bool {
        self.millicores >= requested.millicores && self.bytes >= requested.bytes && self.pods >= requested.pods
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.millicores += other.millicores;
        self.bytes += other.bytes;
        self.pods += other.pods;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        self.millicores -= other.millicores;
        self.bytes -= other.bytes;
        self.pods -= other.pods;
    }
}

/// Number of `pods` that find no room in `free`, the largest first.
///
/// The answer is exact, and not only an estimate, when the requests of each pod are a multiple of those of every smaller
/// one: then the number of smaller pods that fit does not depend on where the larger ones are.
#[must_use]
pub fn without_room(mut pods: Vec<Amount>, mut free: Vec<Amount>) -> usize {
    pods.sort_unstable_by(|one, other| other.cmp(one));
    let mut left_over = 0;
    for pod in pods {
        match free.iter_mut().find(|room| room.holds(pod)) {
            Some(room) => *room -= pod,
            None => left_over += 1,
        }
    }
    left_over
}

/// How many times `unit` has room in `amount`, in CPU and memory. Of pods whose requests are multiples of `unit`, it is
/// what they need.
#[must_use]
pub fn units(amount: Amount, unit: Amount) -> i64 {
    let times = |amount: i64, unit: i64| if unit > 0 { amount / unit } else { i64::MAX };
    times(amount.millicores, unit.millicores).min(times(amount.bytes, unit.bytes)).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cores: i64) -> Amount {
        Amount { millicores: cores * 1_000, bytes: cores << 30, pods: 1 }
    }

    fn node(cores: i64) -> Amount {
        Amount { millicores: cores * 1_000, bytes: cores << 30, pods: 10 }
    }

    /// Of 4 + 2 + 1 + 1 = 8 cores, 3 + 4 = 7 have room: 4 in 4, 2 and 1 in 3, and one core is left over.
    #[test]
    fn the_largest_pods_are_first() {
        let pods = vec![cores(1), cores(2), cores(1), cores(4)];
        assert_eq!(without_room(pods.clone(), vec![node(3), node(4)]), 1);
        assert_eq!(without_room(pods.clone(), vec![node(4), node(4)]), 0);
        // 5 + 3 cores are enough, but only as 4 + 1 and 2 + 1.
        assert_eq!(without_room(pods, vec![node(3), node(5)]), 0);
    }

    #[test]
    fn units_are_those_of_the_scarcer_resource() {
        assert_eq!(units(cores(4), cores(2)), 2);
        assert_eq!(units(Amount { bytes: 3 << 30, ..cores(4) }, cores(2)), 1);
        assert_eq!(units(Amount { millicores: -1, ..cores(4) }, cores(2)), 0);
    }

    #[test]
    fn memory_and_the_number_of_pods_are_limits_too() {
        let pods = vec![cores(1), cores(1)];
        assert_eq!(without_room(pods.clone(), vec![Amount { pods: 1, ..node(4) }]), 1);
        assert_eq!(without_room(pods, vec![Amount { bytes: 1 << 30, ..node(4) }]), 1);
    }
}
