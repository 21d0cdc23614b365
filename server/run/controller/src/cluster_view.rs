//! Builds the view of one cluster.

use std::sync::Arc;

use super::Decision;
use super::cluster_controller::ClusterController;
use super::cost_view::{CostView, NodeRequests};
use super::external_autoscalers::unmanaged_pools;
use super::guardrails::GuardrailsView;
use super::nodeclaim::{ManagedClaim, StageKind, unusable_nodes};
use super::pool_view::pools_view;
use super::status_reporter::drain_blocked_message;
use super::step_view::StepView;
use super::view::{ClusterView, CpuAndMemory, InstanceAnomalies, MachineView, NodeView, PendingPodView, PodOutlook};
use cluster::{ClusterState, NodeRecord, PodRecord};
use cost::CostParts;
use model::{MicroUsd, NodeName, PodKey, Text, Timestamp, labels};
use rustc_hash::FxHashMap;

impl ClusterController {
    /// The view of the cluster at `now`.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> ClusterView {
        let region = Arc::clone(&self.region);
        let guardrails = region.lock_guardrails(now);
        let step = self.step_view(now);
        let (shown, pools) = (step.guardrails_view(&guardrails), pools_view(&guardrails, &step));
        drop(guardrails);
        ClusterView { pools, ..view_of(region.offerings().counts().0, shown, &step) }
    }

    /// The observed state as it is now, which is copied at its next change while it is held.
    #[must_use]
    pub fn observed_state(&self) -> Arc<ClusterState> {
        self.state.snapshot()
    }

    /// Fingerprint of the view; changes whenever the view does.
    pub(crate) fn view_fingerprint(&mut self) -> impl PartialEq + use<> {
        let stages = self.claims.stage_fingerprint();
        let plan = self.provisioner.plan_in_progress();
        let version = (self.state.version(), self.connected, stages, self.decisions.last_id(), plan);
        let planned = (self.disruption.consolidation.planned_blocks.at(), self.disruption.eligible_nodes());
        (version, planned, self.guardrails.view_fingerprint(), self.gc.view_version())
    }
}

fn view_of(unavailable_offerings: usize, guardrails: GuardrailsView, step: &StepView<'_>) -> ClusterView {
    let nodes = nodes_view(&CostView::new(step, &guardrails), step);
    let prices = nodes.iter().filter_map(|node| node.machine.as_ref()?.instance.as_ref());
    ClusterView {
        cluster: step.cluster.clone(),
        connected: step.connected,
        synced: step.state.is_synced(),
        synced_since: step.state.last_synced(),
        unsynced_since: step.unsynced_since,
        version: step.state.version(),
        pods: step.state.live_pods(),
        pending: step.state.unplaced_pods().filter(|pod| pod.is_provisionable()).count(),
        pending_pods: pending_pods_view(step),
        node_count: step.state.nodes().count(),
        cost: MicroUsd(prices.map(|instance| instance.price.0).sum()),
        nodes,
        pools: Vec::new(),
        unavailable_offerings,
        decisions: step.decisions.recent().cloned().collect(),
        last_error: step.provisioner.last_error().map(str::to_owned),
        planning: step.provisioner.view(),
        guardrails,
        anomalies: anomalies(step),
        autoscalers: step.state.active_autoscalers().cloned().collect(),
        problems: step.state.problems().collect(),
        unmanaged_pools: unmanaged_pools(step.state),
        unusable_nodes: unusable_nodes(step),
        counters: step.history.lifecycle.counters(),
        holds: step.holds.counts(),
        pod_durations: step.history.pod_durations.durations(),
        eligible_nodes: step.disruption.eligible_nodes(),
    }
}

pub(crate) fn anomalies(view: &StepView<'_>) -> InstanceAnomalies {
    let (orphaned, foreign) = view.gc.counts();
    InstanceAnomalies {
        orphaned,
        foreign,
        termination_refused: view.claims.iter().filter(|machine| machine.is_termination_refused()).count(),
    }
}

/// What blocks the drain of a machine.
fn drain_blocker(machine: &ManagedClaim, view: &StepView<'_>) -> Option<Text> {
    let node = view.state.node_of_claim(machine.name()).filter(|_| machine.stage() == StageKind::Draining)?;
    drain_blocked_message(&view.state.drain_blockers(&node.name, view.now)).map(Text::from)
}

