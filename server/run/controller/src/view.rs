//! Read model of one cluster, for the dashboard, the CLI and metrics.

use std::sync::Arc;

use super::Decision;
use super::guardrails::GuardrailsView;
use crate::holds::HoldCounts;
use crate::lifecycle_counters::LifecycleCounters;
use crate::nodeclaim::{LaunchedInstance, StageKind};
use crate::pod_durations::PodDurations;
use cluster::ProblemRecord;
use cost::CostParts;
use model::disruption_policy::DisruptionReason;
use model::plan::Reason;
use model::{ClaimName, ClusterName, MicroUsd, NodeName, PodKey, PoolName, ProviderId, Resources, Text, Timestamp};

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
    /// What has become of machines since this process owns the cluster.
    pub counters: Arc<LifecycleCounters>,
    /// How long pods have waited since this process owns the cluster.
    pub pod_durations: Arc<PodDurations>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanningView {
    /// When it was requested.
    pub since: Timestamp,
    pub pods: usize,
    /// Number of pods that remain for the next plans.
    pub left: usize,
}

/// Numbers of instances with anomalies, as far as listings and inspections show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstanceAnomalies {
    /// Instances with this cluster's tags and without NodeClaim, not terminated yet.
    pub orphaned: usize,
    /// Instances of the cluster whose tags name another cluster, or are missing.
    pub foreign: usize,
    /// Instances whose termination the cloud refused.
    pub termination_refused: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// `metadata.name`.
    pub name: PoolName,
    /// `spec.weight`: 0 to 100, higher first.
    pub weight: i32,
    /// Why no instance is launched from it.
    pub closed: Option<Text>,
    /// `spec.limits`.
    pub limits: Resources,
    /// Capacity of its launched NodeClaims, and their number as `nodes`.
    pub usage: Resources,
    /// Price per hour of its machines.
    pub cost: MicroUsd,
    /// How many of its nodes its budgets let be removed at one time, by reason.
    pub allowed_disruptions: [(DisruptionReason, usize); 3],
    /// Its nodes that are being removed or are not ready: they use up the budgets.
    pub leaving: usize,
    pub drifted: usize,
    /// Pods that wait because of its limits.
    pub limited_pods: usize,
}

/// View of a Node, or of a machine without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Name of the Node; that of the NodeClaim while there is no Node.
    pub name: NodeName,
    /// UID of the NodeClaim, or of the Node if it is of another manager; empty while the NodeClaim is not observed.
    pub uid: Text,
    /// The machine, if it is one of this server.
    pub machine: Option<MachineView>,
    /// `spec.providerID`; empty before the launch.
    pub provider_id: ProviderId,
    /// `node.kubernetes.io/instance-type`; empty if it is not known.
    pub instance_type: Text,
    /// `topology.kubernetes.io/zone`; empty if it is not known.
    pub zone: Text,
    /// `karpenter.sh/capacity-type`; empty if it is not known.
    pub capacity_type: Text,
    /// Whether the condition `Ready` of the Node is True.
    pub ready: bool,
    /// When the Node, or the NodeClaim without Node, was created.
    pub created: Option<Timestamp>,
    /// Number of its pods, without DaemonSet pods.
    pub pods: usize,
    /// Requests of its pods, those of DaemonSets included.
    pub requested: CpuAndMemory,
    /// `status.allocatable`.
    pub allocatable: CpuAndMemory,
}

impl NodeView {
    /// The name that does not change while the node exists: that of the NodeClaim, or of the Node of another manager.
    #[must_use]
    pub fn id(&self) -> &str {
        self.machine.as_ref().map_or(&**self.name, |machine| &**machine.claim)
    }

    /// Name of the Node; `None` before it joins.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match &self.machine {
            Some(machine) => machine.node.as_ref(),
            None => Some(&self.name),
        }
    }
}

/// Amounts of the two resources that every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuAndMemory {
    /// Millicores.
    pub cpu_millis: i64,
    pub memory_bytes: i64,
}

impl CpuAndMemory {
    /// These two of `resources`.
    #[must_use]
    pub fn of(resources: &Resources) -> Self {
        Self { cpu_millis: resources.get(model::resources::CPU), memory_bytes: resources.get(model::resources::MEMORY) }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
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

/// View of a machine of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    pub claim: ClaimName,
    /// Name of its Node, once observed.
    pub node: Option<NodeName>,
    pub pool: PoolName,
    pub stage: StageKind,
    /// When it entered the stage.
    pub since: Timestamp,
    pub instance: Option<LaunchedInstance>,
    /// Why it is terminated; `None` while it is not.
    pub termination_reason: Option<Text>,
    pub blocked: Option<Text>,
    /// What its price is spent on, in micro-dollars per hour.
    pub cost: CostParts,
}
