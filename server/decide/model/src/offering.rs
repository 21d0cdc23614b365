//! Instance types and their offerings.

use std::fmt;
use std::sync::Arc;

use super::{InstanceTypeName, Labels, Requirements, Resources, Text, Zone};

/// Micro-dollars per hour. An integer, so that sums are exact and deterministic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MicroUsd(pub i64);

impl fmt::Display for MicroUsd {
    /// Dollars with the fewest exact decimals, at least two and at most six.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = format!("{:06}", self.0.unsigned_abs() % 1_000_000);
        let decimals = text.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{}", self.0.unsigned_abs() / 1_000_000, &text[..decimals])
    }
}

/// Capacity type. The order is the preference at launch: reserved, spot, on-demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CapacityType {
    /// Capacity reservations, which are paid for already.
    Reserved,
    /// Spot capacity, which the cloud may reclaim.
    Spot,
    /// On-demand capacity, at a fixed price.
    OnDemand,
}

impl CapacityType {
    /// The value of the label `karpenter.sh/capacity-type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }

    /// The capacity type of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Reserved, Self::Spot, Self::OnDemand].into_iter().find(|one| one.as_str() == name)
    }
}

/// The capacity reservation that an offering uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reservation {
    /// Reservation id; offerings with the same id in several catalogues share its instances.
    pub id: Text,
    /// Number of remaining instances.
    pub remaining: i64,
}

/// One offering of an instance type: zone, capacity type, price.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Offering {
    /// `topology.kubernetes.io/zone`.
    pub zone: Zone,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// Price per hour that choices are made by; 0 for reserved capacity.
    pub price: MicroUsd,
    /// Whether the price is an estimate.
    pub estimated: bool,
    /// Price per hour before NodeOverlays, where one has changed it.
    pub catalogue_price: Option<MicroUsd>,
    /// Whether it can be launched now. Unavailable offerings are retained for explanations.
    pub available: bool,
    /// The reservation that it uses; always set for [`CapacityType::Reserved`].
    pub reservation: Option<Reservation>,
    /// Node labels of this offering besides zone and capacity type (zone id, reservation id, …), shared by the offerings
    /// of a zone.
    pub labels: Arc<Labels>,
}

impl Offering {
    /// What an instance counts per hour in limits, holds, quotes and costs. A cluster states its own overlays, which
    /// therefore can raise it, and lower only what choices are made by.
    #[must_use]
    pub fn charged_price(&self) -> MicroUsd {
        self.catalogue_price.map_or(self.price, |price| price.max(self.price))
    }
}

/// A burstable instance type: CPU beyond its baseline is paid as surplus credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Burstable {
    /// Baseline of the whole machine, in millicores.
    pub baseline: i64,
    /// Price of surplus credits per vCPU and hour.
    pub credit_price: MicroUsd,
}

impl Burstable {
    /// Surplus credits per hour of a machine on which `cpu` millicores are requested, rounded down.
    #[must_use]
    pub fn surplus_credits(self, cpu: i64) -> MicroUsd {
        let surplus = cpu.saturating_sub(self.baseline).max(0);
        MicroUsd(surplus.saturating_mul(self.credit_price.0) / 1000)
    }
}

/// An instance type as configured by one NodeClass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceType {
    /// `node.kubernetes.io/instance-type`.
    pub name: InstanceTypeName,
    /// Labels of nodes of this type, and labels known to be absent (`DoesNotExist`). Keys that
    /// depend on the offering are excluded. Catalogues of one region share them.
    pub labels: Arc<Requirements>,
    /// Total resources; count against NodePool limits.
    pub capacity: Resources,
    /// Resources available to pods, DaemonSet pods included. Attach limits are
    /// `attachable-volumes-<driver>`.
    pub allocatable: Resources,
    /// Launched only if no ordinary type fits: metal, accelerators (Karpenter AWS §4.2, filter 5).
    pub exotic: bool,
    /// Set when CPU beyond a baseline costs more than the price.
    pub burstable: Option<Burstable>,
    /// Offerings, in any order.
    pub offerings: Vec<Offering>,
}

/// The instance types of a NodePool: one catalogue per distinct NodeClass configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    /// Sorted by name.
    pub types: Vec<InstanceType>,
    /// Label keys set by offerings, besides zone and capacity type.
    pub offering_keys: Vec<Text>,
}

/// A catalogue shared by all pools and plans that use it.
pub type SharedCatalogue = Arc<Catalogue>;
