//! The fleet as the page reads it.

use engine::control::guardrails::GuardrailsView;
use engine::control::view::{ClusterView, MachineView};
use engine::control::{Decision, DecisionKind};
use engine::model::MicroUsd;
use serde::Serialize;

use crate::views::{FleetView, reasons, summary};

/// Pods, machines and nodes that one decision lists; all of them are counted in its sentence.
const DETAILS_SHOWN: usize = 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fleet<'v> {
    taken_at_ms: i64,
    usd_per_hour: String,
    clusters: Vec<Cluster<'v>>,
    decisions: Vec<DecisionEntry<'v>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster<'v> {
    name: &'v str,
    connected: bool,
    synced: bool,
    pods: usize,
    pending: usize,
    nodes: usize,
    usd_per_hour: String,
    sold_out: usize,
    refused: Option<&'v str>,
    rails: Guardrails<'v>,
    /// Other autoscalers at work.
    autoscalers: Vec<&'v str>,
    /// What of the cluster cannot be read or seen, in sentences.
    problems: Vec<String>,
    /// NodePools that are left to them, and why.
    left_pools: Vec<LeftPool<'v>>,
    /// The plan that is being made.
    planning: Option<Planning>,
    machine_count: usize,
    /// Not in a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    machines: Option<Vec<Machine<'v>>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Planning {
    since_ms: i64,
    pods: usize,
    /// Pods that are left to the next plan.
    left: usize,
}

#[derive(Debug, Serialize)]
struct LeftPool<'v> {
    name: &'v str,
    reason: &'v str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Guardrails<'v> {
    mode: &'static str,
    quarantine: Option<&'v str>,
    freezes: Vec<&'v str>,
    brake: Option<&'v str>,
    held_launches: Option<&'v str>,
    held_removals: Option<&'v str>,
    /// How many removals wait, and why the first of them does.
    waiting_removals: usize,
    waiting_because: Option<String>,
    listing_doubted: Option<&'v str>,
    pods_waiting: usize,
    launched: usize,
    removed: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Machine<'v> {
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
struct DecisionEntry<'v> {
    cluster: &'v str,
    id: u64,
    at_ms: i64,
    kind: &'static str,
    summary: String,
    reasons: Vec<String>,
    notes: &'v [String],
}

/// The whole view.
pub(super) fn fleet(view: &FleetView) -> Fleet<'_> {
    fleet_of(view, true)
}

/// The same without machines, of which there are a hundred times as many as clusters.
pub(super) fn without_machines(view: &FleetView) -> Fleet<'_> {
    fleet_of(view, false)
}

/// One cluster, with its machines.
pub(super) fn cluster(view: &ClusterView) -> impl Serialize + '_ {
    cluster_entry(view, true)
}

fn fleet_of(view: &FleetView, machines: bool) -> Fleet<'_> {
    Fleet {
        taken_at_ms: view.taken_at.0,
        usd_per_hour: view.cost().to_string(),
        clusters: view.clusters.values().map(|cluster| cluster_entry(cluster, machines)).collect(),
        decisions: view.decisions().into_iter().map(decision_entry).collect(),
    }
}

fn cluster_entry(cluster: &ClusterView, machines: bool) -> Cluster<'_> {
    Cluster {
        name: &cluster.cluster,
        connected: cluster.connected,
        synced: cluster.synced,
        pods: cluster.pods,
        pending: cluster.pending,
        nodes: cluster.nodes,
        usd_per_hour: cluster.cost.to_string(),
        sold_out: cluster.sold_out,
        refused: cluster.refused.as_deref(),
        rails: rails(&cluster.rails),
        autoscalers: cluster.autoscalers.iter().map(AsRef::as_ref).collect(),
        problems: cluster.problems.iter().map(|problem| format!("{}: {}", problem.about, problem.reason)).collect(),
        left_pools: cluster.left_pools.iter().map(|(name, reason)| LeftPool { name, reason }).collect(),
        planning: cluster.planning.map(|plan| Planning { since_ms: plan.since.0, pods: plan.pods, left: plan.left }),
        machine_count: cluster.machines.len(),
        machines: machines.then(|| cluster.machines.iter().map(machine_entry).collect()),
    }
}

fn rails(rails: &GuardrailsView) -> Guardrails<'_> {
    Guardrails {
        mode: rails.mode.as_str(),
        quarantine: rails.quarantine.as_ref().map(|(reason, _)| &**reason),
        freezes: rails.freezes.iter().map(|freeze| &**freeze).collect(),
        brake: rails.brake.as_deref(),
        held_launches: rails.held_launches.as_deref(),
        held_removals: rails.held_removals.as_deref(),
        waiting_removals: rails.waiting.len(),
        waiting_because: rails.waiting_because().map(|because| because.to_string()),
        listing_doubted: rails.listing_doubted.as_ref().map(|(reason, _)| &**reason),
        pods_waiting: rails.pods_waiting,
        launched: rails.launched,
        removed: rails.removed,
    }
}

fn machine_entry(machine: &MachineView) -> Machine<'_> {
    let bought = machine.bought.as_ref();
    Machine {
        name: machine.node.as_ref().unwrap_or(&machine.claim),
        pool: &machine.pool,
        stage: machine.stage.as_str(),
        since_ms: machine.since.0,
        instance_type: bought.map_or("", |bought| &bought.instance_type),
        zone: bought.map_or("", |bought| &bought.zone),
        capacity_type: bought.map_or("", |bought| bought.capacity_type.as_str()),
        usd_per_hour: bought.map_or(MicroUsd(0), |bought| bought.price).to_string(),
        pods: machine.pods,
        leaves: machine.leaves.as_deref(),
        blocked: machine.blocked.as_deref(),
    }
}

fn decision_entry(decision: &Decision) -> DecisionEntry<'_> {
    DecisionEntry {
        cluster: &decision.cluster,
        id: decision.id.0,
        at_ms: decision.at.0,
        kind: match decision.kind {
            DecisionKind::Provision => "provision",
            DecisionKind::Empty => "empty",
            DecisionKind::Interruption => "interruption",
        },
        summary: summary(decision),
        reasons: reasons(decision).take(DETAILS_SHOWN).collect(),
        // In shadow mode the notes are the reasons.
        notes: if decision.shadow { &[] } else { &decision.notes },
    }
}
