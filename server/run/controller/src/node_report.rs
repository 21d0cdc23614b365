//! Why a node is there, or why it went: a report for operators, from the state of now.
//!
//! What blocks a node from removal is named by the codes of plans of disruption ([`BlockCode`]). Blocks that follow from the
//! state are computed when the report is made ([`blocks`]); whether anything would be saved is known from the last plan of
//! disruption ([`planned_blocks`]).
//!
//! [`BlockCode`]: model::disruption_plan::BlockCode

mod blocks;
pub(crate) mod planned_blocks;
pub(crate) mod removed_nodes;
mod verdicts;

use std::cell::Cell;

use crate::context::Context;
use crate::cost_view::CpuAndMemory;
use crate::nodeclaim::unusable_reason;
use crate::step_view::StepView;
use blocks::{ClusterBlocks, LiveBlocks};
use cluster::{ClusterState, NodeRecord, PodRecord};
use model::disruption_plan::{Block, BlockCode};
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, NodeName, PodKey, PoolName, Text, Timestamp};
pub use removed_nodes::RemovedNode;
use removed_nodes::RemovedNodes;

/// Why a node is there, or why it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// When it was made.
    pub at: Timestamp,
    /// What is known of the node.
    pub node: ReportedNode,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedNode {
    /// The cluster shows it.
    Present(Box<PresentNode>),
    /// It went while this process owned the cluster.
    Removed(RemovedNode),
    /// It is not there, and this process has not seen it go; the names of the nodes that are there.
    Unknown(Vec<NodeName>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PresentNode {
    pub name: NodeName,
    pub claim: Option<ClaimName>,
    pub pool: Option<PoolName>,
    /// Price per hour; 0 if it is unknown.
    pub price: MicroUsd,
    /// Number of its pods, without those of DaemonSets.
    pub pods: usize,
    /// Its pods that have not ended, those of DaemonSets included, by their names.
    pub running: Vec<NodePod>,
    /// Why it is being removed; `None` while it stays.
    pub leaves: Option<Text>,
    /// Why no pod is placed on it although it stays; `None` when pods are.
    pub unusable: Option<Text>,
    /// Why it would go, in the order of precedence, and what blocks it.
    pub verdicts: Vec<Verdict>,
    pub expires: Option<Timestamp>,
    /// Time of the last plan of disruption.
    pub planned_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    pub key: PodKey,
    /// `Kind/name` of its owner, or `Pod/name`.
    pub workload: Text,
    pub is_daemon: bool,
    /// Whether it has a deletion timestamp.
    pub is_terminating: bool,
    pub requests: CpuAndMemory,
}

impl NodePod {
    fn of(pod: &PodRecord) -> Self {
        Self {
            key: pod.key.clone(),
            workload: pod.workload.clone(),
            is_daemon: pod.daemon.is_some(),
            is_terminating: pod.terminating,
            requests: CpuAndMemory::of(&pod.shape.requests),
        }
    }
}

/// A reason for which a node would go, and what blocks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub reason: RemovalReason,
    /// The evidence for the reason, one sentence.
    pub evidence: Text,
    /// What blocks it; empty if it may go now.
    pub by: Vec<Block>,
}

/// What blocks a managed node that stays.
pub(crate) struct NodeBlocks {
    pub claim: ClaimName,
    /// Whether its NodePool has a time for `consolidateAfter`.
    pub consolidates: bool,
    /// Why it would go, in the order of precedence, and what blocks it.
    pub verdicts: Vec<Verdict>,
}

impl StepView<'_> {
    /// Why the Node of this name, or the Node of the NodeClaim of this name, is there, or why it went.
    #[must_use]
    pub fn node_report(&self, name: &str) -> NodeReport {
        let (locked, mut effects) = (Cell::new(false), Vec::new());
        let of = (self.cluster.clone(), self.uid.clone());
        let ctx = Context::new(of, self.region, &locked, &mut effects, self.now);
        let by_claim = || self.state.node_of_claim(&ClaimName::from(name));
        let node = match self.state.node(&NodeName::from(name)).or_else(by_claim) {
            Some(node) => ReportedNode::Present(Box::new(present_node(node, self, &ctx))),
            None => absent_node(name, &self.history.removed_nodes, self),
        };
        NodeReport { at: self.now, node }
    }
}

