//! Resources as columns: every amount that planning compares, at a fixed place in a short vector.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::input::PlanningInput;
use crate::model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, MEMORY, PODS};
use crate::model::{ResourceName, Resources, Text};

/// Amounts along the [`Axis`].
pub(super) type Amounts = SmallVec<[i64; 4]>;

/// ExistingNode that has no end: a driver without an attach limit.
pub(super) const UNLIMITED: i64 = i64::MAX / 4;

/// Which resource stands at which place. Cpu and memory come first, because they decide most comparisons.
#[derive(Debug)]
pub(super) struct Axis {
    names: Vec<ResourceName>,
}

impl Axis {
    /// Every resource that a pod or DaemonSet of `input` asks for.
    pub(super) fn of(input: &PlanningInput) -> Self {
        let mut names: BTreeSet<ResourceName> = input
            .shapes
            .iter()
            .flat_map(|shape| shape.requests.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name.clone()))
            .collect();
        for volumes in &input.volume_sets {
            names.extend(volumes.attachments.iter().map(|(driver, _)| attach_resource(driver)));
        }
        let first = [CPU, MEMORY, PODS];
        for name in first {
            names.remove(name);
        }
        Self { names: first.into_iter().map(Text::from).chain(names).collect() }
    }

    /// Every resource, each at its place.
    pub(super) fn names(&self) -> &[ResourceName] {
        &self.names
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn zero(&self) -> Amounts {
        SmallVec::from_elem(0, self.len())
    }

    /// Demand: what is not named is zero.
    pub(super) fn demand(&self, resources: &Resources) -> Amounts {
        self.names.iter().map(|name| resources.get(name).max(0)).collect()
    }

    /// ExistingNode: what is not named is zero, except attachments, which nobody then limits.
    pub(super) fn room(&self, resources: &Resources) -> Amounts {
        let amount = |name: &ResourceName| match resources.contains(name) {
            false if name.starts_with(ATTACHABLE_VOLUMES_PREFIX) => UNLIMITED,
            _ => resources.get(name),
        };
        self.names.iter().map(amount).collect()
    }

    /// Where `name` stands.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.as_ref() == name)
    }

    /// Adds the attachments of a volume set to `demand`.
    pub(super) fn add_attachments(&self, demand: &mut Amounts, attachments: &[(Text, Text)]) {
        for (driver, _) in attachments {
            if let Some(at) = self.position(&attach_resource(driver)) {
                demand[at] += 1;
            }
        }
    }
}

/// The resource that limits attachments of `driver`.
pub(super) fn attach_resource(driver: &str) -> ResourceName {
    Text::from(format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}"))
}

/// How many times `request` goes into `room`, at most `most`. What is not asked for plays no part.
pub(super) fn times(request: &[i64], room: &[i64], most: u32) -> u32 {
    let mut count = i64::from(most);
    for (ask, have) in request.iter().zip(room) {
        if *ask > 0 {
            if have < ask {
                return 0;
            }
            if *ask * count > *have {
                count = have / ask;
            }
        }
    }
    u32::try_from(count).unwrap_or(0)
}

/// How many times `request` goes into `room` beside `used`, at most `most`.
pub(super) fn times_more(request: &[i64], used: &[i64], room: &[i64], most: u32) -> u32 {
    let mut count = i64::from(most);
    for ((ask, used), have) in request.iter().zip(used).zip(room) {
        let left = have - used;
        if (*used > 0 && left < 0) || (*ask > 0 && left < *ask) {
            return 0;
        }
        if *ask > 0 && *ask * count > left {
            count = left / ask;
        }
    }
    u32::try_from(count).unwrap_or(0)
}

/// Takes `count` times `request` from `room`.
pub(super) fn take(room: &mut [i64], request: &[i64], count: u32) {
    for (have, ask) in room.iter_mut().zip(request) {
        *have -= ask * i64::from(count);
    }
}

/// Adds `count` times `request` to `sum`.
pub(super) fn add(sum: &mut [i64], request: &[i64], count: u32) {
    for (have, ask) in sum.iter_mut().zip(request) {
        *have += ask * i64::from(count);
    }
}

/// Whether `request` goes into `room` once.
pub(super) fn fits(request: &[i64], room: &[i64]) -> bool {
    request.iter().zip(room).all(|(ask, have)| *ask <= 0 || ask <= have)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_machine_takes_its_share_first() {
        // 4 of 10 are taken: three times 2 are left, and once 7 is not.
        assert_eq!(times_more(&[2], &[4], &[10], 9), 3);
        assert_eq!(times_more(&[7], &[4], &[10], 9), 0);
        assert_eq!(times_more(&[2], &[4], &[10], 2), 2, "no more than asked for");
        // Too small for what is there already, whatever the pod asks for.
        assert_eq!(times_more(&[0, 1], &[5, 0], &[4, 8], 9), 0);
        // ExistingNode that is missing where neither asks for any bars nobody.
        assert_eq!(times_more(&[0, 1], &[0, 0], &[-1, 8], 9), 8);
    }
}
