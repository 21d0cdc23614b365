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
use std::sync::Arc;

use crate::cluster_controller::{ClusterController, Context};
use crate::view::CpuAndMemory;
use blocks::{ClusterBlocks, LiveBlocks};
use cluster::{NodeRecord, PodRecord};
use model::disruption_plan::{Block, BlockCode};
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, NodeName, PodKey, PoolName, Text, Timestamp};
pub use removed_nodes::RemovedNode;

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

impl ClusterController {
    /// What blocks those of `nodes` that this server manages and that stay.
    pub(crate) fn blocks_of_nodes(&self, nodes: &[&NodeRecord], ctx: &Context<'_>) -> Vec<NodeBlocks> {
        let cluster = ClusterBlocks::new(self, ctx);
        let of_node = |node: &&NodeRecord| {
            let blocks = LiveBlocks::new(self, &cluster, node, ctx);
            let candidate = blocks.managed.filter(|candidate| !blocks.view.is_leaving(candidate.claim))?;
            let consolidates = candidate.pool.disruption.consolidate_after.is_some();
            Some(NodeBlocks { claim: candidate.claim.name.clone(), consolidates, verdicts: blocks.verdicts() })
        };
        nodes.iter().filter_map(of_node).collect()
    }

    /// Why the Node of this name, or the Node of the NodeClaim of this name, is there, or why it went.
    #[must_use]
    pub fn node_report(&self, name: &str, now: Timestamp) -> NodeReport {
        let (region, locked, mut effects) = (Arc::clone(&self.region), Cell::new(false), Vec::new());
        let ctx = Context::new(&region, &locked, &mut effects, now);
        let by_claim = || self.state.node_of_claim(&ClaimName::from(name));
        let node = match self.state.node(&NodeName::from(name)).or_else(by_claim) {
            Some(node) => ReportedNode::Present(Box::new(self.present_node(node, &ctx))),
            None => self.absent_node(name),
        };
        NodeReport { at: now, node }
    }

    fn absent_node(&self, name: &str) -> ReportedNode {
        let claim = ClaimName::from(name);
        if let Some(machine) = self.claims.get(&claim) {
            let leaves = machine.termination_reason().map(|reason| Text::from(reason.to_string()));
            let message = format!("has no Node yet (stage {:?})", machine.stage());
            let by = vec![Block::new(BlockCode::NotInitialized, format!("NodeClaim/{claim}"), message)];
            let evidence = Text::from("it is being launched");
            return ReportedNode::Present(Box::new(PresentNode {
                name: NodeName::from(name),
                pool: Some(machine.pool().clone()),
                price: self.claims.price_of(&claim),
                claim: Some(claim),
                leaves,
                verdicts: vec![Verdict { reason: RemovalReason::Underutilized, evidence, by }],
                planned_at: self.disruption.consolidation.planned_blocks.at(),
                ..PresentNode::default()
            }));
        }
        match self.removed_nodes.get(name) {
            Some(removed) => ReportedNode::Removed(removed.clone()),
            None => ReportedNode::Unknown(self.state.nodes().map(|node| node.name.clone()).collect()),
        }
    }

    fn running_pods(&self, node: &NodeName) -> Vec<NodePod> {
        let pods = self.state.pods_on(node).filter(|pod| !pod.is_terminal());
        let mut running: Vec<NodePod> = pods.map(NodePod::of).collect();
        running.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        running
    }

    fn present_node(&self, node: &NodeRecord, ctx: &Context<'_>) -> PresentNode {
        let claim = self.state.claim_of_node(node);
        let machine = claim.and_then(|claim| self.claims.get(&claim.name));
        let leaves = machine.and_then(|machine| machine.termination_reason()).map(|why| Text::from(why.to_string()));
        let deleted = || node.deleting.then(|| Text::from("the Node was deleted in the cluster"));
        let cluster = ClusterBlocks::new(self, ctx);
        let blocks = LiveBlocks::new(self, &cluster, node, ctx);
        PresentNode {
            name: node.name.clone(),
            claim: claim.map(|claim| claim.name.clone()),
            pool: claim.map(|claim| claim.pool.clone()),
            price: claim.map(|claim| self.claims.price_of(&claim.name)).unwrap_or_default(),
            pods: self.state.non_daemon_pods_on(&node.name),
            running: self.running_pods(&node.name),
            leaves: leaves.or_else(deleted),
            unusable: self.unusable_reason(node),
            verdicts: blocks.verdicts(),
            expires: blocks.expires(),
            planned_at: self.disruption.consolidation.planned_blocks.at(),
        }
    }
}
