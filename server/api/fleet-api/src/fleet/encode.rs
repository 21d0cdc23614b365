//! Encodes views as resources. Long lists are truncated; the result does not influence decisions.

use std::collections::{BTreeMap, BTreeSet};

use controller::StageKind;
use controller::guardrails::{GuardrailsView, Mode, WaitingRemoval};
use controller::view::{ClusterView, MachineView, NodeView, PendingPodView, PodOutlook, PoolView};
use cost::{CostCause, CostParts};
use fleetwright_proto::v1;
use model::disruption_policy::DisruptionReason;
use model::plan::Reason;
use model::{ClusterName, PoolName, Resources, Text, Timestamp, quantity};
use trace::SpanContext;

use api_messages::{enum_values, number, resource_names as names, signed, timestamp};

/// Maximum waiting removals of a cluster; all of them are counted.
const WAITING_SHOWN: usize = 200;

/// Maximum problems, unmanaged NodePools and unusable Nodes of a cluster.
const OBJECTS_SHOWN: usize = 50;

/// Why the agent of a cluster ended its stream, where its API server does not answer.
const API_SERVER_UNREACHABLE: &str = "the agent ended its stream because the API server of the cluster does not answer";

/// Who decides for a cluster, and what is known of its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub replica: String,
    pub epoch: u64,
    /// UID of the cluster; empty before its agent has ever connected.
    pub uid: Text,
    /// Version of the agent; empty while none is connected.
    pub agent_version: Text,
    /// Whether the agent said last that its API server does not answer.
    pub api_server_unreachable: bool,
}

/// A cluster as lists and watches show it to clients: of the removals that wait the first one. There may be hundreds, and
/// clients of these read all clusters, again and again.
pub(crate) fn in_lists(mut row: v1::Cluster) -> v1::Cluster {
    if let Some(guardrails) = &mut row.guardrails {
        guardrails.waiting_removals.truncate(1);
    }
    row
}

/// A cluster in numbers, observed at `at`.
pub fn cluster(view: &ClusterView, owner: &Owner, at: Timestamp) -> v1::Cluster {
    let unmanaged = view.unmanaged_pools.iter().take(OBJECTS_SHOWN);
    let problems = view.problems.iter().take(OBJECTS_SHOWN);
    let unusable = view.unusable_nodes.iter().take(OBJECTS_SHOWN);
    v1::Cluster {
        name: names::cluster(&view.cluster),
        uid: owner.uid.to_string(),
        observe_time: Some(timestamp(at)),
        stale: false,
        replica: owner.replica.clone(),
        epoch: signed(owner.epoch),
        connected: view.connected,
        synced: view.synced,
        agent_version: if view.connected { owner.agent_version.to_string() } else { String::new() },
        node_count: number(view.node_count),
        machine_count: number(view.machines().count()),
        pod_count: number(view.pods),
        pending_pod_count: number(view.pending),
        price_micro_usd_per_hour: view.cost.0,
        blocked_reason: blocked_reason(view),
        plan_error: view.last_error.clone().unwrap_or_default(),
        unsynced_time: view.unsynced_since.map(timestamp),
        guardrails: Some(guardrails(&view.guardrails)),
        unavailable_offering_count: number(view.unavailable_offerings),
        planning: view.planning.map(|plan| v1::Planning {
            request_time: Some(timestamp(plan.since)),
            pod_count: number(plan.pods),
            left_pod_count: number(plan.left),
        }),
        autoscalers: view.autoscalers.iter().map(ToString::to_string).collect(),
        problems: problems.map(|problem| format!("{}: {}", problem.about, problem.reason)).collect(),
        unmanaged_pools: unmanaged
            .map(|(pool, reason)| v1::UnmanagedPool { node_pool: pool.to_string(), reason: reason.to_string() })
            .collect(),
        disconnect_reason: if view.connected { String::new() } else { disconnect_reason(owner) },
        unusable_nodes: unusable.map(|(node, reason)| format!("Node {node} {reason}")).collect(),
        // What a view does not have is carried on from the row before.
        ..v1::Cluster::default()
    }
}

fn disconnect_reason(owner: &Owner) -> String {
    if owner.api_server_unreachable { API_SERVER_UNREACHABLE.to_owned() } else { String::new() }
}

