//! JSON of the dashboard.

use controller::Decision;
use controller::guardrails::GuardrailsView;
use controller::view::{ClusterView, MachineView};
use model::MicroUsd;
use serde::Serialize;

use crate::views::{FleetView, reasons, summary};

/// Maximum reasons listed per decision; its summary counts all of them.
const DETAILS_SHOWN: usize = 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FleetJson<'v> {
    /// Version of this server.
    version: &'static str,
    taken_at_ms: i64,
    usd_per_hour: String,
    /// Sentences about the whole server.
    notices: Vec<&'static str>,
    clusters: Vec<ClusterJson<'v>>,
    decisions: Vec<DecisionJson<'v>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterJson<'v> {
    name: &'v str,
    connected: bool,
    synced: bool,
    pods: usize,
    pending: usize,
    nodes: usize,
    usd_per_hour: String,
    sold_out: usize,
    refused: Option<&'v str>,
    guardrails: GuardrailsJson<'v>,
    /// Other active autoscalers.
    autoscalers: Vec<&'v str>,
    /// Unreadable objects, as messages.
    problems: Vec<String>,
    /// NodePools left to other autoscalers, and why.
    left_pools: Vec<UnmanagedPoolJson<'v>>,
    /// Planning in progress.
    planning: Option<PlanningJson>,
    machine_count: usize,
    /// Omitted in a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    machines: Option<Vec<MachineJson<'v>>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanningJson {
    since_ms: i64,
    pods: usize,
    /// Pods deferred to the next plan.
    left: usize,
}

#[derive(Debug, Serialize)]
struct UnmanagedPoolJson<'v> {
    name: &'v str,
    reason: &'v str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GuardrailsJson<'v> {
    mode: &'static str,
    disruption_mode: &'static str,
    quarantine: Option<&'v str>,
    freezes: Vec<&'v str>,
    circuit_breaker: Option<&'v str>,
    held_launches: Option<&'v str>,
    held_removals: Option<&'v str>,
    /// Number of waiting removals, and the reason of the first.
    waiting_removals: usize,
    waiting_because: Option<String>,
    listing_doubted: Option<&'v str>,
    pods_waiting: usize,
    launched: usize,
    removed: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineJson<'v> {
    name: &'v str,
    pool: &'v str,
    stage: &'static str,
    since_ms: i64,
    instance_type: &'v str,
    zone: &'v str,
    capacity_type: &'static str,
    usd_per_hour: String,
    pods: usize,
    leaves: Option<&'v str>,
    blocked: Option<&'v str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DecisionJson<'v> {
    cluster: &'v str,
    id: u64,
    at_ms: i64,
    kind: &'static str,
    summary: String,
    reasons: Vec<String>,
    notes: &'v [String],
}

/// The whole fleet.
pub(super) fn fleet<'v>(view: &'v FleetView, notices: Vec<&'static str>) -> FleetJson<'v> {
    fleet_of(view, notices, true)
}

/// The fleet without instances, which are a hundred times as many as clusters.
pub(super) fn without_machines<'v>(view: &'v FleetView, notices: Vec<&'static str>) -> FleetJson<'v> {
    fleet_of(view, notices, false)
}

/// One cluster with its instances.
pub(super) fn cluster(view: &ClusterView) -> impl Serialize + '_ {
    cluster_entry(view, true)
}

fn fleet_of<'v>(view: &'v FleetView, notices: Vec<&'static str>, machines: bool) -> FleetJson<'v> {
    FleetJson {
        version: env!("CARGO_PKG_VERSION"),
        notices,
        taken_at_ms: view.taken_at.as_millis(),
        usd_per_hour: view.cost().to_string(),
        clusters: view.clusters.values().map(|cluster| cluster_entry(cluster, machines)).collect(),
        decisions: view.decisions().into_iter().map(decision_entry).collect(),
    }
}

fn cluster_entry(cluster: &ClusterView, machines: bool) -> ClusterJson<'_> {
    ClusterJson {
        name: &cluster.cluster,
        connected: cluster.connected,
        synced: cluster.synced,
        pods: cluster.pods,
        pending: cluster.pending,
        nodes: cluster.nodes,
        usd_per_hour: cluster.cost.to_string(),
        sold_out: cluster.unavailable_offerings,
        refused: cluster.last_error.as_deref(),
        guardrails: guardrails(&cluster.guardrails),
        autoscalers: cluster.autoscalers.iter().map(AsRef::as_ref).collect(),
        problems: cluster.problems.iter().map(|problem| format!("{}: {}", problem.about, problem.reason)).collect(),
        left_pools: cluster.unmanaged_pools.iter().map(|(name, reason)| UnmanagedPoolJson { name, reason }).collect(),
        planning: cluster.planning.map(|plan| PlanningJson {
            since_ms: plan.since.as_millis(),
            pods: plan.pods,
            left: plan.left,
        }),
        machine_count: cluster.machines.len(),
        machines: machines.then(|| cluster.machines.iter().map(machine_entry).collect()),
    }
}

fn guardrails(guardrails: &GuardrailsView) -> GuardrailsJson<'_> {
    GuardrailsJson {
        mode: guardrails.mode.as_str(),
        disruption_mode: guardrails.disruption_mode.as_str(),
        quarantine: guardrails.quarantine.as_ref().map(|(reason, _)| &**reason),
        freezes: guardrails.freezes.iter().map(|freeze| &**freeze).collect(),
        circuit_breaker: guardrails.circuit_breaker.as_deref(),
        held_launches: guardrails.held_launches.as_deref(),
        held_removals: guardrails.held_removals.as_deref(),
        waiting_removals: guardrails.waiting_removals.len(),
        waiting_because: guardrails.waiting_because().map(|because| because.to_string()),
        listing_doubted: guardrails.untrusted_listing.as_ref().map(|(reason, _)| &**reason),
        pods_waiting: guardrails.pods_waiting,
        launched: guardrails.launched,
        removed: guardrails.removed,
    }
}

fn machine_entry(machine: &MachineView) -> MachineJson<'_> {
    let instance = machine.instance.as_ref();
    MachineJson {
        name: machine.node.as_deref().unwrap_or(&machine.claim),
        pool: &machine.pool,
        stage: machine.stage.as_str(),
        since_ms: machine.since.as_millis(),
        instance_type: instance.map_or("", |instance| &instance.instance_type),
        zone: instance.map_or("", |instance| &instance.zone),
        capacity_type: instance.map_or("", |instance| instance.capacity_type.as_str()),
        usd_per_hour: instance.map_or(MicroUsd(0), |instance| instance.price).to_string(),
        pods: machine.pods,
        leaves: machine.termination_reason.as_deref(),
        blocked: machine.blocked.as_deref(),
    }
}

fn decision_entry(decision: &Decision) -> DecisionJson<'_> {
    DecisionJson {
        cluster: &decision.cluster,
        id: decision.id.0,
        at_ms: decision.at.as_millis(),
        kind: decision.reason.as_str(),
        summary: summary(decision),
        reasons: reasons(decision).take(DETAILS_SHOWN).collect(),
        // In shadow mode the notes are part of the reasons.
        notes: if decision.shadow { &[] } else { &decision.notes },
    }
}
