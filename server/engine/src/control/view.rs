//! What people see of one cluster.

use std::sync::Arc;

use super::guardrails::GuardrailsView;
use super::machine::{LaunchedInstance, Stage};
use super::{ClusterId, Decision};
use crate::cluster::{PodKey, ProblemRecord};
use crate::model::{MicroUsd, Text, Timestamp};

/// Pods with a promise that a view lists.
pub const EXPECTED_SHOWN: usize = 200;

/// One cluster, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// Name.
    pub cluster: ClusterId,
    /// Whether its agent is there.
    pub connected: bool,
    /// Whether its state is known since the agent connected.
    pub synced: bool,
    /// Since when, if it is.
    pub synced_since: Option<Timestamp>,
    /// Version of the state.
    pub version: u64,
    /// Pods, those that have ended apart.
    pub pods: usize,
    /// Pods without a node for which a machine may be bought.
    pub pending: usize,
    /// Pods that wait for room that was promised to them, and the NodeClaim or Node where it is; by name, at most
    /// [`EXPECTED_SHOWN`].
    pub expected: Vec<(PodKey, Text)>,
    /// Nodes in the cluster, ours and others.
    pub nodes: usize,
    /// NodePools, by name.
    pub pools: Vec<PoolView>,
    /// Our machines, by NodeClaim.
    pub machines: Vec<MachineView>,
    /// What our machines cost per hour.
    pub cost: MicroUsd,
    /// Offerings that are sold out, over all clusters.
    pub sold_out: usize,
    /// The last decisions, latest first.
    pub decisions: Vec<Arc<Decision>>,
    /// Why the last plan was refused, until one succeeds.
    pub refused: Option<String>,
    /// The plan that is being made, if one is.
    pub planning: Option<PlanningView>,
    /// What the rails hold back, and why.
    pub rails: GuardrailsView,
    /// Machines in the cloud that something is wrong with.
    pub astray: Astray,
    /// Other autoscalers that are at work in the cluster.
    pub autoscalers: Vec<Text>,
    /// What of the cluster cannot be read or seen, and why.
    pub problems: Vec<ProblemRecord>,
    /// NodePools that are left to others, and why.
    pub left_pools: Vec<(Text, Text)>,
}

/// A plan that is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanningView {
    /// Since when.
    pub since: Timestamp,
    /// For how many pods.
    pub pods: usize,
    /// Pods that are left to the next plan, beyond what one plan takes.
    pub left: usize,
}

/// Machines in the cloud that something is wrong with, as far as listings and questions about single ones have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Astray {
    /// Machines with this cluster's tags that no NodeClaim stands for, and that are not given back yet.
    pub orphaned: usize,
    /// Machines of the cluster whose tags say that they are not its own, or have gone.
    pub foreign: usize,
    /// Machines that the cloud refuses to give back.
    pub refused: usize,
}

/// A NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// Name.
    pub name: Text,
    /// 0 to 100, higher first.
    pub weight: i32,
    /// Why nothing is launched from it, whatever pods ask for.
    pub closed: Option<Text>,
}

/// One of our machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// NodeClaim.
    pub claim: Text,
    /// Node, once there is one.
    pub node: Option<Text>,
    /// NodePool.
    pub pool: Text,
    /// Where it stands.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// What was bought, once it was.
    pub bought: Option<LaunchedInstance>,
    /// Pods on it, DaemonSet pods apart.
    pub pods: usize,
    /// Why it has to go, once it has to.
    pub leaves: Option<Text>,
    /// What keeps its pods from leaving, while it is drained and something does.
    pub blocked: Option<Text>,
}