/// Unschedulable pods. The latest decision that mentions a pod says why it has no place.
fn pending_pods_view(view: &StepView<'_>) -> Vec<PendingPodView> {
    let mut unplaced: FxHashMap<&PodKey, (&Arc<Decision>, usize)> = FxHashMap::default();
    let mut pods = view.state.unplaced_pods().peekable();
    if pods.peek().is_some() {
        for decision in view.decisions.recent() {
            for (index, pod) in decision.unplaced.iter().enumerate() {
                unplaced.entry(&pod.pod).or_insert((decision, index));
            }
        }
    }
    let outlook = |pod: &PodRecord| match view.state.assignments().get(&pod.key) {
        Some(assignment) => PodOutlook::Planned(NodeName::from(assignment.target.name().clone())),
        None => unplaced.get(&pod.key).map_or(PodOutlook::Waiting, |(decision, index)| PodOutlook::Unplaced {
            decision: Arc::clone(decision),
            index: *index,
        }),
    };
    let pending = |pod: &PodRecord| PendingPodView {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        created: pod.created,
        requests: CpuAndMemory::of(&pod.shape.requests),
        outlook: outlook(pod),
    };
    pods.map(pending).collect()
}

/// Nodes, and machines without one, by the name that they keep while they exist.
fn nodes_view(costs: &CostView<'_>, view: &StepView<'_>) -> Vec<NodeView> {
    let mut of_node: FxHashMap<&NodeName, &ManagedClaim> = FxHashMap::default();
    let mut nodes = Vec::new();
    for machine in view.claims.iter() {
        match view.state.node_of_claim(machine.name()) {
            Some(node) => drop(of_node.insert(&node.name, machine)),
            None => nodes.push(machine_without_node(machine, costs, view)),
        }
    }
    nodes.extend(view.state.nodes().map(|node| node_view(node, of_node.get(&node.name).copied(), costs, view)));
    nodes.sort_unstable_by(|one, other| one.id().cmp(other.id()));
    nodes
}

fn machine_without_node(machine: &ManagedClaim, costs: &CostView<'_>, view: &StepView<'_>) -> NodeView {
    let claim = view.state.claim(machine.name());
    let instance = machine.instance();
    NodeView {
        name: NodeName::from(machine.name().as_text().clone()),
        uid: claim_uid(machine, view.state),
        provider_id: machine.provider_id().clone(),
        instance_type: instance.map(|instance| instance.instance_type.as_text().clone()).unwrap_or_default(),
        zone: instance.map(|instance| instance.zone.as_text().clone()).unwrap_or_default(),
        capacity_type: instance.map(|instance| instance.capacity_type.as_str().into()).unwrap_or_default(),
        ready: false,
        created: claim.and_then(|claim| claim.created),
        pods: 0,
        requested: CpuAndMemory::default(),
        allocatable: claim.map(|claim| CpuAndMemory::of(&claim.allocatable)).unwrap_or_default(),
        machine: Some(machine_view(machine, costs.parts(machine, None), view)),
    }
}

fn node_view(node: &NodeRecord, machine: Option<&ManagedClaim>, costs: &CostView<'_>, view: &StepView<'_>) -> NodeView {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    let requests = NodeRequests::of(view.state.pods_on(&node.name));
    let cost = |machine: &ManagedClaim| costs.parts(machine, Some((node, &requests)));
    NodeView {
        name: node.name.clone(),
        uid: machine.map_or_else(|| node.uid.clone(), |machine| claim_uid(machine, view.state)),
        machine: machine.map(|machine| machine_view(machine, cost(machine), view)),
        provider_id: node.provider_id.clone(),
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity_type: label(labels::CAPACITY_TYPE),
        ready: node.ready,
        created: node.created,
        pods: view.state.non_daemon_pods_on(&node.name),
        requested: requests.total(),
        allocatable: CpuAndMemory::of(&node.allocatable),
    }
}

fn claim_uid(machine: &ManagedClaim, state: &ClusterState) -> Text {
    state.claim(machine.name()).map(|claim| claim.uid.clone()).unwrap_or_default()
}

fn machine_view(machine: &ManagedClaim, cost: CostParts, view: &StepView<'_>) -> MachineView {
    MachineView {
        claim: machine.name().clone(),
        node: view.state.node_of_claim(machine.name()).map(|node| node.name.clone()),
        pool: machine.pool().clone(),
        stage: machine.stage(),
        since: machine.since(),
        instance: machine.instance().cloned(),
        blocked: drain_blocker(machine, view),
        cost,
        termination_reason: machine.termination_reason().map(|reason| Text::from(reason.to_string())),
    }
}
