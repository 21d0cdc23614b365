//! Resource vectors: every amount that planning compares, at a fixed position in a short vector.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use model::input::PlanningInput;
use model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, MEMORY, PODS};
use model::{ResourceName, Resources, Text};

/// Amounts along the [`ResourceOrder`].
pub(super) type Amounts = SmallVec<[i64; 4]>;

/// Position of CPU in [`Amounts`].
pub(super) const CPU_AT: usize = 0;

/// Unlimited capacity: a driver without an attach limit.
pub(super) const UNLIMITED: i64 = i64::MAX / 4;

/// The position of each resource in [`Amounts`]. CPU and memory come first, because they decide
/// most comparisons.
#[derive(Debug)]
pub(super) struct ResourceOrder {
    names: Vec<ResourceName>,
}

impl ResourceOrder {
    /// Every resource that a pod or DaemonSet of `input` requests.
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

    /// Every resource, by position.
    pub(super) fn names(&self) -> &[ResourceName] {
        &self.names
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn zero(&self) -> Amounts {
        SmallVec::from_elem(0, self.len())
    }

    /// A request: resources not named are zero.
    pub(super) fn demand(&self, resources: &Resources) -> Amounts {
        self.names.iter().map(|name| resources.get(name).max(0)).collect()
    }

    /// A capacity: resources not named are zero, except attachments, which are unlimited then.
    pub(super) fn capacity(&self, resources: &Resources) -> Amounts {
        let amount = |name: &ResourceName| match resources.contains(name) {
            false if name.starts_with(ATTACHABLE_VOLUMES_PREFIX) => UNLIMITED,
            _ => resources.get(name),
        };
        self.names.iter().map(amount).collect()
    }

    /// The position of `name`.
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

/// How many times `request` fits into `free`, at most `most`. Resources that are not requested are
/// ignored.
pub(super) fn copies(request: &[i64], free: &[i64], most: u32) -> u32 {
    let mut count = i64::from(most);
    for (ask, have) in request.iter().zip(free) {
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

/// How many times `request` fits into `free` beside `used`, at most `most`.
pub(super) fn copies_beside(request: &[i64], used: &[i64], free: &[i64], most: u32) -> u32 {
    let mut count = i64::from(most);
    for ((ask, used), have) in request.iter().zip(used).zip(free) {
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

/// Subtracts `count` times `request` from `free`.
pub(super) fn subtract(free: &mut [i64], request: &[i64], count: u32) {
    for (have, ask) in free.iter_mut().zip(request) {
        *have -= ask * i64::from(count);
    }
}

/// Adds `count` times `request` to `sum`.
pub(super) fn add(sum: &mut [i64], request: &[i64], count: u32) {
    for (have, ask) in sum.iter_mut().zip(request) {
        *have += ask * i64::from(count);
    }
}

/// Whether `request` fits into `free` once.
pub(super) fn fits(request: &[i64], free: &[i64]) -> bool {
    request.iter().zip(free).all(|(ask, have)| *ask <= 0 || ask <= have)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_beside_subtracts_what_is_used_first() {
        // 4 of 10 are used: three times 2 fit, and once 7 does not.
        assert_eq!(copies_beside(&[2], &[4], &[10], 9), 3);
        assert_eq!(copies_beside(&[7], &[4], &[10], 9), 0);
        assert_eq!(copies_beside(&[2], &[4], &[10], 2), 2, "at most the given maximum");
        // Too small for what is used already, whatever the pod requests.
        assert_eq!(copies_beside(&[0, 1], &[5, 0], &[4, 8], 9), 0);
        // A negative amount of a resource that neither requests excludes no pod.
        assert_eq!(copies_beside(&[0, 1], &[0, 0], &[-1, 8], 9), 8);
    }
}
