//! The view of the Nodes of a cluster, and of its machines.

use super::cost_view::{CostView, CpuAndMemory, NodeRequests};
use super::nodeclaim::{LaunchedInstance, ManagedClaim, StageKind};
use super::status_reporter::drain_blocked_message;
use super::step_view::StepView;
use cluster::{ClusterState, NodeRecord};
use cost::CostParts;
use model::{ClaimName, NodeName, PoolName, ProviderId, Text, Timestamp, labels};
use rustc_hash::FxHashMap;

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

/// Nodes, and machines without one, by the name that they keep while they exist.
pub(crate) fn nodes_view(costs: &CostView<'_>, view: &StepView<'_>) -> Vec<NodeView> {
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

/// What blocks the drain of a machine.
fn drain_blocker(machine: &ManagedClaim, view: &StepView<'_>) -> Option<Text> {
    let node = view.state.node_of_claim(machine.name()).filter(|_| machine.stage() == StageKind::Draining)?;
    drain_blocked_message(&view.state.drain_blockers(&node.name, view.now)).map(Text::from)
}
