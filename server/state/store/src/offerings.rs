//! Offerings that the cloud refused, shared by the replicas of a region: until when they are excluded, and which replica
//! may probe them.
//!
//! The replica that saw the outcome of a launch decides how long an offering is excluded. The store keeps the later of two
//! ends, and gives each probe to one replica at a time.

use std::collections::BTreeMap;

/// What a refusal is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// The account that alone it holds for; `None` for all accounts of the region.
    pub account: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// Zone id; the zone's name in `account` when its id is not known.
    pub zone: String,
    /// Capacity type: spot, on-demand, reserved.
    pub capacity_type: String,
    /// Smallest number of instances of the refused size class. A refusal excludes this number and more.
    pub size: u32,
}

/// A refused offering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferingRow {
    /// What was refused.
    pub key: OfferingKey,
    /// Refusals in a row; 0 once a launch has succeeded.
    pub failures: u32,
    /// The last refusal, in milliseconds since 1970.
    pub refused_ms: i64,
    /// End of the exclusion, in milliseconds since 1970.
    pub until_ms: i64,
    /// Error code of the cloud.
    pub reason: String,
    /// Grows with every change of an offering. Readers ignore a row whose version they have seen.
    pub version: u64,
}

/// A change that a replica makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferingChange {
    /// The cloud refused it, which ends a probe. The version is the store's. A row with a later end is kept.
    Refused(OfferingRow),
    /// A launch in it succeeded: it is excluded no longer, and a probe has ended.
    Cleared(OfferingKey),
    /// `holder` gives its probe back without an outcome.
    ProbeReleased {
        /// The offering.
        key: OfferingKey,
        /// The process that held the probe.
        holder: String,
    },
}

impl OfferingChange {
    /// The offering that changes.
    #[must_use]
    pub fn key(&self) -> &OfferingKey {
        match self {
            Self::Refused(row) => &row.key,
            Self::Cleared(key) | Self::ProbeReleased { key, .. } => key,
        }
    }
}

/// Answer to the request for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The caller holds the probe until its lease ends.
    Granted,
    /// Another process holds it, or the exclusion has not ended.
    Denied,
    /// No refusal of the offering is stored, or a launch has succeeded since.
    Absent,
}

/// The last change of each offering, by key.
#[must_use]
pub fn last_changes(changes: &[OfferingChange]) -> Vec<&OfferingChange> {
    changes.iter().map(|change| (change.key(), change)).collect::<BTreeMap<_, _>>().into_values().collect()
}
