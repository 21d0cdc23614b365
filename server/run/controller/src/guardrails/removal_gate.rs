//! Applies the removal gate to one cluster: collects the input of [`evaluate_removal`] and carries
//! out its decision.

use std::collections::BTreeSet;

use super::removal::{
    BlockCause, Distrust, Evidence, GateDecision, MachineFacts, NodeState, RemovalConstraints, evaluate_removal,
};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::DecisionQueue;
use crate::disruption::Disruption;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::{count_removal, removal_headroom};
use crate::nodeclaim::GarbageCollector;
use crate::nodeclaim::instance_inspection::inspect_instance_of;
use crate::nodeclaim::{LostNode, ManagedClaim, NodeClaims, StageKind};
use crate::step_view::StepView;
use cluster::{ClusterState, Key, NodeRecord, Observation};
use model::{ClaimName, NodeName, PoolName, Timestamp};

impl ClusterController {
    /// Whether the terminating machine of `claim`, which has no Node, may be terminated. If its
    /// Node vanished under pods, the removal waits and the cloud is queried by id.
    pub(crate) fn may_terminate_without_node(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) -> bool {
        let facts = machine_facts(claim, &self.step_view(ctx.now));
        let verdict = evaluate_removal(Evidence::Terminating, facts, &RemovalConstraints::default());
        let may_begin = apply_gate_decision(BlockCause::NodeVanished, claim, verdict, ctx.now, &mut self.guardrails);
        if !may_begin {
            inspect_instance_of(claim, ctx, &mut self.gc, &self.claims);
        }
        may_begin
    }
}

/// Applies an operator's confirmation to every removal that is held now.
pub(crate) fn confirm_removals(
    now: Timestamp,
    claims: &mut NodeClaims,
    disruption: &mut Disruption,
    gc: &mut GarbageCollector,
    guardrails: &ClusterGuardrails,
) {
    let held: Vec<ClaimName> = guardrails.waiting_removals().map(|(_, claim, _)| claim.clone()).collect();
    for claim in held {
        if let Some(machine) = claims.get_mut(&claim) {
            machine.confirm_removal(now);
        }
    }
    gc.confirm_missing();
    disruption.mark_changed();
}

/// Counts the removal of an orphaned machine if the rate limit admits it; returns whether it
/// does.
pub(crate) fn admit_orphan_removal(
    claim: &ClaimName,
    ctx: &mut Context<'_>,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> bool {
    let (headroom, _) = removal_headroom(vec![claims.price_of(claim)], ctx, claims, decisions);
    if headroom > 0 {
        count_removal(claim, ctx, claims);
    }
    headroom > 0
}

/// Limits that apply to removing the machine of `claim` on missing evidence.
pub(crate) fn removal_constraints(claim: &ClaimName, view: &StepView<'_>, ctx: &Context<'_>) -> RemovalConstraints {
    let (headroom, capped) = removal_headroom(vec![view.claims.price_of(claim)], ctx, view.claims, view.decisions);
    let capped = capped.filter(|_| headroom == 0);
    let pool = view.claims.pool_of(claim, view.state);
    let frozen = pool.and_then(|pool| ctx.guardrails.freezes.for_pool(&ctx.cluster, Some(pool))).cloned();
    RemovalConstraints { distrusted: distrust(view), frozen, capped, ..RemovalConstraints::default() }
}

/// Drops the blocks of machines that are gone.
pub(crate) fn drop_stale_blocks(guardrails: &mut ClusterGuardrails, claims: &NodeClaims) {
    for cause in [
        BlockCause::ByHand,
        BlockCause::NodeVanished,
        BlockCause::Missing,
        BlockCause::Foreign,
        BlockCause::Unconfirmed,
    ] {
        guardrails.retain_waiting_removals(cause, |claim| claims.contains(claim));
    }
}

/// Records or releases the block that `verdict` asks for; returns whether the removal may begin.
pub(crate) fn apply_gate_decision(
    cause: BlockCause,
    claim: &ClaimName,
    verdict: GateDecision,
    now: Timestamp,
    guardrails: &mut ClusterGuardrails,
) -> bool {
    match verdict {
        GateDecision::Proceed => {
            guardrails.release_removal(cause, claim);
            true
        }
        GateDecision::Block { refusal, .. } => {
            guardrails.block_removal(cause, claim, refusal, now);
            false
        }
    }
}

/// Keeps the disruption policies of NodePools that `observation` deletes, for the removal of
/// their nodes.
pub(crate) fn keep_disruption_policies(
    observation: &Observation,
    guardrails: &mut ClusterGuardrails,
    state: &ClusterState,
) {
    let lost: Vec<PoolName> = match observation {
        Observation::Delete(Key::Pool(name)) => vec![name.clone()],
        Observation::Snapshot(snapshot) => {
            let shown: BTreeSet<&PoolName> = snapshot.pools.iter().map(|record| &record.pool.name).collect();
            state.pools().map(|record| &record.pool.name).filter(|name| !shown.contains(name)).cloned().collect()
        }
        _ => return,
    };
    for name in lost {
        if let Some(record) = state.pool(&name) {
            guardrails.keep_disruption_policy(name, record.disruption.clone());
        }
    }
}

