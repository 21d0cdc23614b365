//! Encodes views as messages. Long lists are truncated; the result does not influence decisions.

use controller::StageKind;
use controller::cluster::Target;
use controller::guardrails::view::WaitingRemoval;
use controller::guardrails::{GuardrailsView, Mode};
use controller::view::{ClusterView, MachineView};
use controller::{Decision, DecisionReason, UnplacedPod};
use fleetwright_proto::v1;
use model::plan::Reason;
use model::{PodKey, PoolName, Text};

use crate::views::{FleetView, summary as sentence};

/// Maximum pods listed per cluster; all of them are counted.
const PENDING_SHOWN: usize = 200;
/// Maximum waiting removals listed per cluster; all of them are counted.
const WAITING_SHOWN: usize = 200;

/// Encodes one cluster, or all of them when `only` is empty.
pub(super) fn watch_response(view: &FleetView, only: &str) -> v1::WatchResponse {
    let wanted = |name: &str| only.is_empty() || name == only;
    let clusters = view.clusters.iter().filter(|(name, _)| wanted(name));
    let decisions = view.decisions().into_iter().filter(|decision| wanted(&decision.cluster));
    v1::WatchResponse {
        taken_at_ms: view.taken_at.as_millis(),
        clusters: clusters.map(|(_, cluster)| cluster_view(cluster)).collect(),
        decisions: decisions.map(decision_message).collect(),
    }
}

/// Encodes the summary of a cluster.
pub(super) fn summary(cluster: &ClusterView) -> v1::ClusterSummary {
    v1::ClusterSummary {
        name: cluster.cluster.to_string(),
        connected: cluster.connected,
        node_count: number(cluster.nodes),
        bound_pod_count: number(cluster.pods.saturating_sub(cluster.pending)),
        pending_pod_count: number(cluster.pending),
        cost_micro_usd: cluster.cost.0,
        held_reason: held_reason(cluster),
        guardrails: Some(guardrails(&cluster.guardrails)),
        ..v1::ClusterSummary::default()
    }
}

fn held_reason(cluster: &ClusterView) -> String {
    match &cluster.last_error {
        Some(reason) => reason.clone(),
        None if !cluster.connected => "agent disconnected".to_owned(),
        None if cluster.guardrails.held_reason().is_some() => text(cluster.guardrails.held_reason().as_ref()),
        None if !cluster.synced => "waiting for a complete snapshot of the agent".to_owned(),
        None => String::new(),
    }
}

fn guardrails(guardrails: &GuardrailsView) -> v1::Guardrails {
    let (reason, since) = guardrails.quarantine.clone().unwrap_or_default();
    v1::Guardrails {
        shadow: guardrails.mode == Mode::Shadow,
        disruption_shadow: guardrails.disruption_mode == Mode::Shadow,
        quarantine_reason: reason.to_string(),
        quarantined_since_ms: since.as_millis(),
        freeze_reasons: guardrails.freezes.iter().map(ToString::to_string).collect(),
        circuit_breaker_reason: text(guardrails.circuit_breaker.as_ref()),
        launches_held_reason: text(guardrails.held_launches.as_ref()),
        removals_held_reason: text(guardrails.held_removals.as_ref()),
        waiting_pod_count: number(guardrails.pods_waiting),
        launched_count: number(guardrails.launched),
        removed_count: number(guardrails.removed),
        waiting_removals: guardrails.waiting_removals.iter().take(WAITING_SHOWN).map(waiting).collect(),
        waiting_removal_count: number(guardrails.waiting_removals.len()),
        listing_rejected_reason: text(guardrails.untrusted_listing.as_ref().map(|(reason, _)| reason)),
    }
}

fn waiting(removal: &WaitingRemoval) -> v1::WaitingRemoval {
    v1::WaitingRemoval {
        node_claim: removal.claim.to_string(),
        since_ms: removal.since.as_millis(),
        reason: removal.reason.to_string(),
        release: removal.release.to_string(),
    }
}