/// What blocks those of `nodes` that this server manages and that stay.
pub(crate) fn blocks_of_nodes(nodes: &[&NodeRecord], view: &StepView<'_>, ctx: &Context<'_>) -> Vec<NodeBlocks> {
    let cluster = ClusterBlocks::new(view, ctx);
    let of_node = |node: &&NodeRecord| {
        let blocks = LiveBlocks::new(view, &cluster, node, ctx);
        let candidate = blocks.managed.filter(|candidate| !blocks.view.is_leaving(candidate.claim))?;
        let consolidates = candidate.pool.disruption.consolidate_after.is_some();
        Some(NodeBlocks { claim: candidate.claim.name.clone(), consolidates, verdicts: blocks.verdicts() })
    };
    nodes.iter().filter_map(of_node).collect()
}

fn absent_node(name: &str, removed: &RemovedNodes, view: &StepView<'_>) -> ReportedNode {
    let claim = ClaimName::from(name);
    if let Some(machine) = view.claims.get(&claim) {
        let leaves = machine.termination_reason().map(|reason| Text::from(reason.to_string()));
        let message = format!("has no Node yet (stage {:?})", machine.stage());
        let by = vec![Block::new(BlockCode::NotInitialized, format!("NodeClaim/{claim}"), message)];
        let evidence = Text::from("it is being launched");
        return ReportedNode::Present(Box::new(PresentNode {
            name: NodeName::from(name),
            pool: Some(machine.pool().clone()),
            price: view.claims.price_of(&claim),
            claim: Some(claim),
            leaves,
            verdicts: vec![Verdict { reason: RemovalReason::Underutilized, evidence, by }],
            planned_at: view.disruption.consolidation.planned_blocks.at(),
            ..PresentNode::default()
        }));
    }
    match removed.get(name) {
        Some(removed) => ReportedNode::Removed(removed.clone()),
        None => ReportedNode::Unknown(view.state.nodes().map(|node| node.name.clone()).collect()),
    }
}

fn running_pods(node: &NodeName, state: &ClusterState) -> Vec<NodePod> {
    let pods = state.pods_on(node).filter(|pod| !pod.is_terminal());
    let mut running: Vec<NodePod> = pods.map(NodePod::of).collect();
    running.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    running
}

fn present_node(node: &NodeRecord, view: &StepView<'_>, ctx: &Context<'_>) -> PresentNode {
    let claim = view.state.claim_of_node(node);
    let machine = claim.and_then(|claim| view.claims.get(&claim.name));
    let leaves = machine.and_then(|machine| machine.termination_reason()).map(|why| Text::from(why.to_string()));
    let deleted = || node.deleting.then(|| Text::from("the Node was deleted in the cluster"));
    let cluster = ClusterBlocks::new(view, ctx);
    let blocks = LiveBlocks::new(view, &cluster, node, ctx);
    PresentNode {
        name: node.name.clone(),
        claim: claim.map(|claim| claim.name.clone()),
        pool: claim.map(|claim| claim.pool.clone()),
        price: claim.map(|claim| view.claims.price_of(&claim.name)).unwrap_or_default(),
        pods: view.state.non_daemon_pods_on(&node.name),
        running: running_pods(&node.name, view.state),
        leaves: leaves.or_else(deleted),
        unusable: unusable_reason(node, view),
        verdicts: blocks.verdicts(),
        expires: blocks.expires(),
        planned_at: view.disruption.consolidation.planned_blocks.at(),
    }
}