/// Why the agent's snapshot, or the cloud's listing, is not trusted.
fn distrust(view: &StepView<'_>) -> Option<Distrust> {
    let quarantine = view.guardrails.quarantine();
    let quarantine = quarantine.map(|quarantine| Distrust::Quarantine(quarantine.reason().clone()));
    quarantine.or_else(|| view.gc.suspicion().map(|suspicion| Distrust::Listing(suspicion.loss.clone())))
}

/// Nodes of managed machines that `observation` deletes, by NodeClaim.
pub(crate) fn nodes_lost_by(observation: &Observation, state: &ClusterState) -> Vec<(ClaimName, LostNode)> {
    let lost = |name: &NodeName| {
        let claim = state.claim_of_node(state.node(name)?)?;
        Some((claim.name.clone(), LostNode { name: name.clone() }))
    };
    match observation {
        Observation::Delete(Key::Node(name)) => lost(name).into_iter().collect(),
        Observation::Snapshot(snapshot) => {
            let shown: BTreeSet<&NodeName> = snapshot.nodes.iter().map(|node| &node.name).collect();
            state.nodes().filter(|node| !shown.contains(&node.name)).filter_map(|node| lost(&node.name)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether most Nodes of managed machines have vanished.
pub(crate) fn most_nodes_vanished(view: &StepView<'_>) -> bool {
    let rule = &view.settings().guardrails.quarantine;
    if rule.percent == 0 {
        return false;
    }
    let vanished = view.claims.iter().filter(|machine| has_vanished(machine, view.state)).count();
    let shown = view.claims.iter().filter(|machine| node_of(machine, view.state).is_some()).count();
    vanished > rule.free_machines && vanished * 100 > rule.percent * (vanished + shown)
}

/// Whether a machine's Node existed and is not reported any more.
fn has_vanished(machine: &ManagedClaim, state: &ClusterState) -> bool {
    let registered = || state.claim(machine.name()).is_some_and(|claim| claim.condition_digest.is_registered());
    machine.stage() != StageKind::Deleting
        && node_of(machine, state).is_none()
        && (machine.lost_node().is_some() || registered())
}

/// Number of pods bound to a machine's vanished Node. Without the name of that Node, as after a
/// restart, the pods of all unreported Nodes count.
fn pods_of_vanished_node(machine: &ManagedClaim, state: &ClusterState) -> Option<usize> {
    has_vanished(machine, state).then(|| match machine.lost_node() {
        Some(LostNode { name }) => state.non_daemon_pods_on(name),
        None => state.non_daemon_pods_on_missing_nodes(),
    })
}

/// The Node of a launched machine.
fn node_of<'s>(machine: &ManagedClaim, state: &'s ClusterState) -> Option<&'s NodeRecord> {
    let launched = !machine.provider_id().is_empty();
    launched.then(|| state.node_of_machine(machine.provider_id())).flatten()
}

/// Whether it is unknown if the machine ever had a Node: it was recovered from a launch row or
/// a cloud listing, and its NodeClaim is not reported.
fn is_unknown(machine: &ManagedClaim, state: &ClusterState) -> bool {
    machine.planned().is_none()
        && machine.lost_node().is_none()
        && machine.stage() != StageKind::Deleting
        && !machine.provider_id().is_empty()
        && !state.is_claim_observed(machine.name())
}

/// Whether no Node is reported, which is implausible, and no operator has confirmed it.
fn lacks_all_nodes(view: &StepView<'_>) -> bool {
    view.state.has_no_nodes() && !view.guardrails.is_snapshot_confirmed(view.now)
}

/// Whether a Node may exist that is not reported: a pod is bound to an unreported Node, or no
/// Node is reported at all.
pub(crate) fn may_have_hidden_node(view: &StepView<'_>) -> bool {
    lacks_all_nodes(view) || view.state.non_daemon_pods_on_missing_nodes() > 0
}

/// Facts about the machine of `claim`.
pub(crate) fn machine_facts(claim: &ClaimName, view: &StepView<'_>) -> MachineFacts {
    let Some(machine) = view.claims.get(claim) else {
        return MachineFacts { node: NodeState::Never, pods: 0, confirmed: false };
    };
    let confirmed = machine.is_removal_confirmed();
    if let Some(node) = node_of(machine, view.state) {
        let shown = if node.ready { NodeState::Ready } else { NodeState::NotReady };
        return MachineFacts { node: shown, pods: view.state.non_daemon_pods_on(&node.name), confirmed };
    }
    if is_unknown(machine, view.state) && may_have_hidden_node(view) {
        let node = NodeState::Vanished { with_most: lacks_all_nodes(view) };
        return MachineFacts { node, pods: view.state.non_daemon_pods_on_missing_nodes(), confirmed };
    }
    let Some(pods) = pods_of_vanished_node(machine, view.state) else {
        return MachineFacts { node: NodeState::Never, pods: 0, confirmed };
    };
    MachineFacts { node: NodeState::Vanished { with_most: most_nodes_vanished(view) }, pods, confirmed }
}
