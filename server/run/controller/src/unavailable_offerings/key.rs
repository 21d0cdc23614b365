//! What a refusal is about, and what replicas tell each other of it.

use model::{CapacityType, ClaimName, ClusterName, InstanceTypeName, RefusalCause, SizeClass, Text, Timestamp, Zone};

/// An offering as launches name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offering {
    /// Name of the instance type, such as `m5.large`.
    pub instance_type: InstanceTypeName,
    /// Name of the zone in this account.
    pub zone: Zone,
    /// Id of the zone, the same in all accounts; `None` when the catalogue does not say it.
    pub zone_id: Option<Text>,
    pub capacity_type: CapacityType,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// Name of the instance type, such as `m5.large`.
    pub instance_type: InstanceTypeName,
    /// Id of the zone; its name in this account when the id is not known.
    pub zone: Text,
    /// Capacity type of the refused launch.
    pub capacity_type: CapacityType,
    /// Whether it holds for all accounts of the region. A zone's name means another zone in another account, and a
    /// reservation or a quota is that of one account.
    pub is_shared: bool,
    /// Class of the refused number of instances.
    pub size: SizeClass,
}

impl OfferingKey {
    /// What a refusal of `size` instances of `offering` for `cause` is about.
    pub(super) fn of_refusal(offering: &Offering, cause: RefusalCause, size: SizeClass) -> Self {
        let Offering { instance_type, zone, zone_id, capacity_type } = offering;
        let is_shared =
            cause == RefusalCause::Capacity && zone_id.is_some() && *capacity_type != CapacityType::Reserved;
        Self {
            instance_type: instance_type.clone(),
            zone: zone_id.clone().unwrap_or_else(|| zone.as_text().clone()),
            capacity_type: *capacity_type,
            is_shared,
            size,
        }
    }

    /// Whether it is about this zone and capacity type.
    pub(crate) fn is_in(&self, zone: &Zone, zone_id: Option<&Text>, capacity_type: CapacityType) -> bool {
        let is_zone = zone_id.is_some_and(|id| *id == self.zone) || (!self.is_shared && *zone.as_text() == self.zone);
        is_zone && self.capacity_type == capacity_type
    }
}

/// A refused offering, as replicas tell each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableOffering {
    pub key: OfferingKey,
    /// Refusals in a row; 0 once a launch has succeeded.
    pub failures: u32,
    /// The last refusal.
    pub refused_at: Timestamp,
    /// When the exclusion ends and a probe is due.
    pub until: Timestamp,
    pub reason: Text,
    /// Number of the change in the store; 0 before the store has it.
    pub version: u64,
}

/// A change that the other replicas do not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferingUpdate {
    Refused(UnavailableOffering),
    /// A launch in it succeeded.
    Cleared(OfferingKey),
    /// This process gives its probe back without an outcome.
    ProbeReleased(OfferingKey),
}

/// Answer to the request for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// This process holds the probe.
    Granted,
    /// Another process holds it, or the exclusion has not ended.
    Denied,
    /// The store knows of no refusal, or of a success since.
    Absent,
}

/// What became of a launch in one offering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferingOutcome {
    pub offering: Offering,
    /// How many instances were asked for.
    pub asked: u32,
    /// How many of them were launched.
    pub launched: u32,
    /// Why the others were not, and the error code of the cloud; `None` if the cloud tried no further.
    pub refusal: Option<(RefusalCause, Text)>,
}

/// The launch that has taken a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeHolder {
    pub cluster: ClusterName,
    pub claim: ClaimName,
}
