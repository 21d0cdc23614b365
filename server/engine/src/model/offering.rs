//! What can be bought: instance types and their offerings.

use std::fmt;
use std::sync::Arc;

use super::{Labels, Requirements, Resources, Text};

/// Micro-dollars per hour. Integers, so that sums are exact on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MicroUsd(pub i64);

impl fmt::Display for MicroUsd {
    /// Dollars with as few decimals as are exact, at most six and at least two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = format!("{:06}", self.0.unsigned_abs() % 1_000_000);
        let decimals = text.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{}", self.0.unsigned_abs() / 1_000_000, &text[..decimals])
    }
}

/// How capacity is paid for. The order is the order of preference at launch: what is paid already, then spot, then on-demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CapacityType {
    /// Capacity reservations, paid already.
    Reserved,
    /// Spot.
    Spot,
    /// On-demand.
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
}

/// A capacity reservation that an offering draws on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reservation {
    /// Identity; offerings of several catalogues with one id draw on the same machines.
    pub id: Text,
    /// Machines that are left.
    pub remaining: i64,
}

/// One way to buy one instance type: a zone, a capacity type, a price.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Offering {
    /// `topology.kubernetes.io/zone`.
    pub zone: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Price per hour. Reserved capacity costs 0.
    pub price: MicroUsd,
    /// Whether the price is an estimate.
    pub estimated: bool,
    /// Whether it can be launched now. Offerings that cannot are kept for explanations.
    pub available: bool,
    /// The reservation that it draws on; always there for [`CapacityType::Reserved`].
    pub reservation: Option<Reservation>,
    /// Labels that this offering gives the node besides zone and capacity type (zone id, reservation id, …).
    pub labels: Labels,
}

/// An instance type as one NodeClass would run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// `node.kubernetes.io/instance-type`.
    pub name: Text,
    /// Labels that a node of this type has, and those that it is known not to have (`DoesNotExist`). Keys that depend on
    /// the offering are not here.
    pub labels: Requirements,
    /// What the machine has; counts against NodePool limits.
    pub capacity: Resources,
    /// What pods can use, DaemonSets included. Attach limits are `attachable-volumes-<driver>`.
    pub allocatable: Resources,
    /// Machines that are launched only when nothing ordinary would do: metal, accelerators (Karpenter AWS §4.2, filter 5).
    pub exotic: bool,
    /// Ways to buy it, in any order.
    pub offerings: Vec<Offering>,
}

/// The instance types that a NodePool may choose from: one catalogue for each distinct NodeClass configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    /// Sorted by name.
    pub types: Vec<InstanceType>,
    /// Label keys that offerings set, beside zone and capacity type.
    pub offering_keys: Vec<Text>,
}

/// Catalogues are shared by all pools and plans that use them.
pub type SharedCatalogue = Arc<Catalogue>;