fn text(value: Option<&Text>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn cluster_view(cluster: &ClusterView) -> v1::ClusterView {
    v1::ClusterView {
        summary: Some(summary(cluster)),
        nodes: cluster.machines.iter().map(node_view).collect(),
        pools: pools(cluster),
        pending_pods: pending(cluster),
    }
}

fn node_view(machine: &MachineView) -> v1::NodeView {
    let instance = machine.instance.as_ref();
    v1::NodeView {
        name: machine.node.as_deref().unwrap_or(&machine.claim).to_string(),
        pool: machine.pool.to_string(),
        instance_type: instance.map(|instance| instance.instance_type.to_string()).unwrap_or_default(),
        zone: instance.map(|instance| instance.zone.to_string()).unwrap_or_default(),
        capacity_type: instance.map(|instance| instance.capacity_type.as_str().to_owned()).unwrap_or_default(),
        stage: stage(machine.stage).into(),
        price_micro_usd: instance.map_or(0, |instance| instance.price.0),
        pod_count: number(machine.pods),
        created_at_ms: machine.since.as_millis(),
        note: machine.termination_reason.as_deref().unwrap_or_default().to_owned(),
        ..v1::NodeView::default()
    }
}

fn stage(stage: StageKind) -> v1::NodeStage {
    match stage {
        StageKind::Planned | StageKind::Creating | StageKind::Launching => v1::NodeStage::Launching,
        StageKind::Launched => v1::NodeStage::Booting,
        StageKind::Registered => v1::NodeStage::Registered,
        StageKind::Initialized => v1::NodeStage::Ready,
        StageKind::Draining | StageKind::Terminating | StageKind::Deleting => v1::NodeStage::Deleting,
    }
}

/// Pools with the sums of their instances. A deleted pool is listed while it has instances.
fn pools(cluster: &ClusterView) -> Vec<v1::PoolView> {
    let known = cluster.pools.iter().map(|pool| {
        let (name, not_ready_reason) = (pool.name.to_string(), text(pool.closed.as_ref()));
        (&pool.name, v1::PoolView { name, weight: pool.weight, not_ready_reason, ..v1::PoolView::default() })
    });
    let mut pools: std::collections::BTreeMap<&PoolName, v1::PoolView> = known.collect();
    for machine in &cluster.machines {
        let pool = pools.entry(&machine.pool).or_default();
        pool.name = machine.pool.to_string();
        pool.node_count += 1;
        pool.cost_micro_usd += machine.instance.as_ref().map_or(0, |instance| instance.price.0);
    }
    pools.into_values().collect()
}

/// Pods that the latest planning left unschedulable, then pods assigned to a node.
fn pending(cluster: &ClusterView) -> Vec<v1::PendingPodView> {
    let looked = cluster.decisions.iter().find(|decision| decision.reason == DecisionReason::Provision);
    let unplaced = looked.map_or(&[][..], |decision| &decision.unplaced).iter();
    let unplaced = unplaced.take(PENDING_SHOWN.min(cluster.pending)).map(pending_pod);
    unplaced.chain(cluster.assumed.iter().map(expected_pod)).take(PENDING_SHOWN).collect()
}

fn expected_pod((pod, target): &(PodKey, Target)) -> v1::PendingPodView {
    v1::PendingPodView {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        expected_on: target.name().to_string(),
        ..v1::PendingPodView::default()
    }
}

fn pending_pod(pod: &UnplacedPod) -> v1::PendingPodView {
    v1::PendingPodView {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        reasons: pod.reasons.iter().map(reason).collect(),
        ..v1::PendingPodView::default()
    }
}

fn reason(reason: &Reason) -> v1::Reason {
    v1::Reason {
        pool: reason.pool.as_ref().map(ToString::to_string).unwrap_or_default(),
        code: reason.code.as_str().to_owned(),
        message: reason.message.clone(),
    }
}

fn decision_message(decision: &Decision) -> v1::Decision {
    let kind = match decision.reason {
        DecisionReason::Provision => v1::DecisionKind::Provision,
        DecisionReason::Disruption(_) => v1::DecisionKind::Disrupt,
    };
    let launched = decision.launches.iter().map(|machine| v1::Reason {
        pool: machine.launch.pool.to_string(),
        code: "Launch".to_owned(),
        message: machine.reason.to_string(),
    });
    let removed = decision.removals.iter().map(|removal| v1::Reason {
        pool: String::new(),
        code: "Remove".to_owned(),
        message: removal.reason.to_string(),
    });
    v1::Decision {
        id: decision.id.0,
        cluster_name: decision.cluster.to_string(),
        decided_at_ms: decision.at.as_millis(),
        kind: kind.into(),
        summary: sentence(decision),
        reasons: launched
            .chain(removed)
            .chain(decision.unplaced.iter().flat_map(|pod| pod.reasons.iter().map(reason)))
            .collect(),
        cost_change_micro_usd: decision.new_cost.0,
        lower_bound_micro_usd: decision.lower_bound.0,
        shadow: decision.shadow,
    }
}

/// Saturates at four billion.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
