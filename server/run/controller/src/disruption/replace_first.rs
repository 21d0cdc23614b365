//! Machines that are replaced first and then removed, for a method that chose them: drift and voluntary repair.
//!
//! Budgets hold them, and do-not-disrupt on the Node; pods hold them by do-not-disrupt unless the NodeClaim has
//! a `terminationGracePeriod`. A machine with pods is removed when the nodes that its pods are assigned to are
//! initialized. That of a static NodePool is replaced by one machine of the same NodePool, for which
//! `limits.nodes` must have room.
//!
//! Several machines are replaced at one time, as far as budgets allow. Those under way are first, then those
//! without pods, and then those whose cause is oldest; machines whose replacement failed are last.

use super::candidates::{Candidate, Candidates};
use super::evictions::{EvictionReader, is_drain_blocked};
use super::method::DisruptionView;
use super::selection::{MachineEvictions, OutgoingMachine, OutgoingMachines, OutgoingPool, PoolFacts, StaticCounts};
use cluster::{ClaimRecord, PodRecord, PoolRecord};
use model::disruption_policy::DisruptionReason;
use model::resources::NODES;
use model::{Text, Timestamp};

/// A machine to replace and to remove.
#[derive(Debug)]
pub(super) struct Outgoing<'v> {
    pub candidate: Candidate<'v>,
    /// Since when there is a cause.
    pub since: Timestamp,
    /// The cause, as a sentence.
    pub why: Text,
}

/// Reads what holds `outgoing`, which a method chose for `reason` among the candidates and the machines that are under
/// way.
pub(super) fn read(
    outgoing: Vec<Outgoing<'_>>,
    reason: DisruptionReason,
    candidates: &Candidates<'_>,
    view: &DisruptionView<'_>,
) -> OutgoingMachines {
    let mut evictions = EvictionReader::new(view);
    let mut facts = OutgoingMachines { cluster: candidates.cluster_budget(), ..OutgoingMachines::default() };
    for one in outgoing {
        let pool = one.candidate.pool;
        if !facts.pools.contains_key(&pool.pool.name) {
            facts.pools.insert(pool.pool.name.clone(), outgoing_pool(pool, reason, candidates, view));
        }
        facts.machines.push(outgoing_machine(one, &mut evictions, view));
    }
    facts.limits = evictions.limits();
    facts
}

fn outgoing_machine(
    outgoing: Outgoing<'_>,
    evictions: &mut EvictionReader<'_>,
    view: &DisruptionView<'_>,
) -> OutgoingMachine {
    let Outgoing { candidate, since, why } = outgoing;
    let (claim, node) = (candidate.claim, &candidate.node.name);
    let begun = view.state.replacement_of(&claim.name).map(|replacement| replacement.since);
    let moving = || view.state.pods_to_move_from(node, view.now);
    let has_place = |pod: &PodRecord| {
        if view.waits_for_initialization {
            view.state.initialized_node_for(&pod.key).is_some()
        } else {
            view.state.assigned_node(&pod.key).is_some()
        }
    };
    // Whether another node has a place for a pod of another scheduler is not known.
    let foreign = view.state.pods_of_other_schedulers_on(node).count();
    let unmoved = moving().filter(|pod| !has_place(pod)).count() + foreign;
    OutgoingMachine {
        machine: view.machine(&claim.name),
        since,
        why,
        begun,
        failures: view.backoff.failures_of(&claim.name),
        has_pods: view.state.pods_on(node).any(|pod| pod.is_reschedulable()),
        protections: candidate.protections(view.state),
        ends_drains: claim.termination_grace_period.is_some(),
        is_drain_blocked: begun.is_none() && (foreign > 0 || is_drain_blocked(&candidate, view)),
        unassigned: moving().filter(|pod| view.state.assignments().get(&pod.key).is_none()).count(),
        unmoved,
        has_moved_pod: begun.is_some_and(|since| candidate.has_moved_pod(since, view)),
        evictions: if unmoved == 0 { evictions.machine(&candidate) } else { MachineEvictions::default() },
    }
}

fn outgoing_pool(
    pool: &PoolRecord,
    reason: DisruptionReason,
    candidates: &Candidates<'_>,
    view: &DisruptionView<'_>,
) -> OutgoingPool {
    let name = &pool.pool.name;
    let (policy, replicas) = (pool.disruption.clone(), pool.pool.replicas);
    OutgoingPool {
        facts: PoolFacts { policy, replicas, nodes: candidates.nodes_of(name) },
        is_ready: pool.pool.not_ready.is_none(),
        backoff_until: view.backoff.until(name, view.now),
        begun_for_others: candidates.begun_for_others(name, reason),
        counts: replicas.map(|_| static_counts(pool, view)),
    }
}

fn static_counts(pool: &PoolRecord, view: &DisruptionView<'_>) -> StaticCounts {
    let stays = |claim: &ClaimRecord| !view.is_leaving(claim) && view.state.replacement_of(&claim.name).is_none();
    let serves = |claim: &ClaimRecord| {
        let node = view.state.node_of_claim(&claim.name);
        node.is_some_and(|node| node.ready && (node.is_initialized() || !view.waits_for_initialization))
    };
    let limits = &pool.pool.limits;
    let limit = limits.contains(NODES).then(|| limits.get(NODES));
    let mut counts = StaticCounts { limit, ..StaticCounts::default() };
    for claim in view.state.claims().filter(|claim| claim.pool == pool.pool.name) {
        counts.claims += 1;
        counts.staying += usize::from(stays(claim));
        counts.serving += usize::from(stays(claim) && serves(claim));
    }
    counts
}
