//! Drift: a launched NodeClaim that does not match its NodePool or NodeClass any more (Karpenter:
//! drift).
//!
//! [`detect`] is a function of values, so that the controller and the offline plan find the same
//! drift. [`NodePoolTemplate::hash`] is the hash that this server writes on the NodeClaims that it
//! creates.
//!
//! Reading order: this file (what is compared, in which order), [`template`] (the hash).

pub mod template;

use std::fmt;

pub use template::{HASH_VERSION, NodePoolTemplate};

use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE, canonical_key};
use model::{
    CapacityType, Catalogue, InstanceType, Labels, Millis, Offering, Requirement, Requirements, Text, Timestamp,
};

/// A hash and the version of the function that made it. Hashes of different versions are not
/// comparable.
pub type VersionedHash = (Text, Text);

/// Annotation of a NodeClaim of this server: the hash of its NodePool's template at the launch.
pub const POOL_HASH: &str = "fleetwright.dev/nodepool-hash";

/// Annotation of a NodeClaim of this server: the version of that hash.
pub const POOL_HASH_VERSION: &str = "fleetwright.dev/nodepool-hash-version";

/// Minimum age of a NodeClaim that drifts because its instance type is not offered: a catalogue may
/// lack new types for a while (Karpenter: instance type drift).
pub const MIN_AGE_OF_MISSING_TYPE: Millis = Millis::from_hours(1);

/// Labels by which a reserved instance is tied to its reservation.
const RESERVATION_LABELS: [&str; 3] = [
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
];

/// A launched NodeClaim. What is `None` is unknown, and no drift follows from it.
#[derive(Debug, Clone, Copy)]
pub struct DriftClaim<'a> {
    /// `metadata.labels`.
    pub labels: &'a Labels,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<&'a VersionedHash>,
    /// The annotations `fleetwright.dev/nodepool-hash` and its version.
    pub own_hash: Option<&'a VersionedHash>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version.
    pub class_hash: Option<&'a VersionedHash>,
    /// `status.imageID`.
    pub image: Option<&'a Text>,
    /// Reason and message of a condition `Drifted` that is accepted as it stands, such as one of a
    /// captured cluster.
    pub condition: Option<(&'a Text, &'a Text)>,
}

/// The NodePool of a NodeClaim, and its NodeClass, as they are now.
#[derive(Debug, Clone, Copy)]
pub struct DriftPool<'a> {
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<&'a VersionedHash>,
    /// [`NodePoolTemplate::hash`] with [`HASH_VERSION`].
    pub own_hash: Option<&'a VersionedHash>,
    /// Requirements of the template, merged with its labels or not.
    pub requirements: &'a Requirements,
    /// Labels of the template. The hash covers them, and requirements on their keys are not
    /// compared.
    pub labels: &'a Labels,
    /// The instance types that the NodePool may launch, before requirements. An empty one is
    /// unknown.
    pub catalogue: &'a Catalogue,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version.
    pub class_hash: Option<&'a VersionedHash>,
    /// Ids of `status.amis` of the NodeClass; empty while they are unknown.
    pub images: &'a [Text],
}

/// Why a NodeClaim has drifted: what the condition `Drifted` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The reason.
    pub reason: DriftReason,
    /// What differs, in one sentence.
    pub message: Text,
}

/// The reason of a condition `Drifted`, with the spelling of Karpenter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriftReason {
    /// The hash of the NodePool's template differs.
    NodePoolDrifted,
    /// The labels do not satisfy the NodePool's requirements.
    RequirementsDrifted,
    /// The instance type, or its offering, does not exist any more.
    InstanceTypeNotFound,
    /// The hash of the NodeClass differs.
    NodeClassDrift,
    /// The NodeClass selects other images.
    AmiDrift,
    /// The reason of a condition that was given.
    Given(Text),
}

impl DriftReason {
    /// The spelling in conditions.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::NodePoolDrifted => "NodePoolDrifted",
            Self::RequirementsDrifted => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
            Self::NodeClassDrift => "NodeClassDrift",
            Self::AmiDrift => "AMIDrift",
            Self::Given(reason) => reason,
        }
    }
}

impl fmt::Display for DriftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why `claim` has drifted from `pool` as of `now`; `None` when it has not. The first reason that
/// applies is the result, in the order of [`DriftReason`], after a condition that was given.
#[must_use]
pub fn detect(claim: &DriftClaim<'_>, pool: &DriftPool<'_>, now: Timestamp) -> Option<Drift> {
    given(claim)
        .or_else(|| pool_hash_differs(claim, pool))
        .or_else(|| requirements_differ(claim, pool))
        .or_else(|| type_is_missing(claim, pool, now))
        .or_else(|| class_hash_differs(claim, pool))
        .or_else(|| image_differs(claim, pool))
}

/// When `claim`, which has not drifted as of `now`, drifts without any change; `None` is never.
#[must_use]
pub fn next_drift(claim: &DriftClaim<'_>, pool: &DriftPool<'_>, now: Timestamp) -> Option<Timestamp> {
    let old = claim.created? + MIN_AGE_OF_MISSING_TYPE;
    (old > now && type_is_missing(claim, pool, old).is_some()).then_some(old)
}

fn drift(reason: DriftReason, message: impl Into<Text>) -> Drift {
    Drift { reason, message: message.into() }
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
    differs(claim.class_hash, pool.class_hash)
        .then(|| drift(DriftReason::NodeClassDrift, "the EC2NodeClass has changed since the launch"))
}

fn image_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let image = claim.image.filter(|image| !image.is_empty() && !pool.images.is_empty())?;
    let listed = pool.images.contains(image);
    (!listed).then(|| drift(DriftReason::AmiDrift, format!("the EC2NodeClass does not select image {image} any more")))
}

#[cfg(test)]
mod tests;
