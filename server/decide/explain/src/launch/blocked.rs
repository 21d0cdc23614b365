//! What a trial of a pool finds: a possible launch, or what blocks every launch.

use std::rc::Rc;

use crate::topology::{Location, TopologyConflict};
use model::{HostPort, MicroUsd, NotReady, Requirement, Requirements, Taint, Text};

/// A possible launch: indices of instance type and offering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Launch {
    /// Price per hour; first, so that launches sort by it.
    pub price: MicroUsd,
    /// Index into the catalogue.
    pub instance: u32,
    /// Index into the type's offerings.
    pub offering: u32,
}

/// Why a pool cannot launch a node for a pod. Variants are in the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The pool or its NodeClass is not ready.
    NotReady(NotReady),
    /// A taint of the pool that the pod does not tolerate.
    Taint(Taint),
    /// The node affinity of the pod has only empty terms.
    NoTerm,
    /// The requirements of the pod on this label contradict each other.
    Contradiction(Text),
    /// The pod requires nodes with these names.
    Named(Requirement),
    /// A label requirement that the pool cannot satisfy.
    Label(Requirement),
    /// No instance type satisfies all label requirements.
    Types(Requirements),
    /// The volumes require a label that the pool cannot have, or a location without an offering.
    Volume(Requirement),
    /// The pod needs more volumes of this driver than any instance type attaches.
    Attach(Text),
    /// No matching instance type has enough resources.
    Resources {
        /// Instance types that match all labels.
        types: Rc<[u32]>,
        /// Whether the ceilings of the pool exclude larger types.
        capped: bool,
    },
    /// A DaemonSet of the pool uses the host port.
    Port(HostPort, String),
    /// These instance types fit, but none has an open offering.
    Offering {
        types: Vec<u32>,
        /// The merged requirements of pool and pod.
        merged: Requirements,
    },
    /// The on-demand floor or the maximum spot share of the pool.
    SpotShare,
    /// Too few distinct values of a label (`minValues`).
    MinValues { key: Text, wanted: u32, found: u32 },
    /// The node limit of the pool is reached.
    NodeLimit,
    /// These instance types have open offerings, but exceed the limits of the pool.
    Limits(Vec<u32>),
    /// A topology rule excludes every possible location.
    Topology(TopologyConflict, Vec<Location>),
}

impl Blocked {
    /// Position of the failed check; higher means that more checks passed.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::NotReady(_) => 0,
            Self::Taint(_) => 1,
            Self::NoTerm | Self::Contradiction(_) => 2,
            Self::Named(_) | Self::Label(_) => 3,
            Self::Types(_) => 4,
            Self::Volume(_) => 5,
            Self::Attach(_) => 6,
            Self::Resources { .. } => 7,
            Self::Port(..) => 8,
            Self::Offering { .. } => 9,
            Self::SpotShare => 10,
            Self::MinValues { .. } => 11,
            Self::NodeLimit => 12,
            Self::Limits(_) => 13,
            Self::Topology(..) => 14,
        }
    }
}
