//! Whether a pool could launch a node for a pod on top of the finished plan, and the obstacle if
//! not.
//!
//! The checks run in a fixed order: readiness, taints, labels, volumes, resources, host ports,
//! offerings, `minValues`, limits, topology. The first check that excludes everything is the
//! obstacle. If the pod has several alternatives (OR-terms, volume alternatives), the alternative
//! that passed the most checks is reported.

mod blocked;
mod trial;

use std::collections::BTreeSet;

use model::Text;
use model::resources::NODES;

use super::catalogue::shortage;
use super::offering_filter::OfferingFilter;
use super::pod_requirements::{IgnoredRule, PodRequirements};
use super::snapshot::PlanSnapshot;
use super::topology::Topology;
use trial::Trial;

pub(super) use blocked::{Blocked, Launch};

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
