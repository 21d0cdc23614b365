//! Whether a pool could launch a node for a pod on top of the finished plan, and the obstacle if
//! not.
//!
//! The checks run in a fixed order: readiness, taints, labels, volumes, resources, host ports,
//! offerings, `minValues`, limits, topology. The first check that excludes everything is the
//! obstacle. If the pod has several alternatives (OR-terms, volume alternatives), the alternative
//! that passed the most checks is reported.

mod trial;

use std::collections::BTreeSet;
use std::rc::Rc;

use model::resources::NODES;
use model::{HostPort, MicroUsd, NotReady, Requirement, Requirements, Taint, Text};

use super::catalogue::shortage;
use super::offering_filter::OfferingFilter;
use super::pod_requirements::{IgnoredRule, PodRequirements};
use super::snapshot::PlanSnapshot;
use super::topology::{Location, Topology, TopologyConflict};
use trial::Trial;

/// A possible launch: indices of instance type and offering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Launch {
    /// Price per hour; first, so that launches sort by it.
    pub price: MicroUsd,
    /// Index into the catalogue.
    pub instance: u32,
    /// Index into the type's offerings.
    pub offering: u32,
}

/// Why a pool cannot launch a node for a pod. Variants are in the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blocked {
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
        /// Instance types with enough resources.
        types: Vec<u32>,
        /// The merged requirements of pool and pod.
        merged: Requirements,
    },
    /// The on-demand floor or the maximum spot share of the pool.
    SpotShare,
    /// Too few distinct values of a label (`minValues`).
    MinValues {
        /// The label key.
        key: Text,
        /// Required number of values.
        wanted: u32,
        /// Available number of values.
        found: u32,
    },
    /// The node limit of the pool is reached.
    NodeLimit,
    /// These instance types have open offerings, but exceed the limits of the pool.
    Limits(Vec<u32>),
    /// A topology rule excludes every possible location.
    Topology(TopologyConflict, Vec<Location>),
}

impl Blocked {
    /// Position of the failed check; higher means that more checks passed.
    pub(super) fn rank(&self) -> u8 {
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

/// The possible launches of `pool` for the pod, cheapest first.
///
/// # Errors
/// The obstacle of the alternative that passed the most checks.
pub(super) fn launches(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    pool: u32,
) -> Result<Vec<Launch>, Blocked> {
    let trial = Trial { snapshot, pod_reqs, topology, index: pool, pool: &snapshot.input.pools[pool as usize] };
    trial.check_pool()?;
    let mut found: BTreeSet<Launch> = BTreeSet::new();
    let mut furthest = Blocked::NoTerm;
    for alternative in &topology.alternatives {
        for volumes in pod_reqs.volume_alternatives() {
            match trial.launches_for(alternative, &volumes) {
                Ok(launches) => found.extend(launches),
                Err(blocked) if blocked.rank() > furthest.rank() || furthest == Blocked::NoTerm => furthest = blocked,
                Err(_) => {}
            }
        }
    }
    if found.is_empty() { Err(furthest) } else { Ok(found.into_iter().collect()) }
}

/// Whether `pool` could launch any node for the pod. Same answer as [`launches`], but stops at the
/// first possible launch and does not name the obstacle.
pub(super) fn could_launch(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    pool: u32,
) -> bool {
    let trial = Trial { snapshot, pod_reqs, topology, index: pool, pool: &snapshot.input.pools[pool as usize] };
    if trial.check_pool().is_err() || (trial.has_no_node_left() && !pod_reqs.ignores(&IgnoredRule::Limits(pool))) {
        return false;
    }
    if snapshot.pools[pool as usize].base.iter().any(|requirement| requirement.min_values().is_some()) {
        return launches(snapshot, pod_reqs, topology, pool).is_ok();
    }
    let filter = OfferingFilter::new(snapshot, pod_reqs, pool);
    topology.alternatives.iter().filter_map(|alternative| trial.merge_with_pool(alternative).ok()).any(|own| {
        let merged =
            pod_reqs.volume_alternatives().into_iter().filter_map(|volumes| trial.with_volumes(&own, &volumes).ok());
        merged.into_iter().any(|merged| trial.any_fits(&filter, &merged, &trial.types(&merged)))
    })
}

/// The amounts by which a node of the type exceeds the limits of `pool`: (resource, amount).
pub(super) fn excess(snapshot: &PlanSnapshot<'_>, pool: u32, t: u32) -> Vec<(Text, i64)> {
    let nodepool = &snapshot.input.pools[pool as usize];
    let capacity = &nodepool.catalogue.types[t as usize].capacity;
    let limited = nodepool.limits.iter().filter(|(name, _)| name.as_ref() != NODES);
    let over = limited.map(|(name, _)| (name.clone(), capacity.get(name) - snapshot.left(pool, name).unwrap_or(0)));
    over.filter(|(_, over)| *over > 0).collect()
}

/// The type of `types` nearest to fitting the pod, and what it lacks.
pub(super) fn nearest_type(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    pool: u32,
    types: &[u32],
) -> Option<(u32, Vec<(Text, i64)>)> {
    let (free, requests) = (snapshot.free_capacity(pool), &pod_reqs.shape.requests);
    let requested = free.request_columns(requests);
    let nearest = types.iter().copied().min_by_key(|&t| requested.distance(t))?;
    Some((nearest, shortage(requests, &free.types[nearest as usize].free)))
}
