//! What a pool's catalogue answers by itself: labels that its machines may have, types that agree with a set of requirements,
//! and how far the room of a machine is from what is asked for.

use rustc_hash::FxHashSet;

use crate::model::labels::{CAPACITY_TYPE, ZONE};
use crate::model::{Catalogue, InstanceType, NodePool, Requirement, Requirements, Resources, Text};

/// Whether a new machine of `pool` may have the label although the pool itself says nothing about it: the catalogue
/// defines it. A well-known label that the catalogue lacks is on no machine that can be counted on.
pub(super) fn may_be_defined(pool: &NodePool, key: &str) -> bool {
    belongs_to_offerings(pool, key) || pool.catalogue.types.iter().any(|instance| instance.labels.get(key).is_some())
}

/// Whether the label depends on the offering.
pub(super) fn belongs_to_offerings(pool: &NodePool, key: &str) -> bool {
    matches!(key, ZONE | CAPACITY_TYPE) || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
}

/// Label keys that some type of `catalogue` defines.
pub(super) fn keys_of_types(catalogue: &Catalogue) -> FxHashSet<Text> {
    let keys: FxHashSet<&Text> =
        catalogue.types.iter().flat_map(|instance| instance.labels.iter().map(Requirement::key)).collect();
    keys.into_iter().cloned().collect()
}

/// What of a set of requirements decides which types agree with it: equal for pools that differ in other labels alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OfTypes {
    told: Requirements,
    /// What a type does not define, somebody else must: the pool, the offering, or nobody where absence is allowed. These keys
    /// nobody else defines.
    strict: Vec<Text>,
}

impl OfTypes {
    /// What `merged` says of the types of `pool`, which define `keys`; `base` is what every node of the pool satisfies.
    pub(super) fn new(pool: &NodePool, keys: &FxHashSet<Text>, base: &Requirements, merged: &Requirements) -> Self {
        let told = merged.iter().filter(|r| keys.contains(r.key())).cloned().collect();
        let strict = merged
            .iter()
            .filter(|r| !r.allows_absence() && base.get(r.key()).is_none())
            .filter(|r| !belongs_to_offerings(pool, r.key()));
        Self { told, strict: strict.map(|r| r.key().clone()).collect() }
    }

    /// The types that agree, offerings apart.
    pub(super) fn matching(&self, catalogue: &Catalogue) -> Vec<u32> {
        let agrees = |instance: &InstanceType| {
            self.strict.iter().all(|key| instance.labels.get(key).is_some())
                && instance.labels.first_conflict(&self.told).is_none()
        };
        (0_u32..).zip(&catalogue.types).filter(|(_, instance)| agrees(instance)).map(|(at, _)| at).collect()
    }
}

/// The amounts of `asked` that `room` does not have: (resource, by how much).
pub(super) fn shortage(asked: &Resources, room: &Resources) -> Vec<(Text, i64)> {
    let short = |(name, amount): (&Text, i64)| {
        let missing = amount - room.get(name).max(0);
        (amount > 0 && missing > 0).then(|| (name.clone(), missing))
    };
    asked.iter().filter_map(short).collect()
}

/// How far `room` is from `asked`: the largest share of any amount that is missing, in millionths.
pub(super) fn distance(asked: &Resources, room: &Resources) -> i64 {
    asked.iter().map(|(name, amount)| missing_share(amount, room.get(name))).max().unwrap_or(0)
}

/// The share of `asked` that is missing where there is `room`, in millionths.
pub(super) fn missing_share(asked: i64, room: i64) -> i64 {
    let missing = asked - room.max(0);
    if asked <= 0 || missing <= 0 {
        return 0;
    }
    i64::try_from(i128::from(missing) * 1_000_000 / i128::from(asked)).unwrap_or(i64::MAX)
}
