//! Read model of one cluster, for the dashboard, the CLI and metrics.

use std::sync::Arc;

use super::Decision;
use super::cluster_controller::ClusterController;
use super::cost_view::CostView;
use super::external_autoscalers::unmanaged_pools;
use super::guardrails::GuardrailsView;
use super::history::Measurements;
use super::node_view::nodes_view;
use super::nodeclaim::unusable_nodes;
use super::pool_view::pools_view;
use super::step_view::StepView;
use crate::holds::HoldCounts;
use cluster::{ClusterState, PodRecord, ProblemRecord};
use model::disruption_policy::DisruptionReason;
use model::plan::Reason;
use model::{ClusterName, MicroUsd, NodeName, PodKey, PoolName, Text, Timestamp};
use rustc_hash::FxHashMap;

pub use super::cost_view::CpuAndMemory;
pub use super::node_view::{MachineView, NodeView};
pub use super::nodeclaim::InstanceAnomalies;
pub use super::pool_view::PoolView;
pub use super::provisioning::PlanningView;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    pub cluster: ClusterName,
    pub connected: bool,
    /// Whether a snapshot was accepted since the agent connected.
    pub synced: bool,
    /// When the last snapshot was accepted, whether or not its agent is still connected.
    pub synced_since: Option<Timestamp>,
    /// Since when the agent has not been connected with an accepted snapshot, as long as that lasts.
    pub unsynced_since: Option<Timestamp>,
    pub version: u64,
    /// Number of pods that have not ended.
    pub pods: usize,
    /// Number of unschedulable pods for which an instance may be launched.
    pub pending: usize,
    /// Unschedulable pods, by namespace and name.
    pub pending_pods: Vec<PendingPodView>,
    /// Number of Nodes, including those of other managers.
    pub node_count: usize,
    /// Nodes of any manager, and machines without Node, by name.
    pub nodes: Vec<NodeView>,
    /// NodePools, by name.
    pub pools: Vec<PoolView>,
    /// Price per hour of the machines of this server.
    pub cost: MicroUsd,
    /// Number of unavailable offerings in the account and region.
    pub unavailable_offerings: usize,
    /// Last decisions, latest first.
    pub decisions: Vec<Arc<Decision>>,
    /// Why the last plan failed, until one succeeds.
    pub last_error: Option<String>,
    pub planning: Option<PlanningView>,
    /// What the guardrails hold back, and why.
    pub guardrails: GuardrailsView,
    pub anomalies: InstanceAnomalies,
    /// Other active autoscalers in the cluster.
    pub autoscalers: Vec<Text>,
    /// Objects that cannot be read or watched, and why.
    pub problems: Vec<ProblemRecord>,
    /// What was counted since this process owns the cluster.
    pub measured: Measurements,
    /// Nodes that could be removed or replaced for a reason, before budgets, at the last pass or plan of disruption.
    pub eligible_nodes: [(DisruptionReason, usize); 3],
    pub holds: HoldCounts,
    /// NodePools that are not managed, and why.
    pub unmanaged_pools: Vec<(PoolName, Text)>,
    /// Nodes on which no pod is placed although they stay, and why.
    pub unusable_nodes: Vec<(NodeName, Text)>,
}

impl ClusterView {
    pub fn machines(&self) -> impl Iterator<Item = &MachineView> {
        self.nodes.iter().filter_map(|node| node.machine.as_ref())
    }
}

impl StepView<'_> {
    /// The view of the cluster, as it is published.
    #[must_use]
    pub fn cluster_view(&self) -> ClusterView {
        let guardrails = self.region.lock_guardrails(self.now);
        let (shown, pools) = (self.guardrails_view(&guardrails), pools_view(&guardrails, self));
        drop(guardrails);
        ClusterView { pools, ..view_of(self.region.offerings().counts().0, shown, self) }
    }

    /// The observed state as it is now, which is copied at its next change while it is held.
    #[must_use]
    pub fn observed_state(&self) -> Arc<ClusterState> {
        self.state.snapshot()
    }
}

impl ClusterController {
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
        anomalies: step.gc.anomalies(step.claims),
        autoscalers: step.state.active_autoscalers().cloned().collect(),
        problems: step.state.problems().collect(),
        unmanaged_pools: unmanaged_pools(step.state),
        unusable_nodes: unusable_nodes(step),
        holds: step.holds.counts(),
        measured: step.history.measurements(),
        eligible_nodes: step.disruption.eligible_nodes(),
    }
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPodView {
    pub pod: PodKey,
    pub uid: Text,
    pub created: Option<Timestamp>,
    pub requests: CpuAndMemory,
    pub outlook: PodOutlook,
}

/// What becomes of an unschedulable pod.
#[derive(Debug, Clone)]
pub enum PodOutlook {
    /// It waits for the next plan.
    Waiting,
    /// It is planned on this Node or NodeClaim.
    Planned(NodeName),
    /// The latest decision about it found no place.
    Unplaced {
        decision: Arc<Decision>,
        /// The pod among its `unplaced`.
        index: usize,
    },
}

impl PodOutlook {
    /// Why the pod has no place.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Waiting | Self::Planned(_) => &[],
            Self::Unplaced { decision, index } => decision.unplaced.get(*index).map_or(&[], |pod| &pod.reasons),
        }
    }
}

/// Equal if they say the same, also by different decisions.
impl PartialEq for PodOutlook {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waiting, Self::Waiting) => true,
            (Self::Planned(node), Self::Planned(other)) => node == other,
            (Self::Unplaced { .. }, Self::Unplaced { .. }) => self.reasons() == other.reasons(),
            _ => false,
        }
    }
}

impl Eq for PodOutlook {}