fn blocked_reason(view: &ClusterView) -> String {
    match &view.last_error {
        Some(reason) => reason.clone(),
        None if !view.connected => "agent disconnected".to_owned(),
        None if view.guardrails.held_reason().is_some() => text(view.guardrails.held_reason().as_ref()),
        None if !view.synced => "waiting for a complete snapshot of the agent".to_owned(),
        None => String::new(),
    }
}

fn guardrails(guardrails: &GuardrailsView) -> v1::Guardrails {
    let quarantine = guardrails.quarantine.as_ref();
    v1::Guardrails {
        shadow: guardrails.mode == Mode::Shadow,
        disruption_shadow: guardrails.disruption_mode == Mode::Shadow,
        quarantine_reason: text(quarantine.map(|(reason, _)| reason)),
        quarantine_time: quarantine.map(|(_, since)| timestamp(*since)),
        freeze_reasons: guardrails.freezes.iter().map(ToString::to_string).collect(),
        circuit_breaker_reason: text(guardrails.circuit_breaker.as_ref()),
        launches_blocked_reason: text(guardrails.held_launches.as_ref()),
        removals_blocked_reason: text(guardrails.held_removals.as_ref()),
        listing_rejected_reason: text(guardrails.untrusted_listing.as_ref().map(|(reason, _)| reason)),
        backoff_pod_count: number(guardrails.pods_waiting),
        launched_count: number(guardrails.launched),
        removed_count: number(guardrails.removed),
        waiting_removals: guardrails.waiting_removals.iter().take(WAITING_SHOWN).map(waiting).collect(),
        waiting_removal_count: number(guardrails.waiting_removals.len()),
        launches_blocked_until_time: guardrails.held_launches_until.map(timestamp),
        launches_blocked_setting: guardrails.held_launches_setting.to_owned(),
        removals_blocked_until_time: guardrails.held_removals_until.map(timestamp),
        removals_blocked_setting: guardrails.held_removals_setting.to_owned(),
        removals_blocked_price_micro_usd_per_hour: guardrails.held_removals_price.0,
        listing_rejected_time: guardrails.untrusted_listing.as_ref().map(|(_, since)| timestamp(*since)),
        ..v1::Guardrails::default()
    }
}

fn waiting(removal: &WaitingRemoval) -> v1::WaitingRemoval {
    v1::WaitingRemoval {
        node_claim: removal.claim.to_string(),
        wait_time: Some(timestamp(removal.since)),
        reason: removal.reason.to_string(),
        release: removal.release.to_string(),
    }
}

