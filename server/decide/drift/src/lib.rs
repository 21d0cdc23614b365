//! Drift: a launched NodeClaim that does not match its NodePool or NodeClass any more (Karpenter:
//! drift).
//!
//! [`detect`] is a function of values, so that the controller and the offline plan find the same
//! drift. [`NodePoolTemplate::hash`] and [`node_class_hash`] are the hashes that this server writes on
//! the NodeClaims that it creates.
//!
//! Reading order: `comparison` (the values), this file (what is compared, in which order), `instance` (an instance with
//! what its NodeClass selects), [`template`] and [`node_class`] (the hashes).

mod comparison;
mod fnv;
mod instance;
pub mod node_class;
pub mod template;

pub use comparison::{Drift, DriftClaim, DriftPool, DriftReason, Selected, VersionedHash};
pub use node_class::{NODE_CLASS_HASH_VERSION, node_class_hash};
pub use template::{HASH_VERSION, NodePoolTemplate};

use comparison::drift;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE, canonical_key};
use model::{CapacityType, InstanceType, Labels, Millis, Offering, Requirement, Text, Timestamp};

/// Annotation of a NodeClaim of this server: the hash of its NodePool's template at the launch.
pub const POOL_HASH: &str = "fleetwright.dev/nodepool-hash";

/// Annotation of a NodeClaim of this server: the version of that hash.
pub const POOL_HASH_VERSION: &str = "fleetwright.dev/nodepool-hash-version";

/// Annotation of a NodeClaim of this server: the hash of its EC2NodeClass at the launch.
pub const NODE_CLASS_HASH: &str = "fleetwright.dev/ec2nodeclass-hash";

/// Annotation of a NodeClaim of this server: the version of that hash.
pub const NODE_CLASS_HASH_VERSION_KEY: &str = "fleetwright.dev/ec2nodeclass-hash-version";

/// Minimum age of a NodeClaim that drifts because its instance type is not offered: a catalogue may
/// lack new types for a while (Karpenter: instance type drift).
pub const MIN_AGE_OF_MISSING_TYPE: Millis = Millis::from_hours(1);

/// Labels by which a reserved instance is tied to its reservation.
const RESERVATION_LABELS: [&str; 3] = [
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
];

/// Why `claim` has drifted from `pool` as of `now`; `None` when it has not. The first reason that
/// applies is the result, in the order of [`DriftReason`], after a condition that was given.
#[must_use]
pub fn detect(claim: &DriftClaim<'_>, pool: &DriftPool<'_>, now: Timestamp) -> Option<Drift> {
    given(claim)
        .or_else(|| pool_hash_differs(claim, pool))
        .or_else(|| requirements_differ(claim, pool))
        .or_else(|| type_is_missing(claim, pool, now))
        .or_else(|| class_hash_differs(claim, pool))
        .or_else(|| instance::image_differs(claim, pool))
        .or_else(|| instance::security_groups_differ(claim, pool))
        .or_else(|| instance::subnet_differs(claim, pool))
        .or_else(|| instance::reservation_differs(claim, pool))
}

/// When `claim`, which has not drifted as of `now`, drifts without any change; `None` is never.
#[must_use]
pub fn next_drift(claim: &DriftClaim<'_>, pool: &DriftPool<'_>, now: Timestamp) -> Option<Timestamp> {
    let old = claim.created? + MIN_AGE_OF_MISSING_TYPE;
    (old > now && type_is_missing(claim, pool, old).is_some()).then_some(old)
}

fn given(claim: &DriftClaim<'_>) -> Option<Drift> {
    let (reason, message) = claim.condition?;
    Some(drift(DriftReason::Given(reason.clone()), message.clone()))
}

/// Whether both hashes exist, with one version, and differ.
fn differs(of_claim: Option<&VersionedHash>, now: Option<&VersionedHash>) -> bool {
    of_claim
        .zip(now)
        .is_some_and(|((hash, version), (current, current_version))| version == current_version && hash != current)
}

fn pool_hash_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let differs = differs(claim.own_hash, pool.own_hash) || differs(claim.karpenter_hash, pool.karpenter_hash);
    differs.then(|| drift(DriftReason::NodePoolDrifted, "the template of the NodePool has changed since the launch"))
}

fn requirements_differ(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let is_compared = |requirement: &&Requirement| {
        let key = requirement.key();
        !pool.labels.contains_key(key) && ![NODEPOOL, NODECLASS].contains(&key.as_ref())
    };
    // No key may be undefined: an instance without a label that the NodePool requires was launched
    // before the requirement.
    let is_missed = |requirement: &&Requirement| match label(claim.labels, requirement.key()) {
        Some(value) => !requirement.has(value),
        None => !requirement.allows_absence(),
    };
    let missed = pool.requirements.iter().filter(is_compared).find(is_missed)?;
    let found = label(claim.labels, missed.key()).map_or_else(|| "absent".to_owned(), |value| format!("{value:?}"));
    Some(drift(DriftReason::RequirementsDrifted, format!("the NodePool requires {missed}, and the label is {found}")))
}

/// The label with this canonical key, which may be written with a deprecated one.
fn label<'l>(labels: &'l Labels, key: &str) -> Option<&'l Text> {
    let deprecated = || labels.iter().find(|(written, _)| canonical_key(written) == key).map(|(_, value)| value);
    labels.get(key).or_else(deprecated)
}

fn type_is_missing(claim: &DriftClaim<'_>, pool: &DriftPool<'_>, now: Timestamp) -> Option<Drift> {
    let types = &pool.catalogue.types;
    let is_old = now.duration_since(claim.created?) >= MIN_AGE_OF_MISSING_TYPE;
    let name = claim.labels.get(INSTANCE_TYPE).filter(|_| is_old && !types.is_empty())?;
    let missing = |what: String| Some(drift(DriftReason::InstanceTypeNotFound, what));
    let Ok(at) = types.binary_search_by(|kind| kind.name.as_ref().cmp(name)) else {
        return missing(format!("the catalogue of the NodePool has no instance type {name}"));
    };
    let kind: &InstanceType = &types[at];
    if kind.offerings.iter().any(|offering| is_compatible(offering, claim.labels)) {
        return None;
    }
    missing(format!("no offering of {name} has the zone, the capacity type and the other labels of the instance"))
}

/// Whether an instance with `labels` may be one of this offering, available or not. When a
/// reservation ends, its instance continues as an on-demand one.
fn is_compatible(offering: &Offering, labels: &Labels) -> bool {
    let reserved = labels.get(CAPACITY_TYPE).is_some_and(|value| value.as_ref() == CapacityType::Reserved.as_str());
    let agrees = |key: &str, value: &str| labels.get(key).is_none_or(|label| label.as_ref() == value);
    let is_ignored = |key: &str| reserved && RESERVATION_LABELS.contains(&key);
    let paid = agrees(CAPACITY_TYPE, offering.capacity_type.as_str())
        || (reserved && offering.capacity_type == CapacityType::OnDemand);
    paid && agrees(ZONE, &offering.zone)
        && offering.labels.iter().all(|(key, value)| is_ignored(key) || agrees(key, value))
}

fn class_hash_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let differs = differs(claim.own_class_hash, pool.own_class_hash) || differs(claim.class_hash, pool.class_hash);
    differs.then(|| drift(DriftReason::NodeClassDrift, "the EC2NodeClass has changed since the launch"))
}

#[cfg(test)]
mod tests;
