//! Patterns: machines, with the pods that they are meant for, as a guide for the packing.
//!
//! The packing opens the machine of a pattern when the first of its classes needs one, and keeps the
//! room of the other classes for them until their turn has come. Every rule holds as without
//! patterns: what a rule forbids is placed elsewhere.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::topology::Pin;
use model::CapacityType;

/// Machines of one type, with the pods of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachinePattern {
    pub(super) pool: u32,
    /// The domain that the machine is in, if pods are pinned.
    pub(super) pin: Option<Pin>,
    pub(super) capacity_type: CapacityType,
    /// Index in the pool's supply.
    pub(super) instance_type: u32,
    /// (class, pods).
    pub(super) pods: Vec<(u32, u32)>,
    /// Number of such machines.
    pub(super) machines: u32,
}

/// Patterns tried for one opening: rules may forbid the first ones.
const MAX_TRIED: usize = 4;

/// The patterns that are not used up, by the class that opens their machines.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    patterns: Vec<MachinePattern>,
    by_class: FxHashMap<u32, Vec<u32>>,
    is_suspended: bool,
}

impl Patterns {
    /// `queue` has the classes in the order in which they are placed.
    pub(super) fn of(mut patterns: Vec<MachinePattern>, queue: &[(u32, u32)]) -> Self {
        let place: FxHashMap<u32, usize> = queue.iter().enumerate().map(|(at, (class, _))| (*class, at)).collect();
        let place = |class: u32| place.get(&class).copied().unwrap_or(usize::MAX);
        patterns.iter_mut().for_each(|pattern| pattern.pods.sort_by_key(|(class, _)| place(*class)));
        let mut by_class: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (at, pattern) in (0_u32..).zip(&patterns) {
            if let Some((class, _)) = pattern.pods.first() {
                by_class.entry(*class).or_default().push(at);
            }
        }
        Self { patterns, by_class, is_suspended: false }
    }

    /// Whether patterns decide what is filled and opened.
    pub(super) fn are_in_use(&self) -> bool {
        !self.patterns.is_empty() && !self.is_suspended
    }

    /// Lets any room be filled and any machine be opened for a while; false when patterns do not
    /// decide anyway.
    pub(super) fn suspend(&mut self) -> bool {
        let in_use = self.are_in_use();
        self.is_suspended |= in_use;
        in_use
    }

    pub(super) fn resume(&mut self) {
        self.is_suspended = false;
    }

    /// The next patterns whose machines `class` opens in the domains `pins`, with their indices.
    pub(super) fn next(&self, class: u32, pins: &[Pin]) -> SmallVec<[(u32, MachinePattern); MAX_TRIED]> {
        let is_within = |at: &&u32| {
            let own = self.patterns[**at as usize].pin;
            own.is_none_or(|own| pins.iter().all(|pin| pin.key != own.key || *pin == own))
        };
        let own = self.by_class.get(&class).into_iter().flatten().filter(is_within).take(MAX_TRIED);
        own.map(|at| (*at, self.patterns[*at as usize].clone())).collect()
    }

    /// Counts machines of the pattern `at` as opened.
    pub(super) fn use_up(&mut self, at: u32, machines: u32) {
        let pattern = &mut self.patterns[at as usize];
        pattern.machines = pattern.machines.saturating_sub(machines);
        if pattern.machines == 0
            && let Some((class, _)) = pattern.pods.first()
            && let Some(patterns) = self.by_class.get_mut(class)
        {
            patterns.retain(|known| *known != at);
        }
    }
}

/// Room of one machine that is kept for classes: (class, pods).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeptRoom(SmallVec<[(u32, u32); 4]>);

impl KeptRoom {
    pub(super) fn of(pods: &[(u32, u32)]) -> Self {
        Self(pods.iter().copied().collect())
    }

    /// Pods of `class` that room is kept for.
    pub(super) fn pods_of(&self, class: u32) -> u32 {
        self.0.iter().filter(|(known, _)| *known == class).map(|(_, pods)| pods).sum()
    }

    /// Gives up the room for `count` pods of `class`, which have come.
    pub(super) fn take(&mut self, class: u32, count: u32) {
        let mut left = count;
        for (_, pods) in self.0.iter_mut().filter(|(known, _)| *known == class) {
            let taken = left.min(*pods);
            *pods -= taken;
            left -= taken;
        }
        self.0.retain(|(_, pods)| *pods > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE_A: Pin = Pin { key: 1, domain: 0 };
    const ZONE_B: Pin = Pin { key: 1, domain: 1 };

    fn pattern(pin: Option<Pin>, pods: &[(u32, u32)]) -> MachinePattern {
        let capacity_type = CapacityType::OnDemand;
        MachinePattern { pool: 0, pin, capacity_type, instance_type: 0, pods: pods.to_vec(), machines: 2 }
    }

    #[test]
    fn the_class_that_is_placed_first_opens_the_machines_of_a_pattern_until_they_are_used_up() {
        let mut patterns = Patterns::of(vec![pattern(None, &[(3, 1), (8, 2)])], &[(8, 4), (3, 2)]);
        assert!(patterns.next(3, &[]).is_empty());
        let next = patterns.next(8, &[]);
        assert_eq!(next[0].1.pods, [(8, 2), (3, 1)]);
        patterns.use_up(0, 2);
        assert!(patterns.next(8, &[]).is_empty());
    }

    #[test]
    fn a_pattern_in_a_domain_is_for_pods_that_may_run_there() {
        let patterns = Patterns::of(vec![pattern(Some(ZONE_A), &[(8, 2)]), pattern(None, &[(8, 1)])], &[(8, 4)]);
        let indices = |pins: &[Pin]| patterns.next(8, pins).iter().map(|(at, _)| *at).collect::<Vec<u32>>();
        assert_eq!((indices(&[]), indices(&[ZONE_A]), indices(&[ZONE_B])), (vec![0, 1], vec![0, 1], vec![1]));
    }

    #[test]
    fn kept_room_shrinks_as_its_pods_come() {
        let mut room = KeptRoom::of(&[(3, 2), (8, 1), (3, 1)]);
        assert_eq!((room.pods_of(3), room.pods_of(8), room.pods_of(4)), (3, 1, 0));
        room.take(3, 2);
        assert_eq!((room.pods_of(3), room.pods_of(8)), (1, 1));
    }
}