fn text(value: Option<&Text>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// A node, or a NodeClaim without one. Its name is that of the NodeClaim, which does not change when the Node joins.
pub fn node(cluster: &ClusterName, node: &NodeView) -> v1::Node {
    let machine = node.machine.as_ref();
    let foreign = if node.ready { v1::NodeStage::Ready } else { v1::NodeStage::NotReady };
    v1::Node {
        name: names::child(cluster, "nodes", node.id()),
        uid: node.uid.to_string(),
        node: node.node().map(ToString::to_string).unwrap_or_default(),
        node_claim: machine.map(|machine| machine.claim.to_string()).unwrap_or_default(),
        pool: machine.map(|machine| machine.pool.to_string()).unwrap_or_default(),
        provider_id: node.provider_id.to_string(),
        instance_type: node.instance_type.to_string(),
        zone: node.zone.to_string(),
        capacity_type: enum_values::capacity_type(&node.capacity_type).into(),
        stage: machine.map_or(foreign, |machine| stage(machine.stage)).into(),
        stage_time: machine.map(|machine| timestamp(machine.since)),
        create_time: node.created.map(timestamp),
        price_micro_usd_per_hour: machine.map_or(0, price),
        pod_count: number(node.pods),
        cpu_requested_millis: node.requested.cpu_millis,
        cpu_allocatable_millis: node.allocatable.cpu_millis,
        memory_requested_bytes: node.requested.memory_bytes,
        memory_allocatable_bytes: node.allocatable.memory_bytes,
        removal_reason: text(machine.and_then(|machine| machine.termination_reason.as_ref())),
        drain_blocked_reason: text(machine.and_then(|machine| machine.blocked.as_ref())),
        cost: machine.map(|machine| breakdown(&machine.cost)),
    }
}

/// Amounts by cause.
pub(crate) fn breakdown(parts: &CostParts) -> v1::CostBreakdown {
    v1::CostBreakdown {
        useful: parts.get(CostCause::Useful),
        booting: parts.get(CostCause::Booting),
        draining: parts.get(CostCause::Draining),
        hold: parts.get(CostCause::Hold),
        daemonsets: parts.get(CostCause::DaemonSets),
        fragmentation: parts.get(CostCause::Fragmentation),
        blocked: parts.get(CostCause::Blocked),
        no_savings: parts.get(CostCause::NoSavings),
        unexplained: parts.get(CostCause::Unexplained),
    }
}

fn price(machine: &MachineView) -> i64 {
    machine.instance.as_ref().map_or(0, |instance| instance.price.0)
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

/// Resources that a NodePool uses or limits, by name.
fn pool_resources(usage: &Resources, limits: &Resources) -> Vec<v1::PoolResource> {
    let names: BTreeSet<&Text> = usage.iter().chain(limits.iter()).map(|(name, _)| name).collect();
    let limit = |name: &Text| limits.contains(name).then(|| quantity::render(name, limits.get(name)));
    let row = |name: &Text| v1::PoolResource {
        resource: name.to_string(),
        usage: quantity::render(name, usage.get(name)),
        limit: limit(name).unwrap_or_default(),
    };
    names.into_iter().map(row).collect()
}

/// A NodePool that exists, without its name and what its machines are in sum.
fn pool(pool: &PoolView) -> v1::Pool {
    let allowance = |(reason, nodes): &(DisruptionReason, usize)| {
        let reason = enum_values::disruption_reason(reason.as_str());
        v1::DisruptionAllowance { reason: reason.into(), node_count: number(*nodes) }
    };
    v1::Pool {
        weight: pool.weight,
        not_ready_reason: text(pool.closed.as_ref()),
        resources: pool_resources(&pool.usage, &pool.limits),
        disruption_allowances: pool.allowed_disruptions.iter().map(allowance).collect(),
        disrupted_node_count: number(pool.leaving),
        drifted_node_count: number(pool.drifted),
        limited_pod_count: number(pool.limited_pods),
        ..v1::Pool::default()
    }
}

/// NodePools by name, with the sums of their machines. A deleted NodePool is listed while it has machines.
pub fn pools(view: &ClusterView) -> Vec<v1::Pool> {
    let name = |pool: &PoolName| names::child(&view.cluster, "pools", pool);
    let existing = view.pools.iter().map(|known| (&known.name, v1::Pool { name: name(&known.name), ..pool(known) }));
    let mut pools: BTreeMap<&PoolName, v1::Pool> = existing.collect();
    for machine in view.machines() {
        let deleted = || v1::Pool { name: name(&machine.pool), deleted: true, ..v1::Pool::default() };
        let pool = pools.entry(&machine.pool).or_insert_with(deleted);
        pool.machine_count += 1;
        pool.price_micro_usd_per_hour += price(machine);
    }
    pools.into_values().collect()
}

pub fn pod(cluster: &ClusterName, pod: &PendingPodView) -> v1::Pod {
    let (state, planned_node) = match &pod.outlook {
        PodOutlook::Waiting => (v1::PodState::Waiting, String::new()),
        PodOutlook::Planned(node) => (v1::PodState::Planned, node.to_string()),
        PodOutlook::Unplaced { .. } => (v1::PodState::Unschedulable, String::new()),
    };
    v1::Pod {
        name: names::pod(cluster, &pod.pod),
        uid: pod.uid.to_string(),
        create_time: pod.created.map(timestamp),
        state: state.into(),
        planned_node,
        reasons: pod.outlook.reasons().iter().map(reason).collect(),
        cpu_millis: pod.requests.cpu_millis,
        memory_bytes: pod.requests.memory_bytes,
    }
}

/// A reason, as message.
pub fn reason(reason: &Reason) -> v1::Reason {
    v1::Reason {
        pool: reason.pool.as_ref().map(ToString::to_string).unwrap_or_default(),
        code: reason.code.as_str().to_owned(),
        message: reason.message.clone(),
    }
}

/// Id of a decision's trace; empty when this server exports none.
pub fn trace_id(cluster: &ClusterName, number: u64, at: Timestamp) -> String {
    let id = || SpanContext::of_decision(cluster, number, at).trace().to_string();
    telemetry::exporter().map(|_| id()).unwrap_or_default()
}
