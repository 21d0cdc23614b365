//! Queries on the catalogue of a pool: instance types that match requirements, and the distance
//! between requests and free capacity.

use rustc_hash::FxHashSet;

use model::{Catalogue, InstanceType, NodePool, Requirement, Requirements, Resources, Text};
use verifier::kernel::belongs_to_offerings;

/// Label keys that some type of `catalogue` defines.
pub(super) fn keys_of_types(catalogue: &Catalogue) -> FxHashSet<Text> {
    let keys: FxHashSet<&Text> =
        catalogue.types.iter().flat_map(|instance| instance.labels.iter().map(Requirement::key)).collect();
    keys.into_iter().cloned().collect()
}

/// The part of a set of requirements that decides which instance types match. Equal for pools that
/// differ only in other labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TypeQuery {
    relevant: Requirements,
    /// Keys that the instance type itself must define: neither pool nor offering defines them, and
    /// absence is not allowed.
    strict: Vec<Text>,
}

impl TypeQuery {
    /// The query of `merged` on the instance types of `pool`, which define `keys`; `base` holds the
    /// requirements of every node of the pool.
    pub(super) fn new(pool: &NodePool, keys: &FxHashSet<Text>, base: &Requirements, merged: &Requirements) -> Self {
        let relevant = merged.iter().filter(|r| keys.contains(r.key())).cloned().collect();
        let strict = merged
            .iter()
            .filter(|r| !r.allows_absence() && base.get(r.key()).is_none())
            .filter(|r| !belongs_to_offerings(pool, r.key()));
        Self { relevant, strict: strict.map(|r| r.key().clone()).collect() }
    }

    /// The matching instance types, offerings not considered.
    pub(super) fn matching(&self, catalogue: &Catalogue) -> Vec<u32> {
        let agrees = |instance: &InstanceType| {
            self.strict.iter().all(|key| instance.labels.get(key).is_some())
                && instance.labels.first_conflict(&self.relevant).is_none()
        };
        (0_u32..).zip(&catalogue.types).filter(|(_, instance)| agrees(instance)).map(|(at, _)| at).collect()
    }
}

/// The amounts of `requested` that `free` lacks: (resource, missing amount).
pub(super) fn shortage(requested: &Resources, free: &Resources) -> Vec<(Text, i64)> {
    let short = |(name, amount): (&Text, i64)| {
        let missing = amount - free.get(name).max(0);
        (amount > 0 && missing > 0).then(|| (name.clone(), missing))
    };
    requested.iter().filter_map(short).collect()
}

/// Distance of `free` from `requested`: the largest missing share of any amount, in millionths.
pub(super) fn distance(requested: &Resources, free: &Resources) -> i64 {
    requested.iter().map(|(name, amount)| missing_share(amount, free.get(name))).max().unwrap_or(0)
}

/// The share of `requested` that `free` lacks, in millionths.
pub(super) fn missing_share(requested: i64, free: i64) -> i64 {
    let missing = requested - free.max(0);
    if requested <= 0 || missing <= 0 {
        return 0;
    }
    i64::try_from(i128::from(missing) * 1_000_000 / i128::from(requested)).unwrap_or(i64::MAX)
}
