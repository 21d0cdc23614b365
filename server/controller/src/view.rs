//! Read model of one cluster, for the dashboard, the CLI and metrics.

use std::sync::Arc;

use super::Decision;
use super::guardrails::GuardrailsView;
use crate::cluster::{ProblemRecord, Target};
use crate::nodeclaim::{LaunchedInstance, StageKind};
use model::{ClaimName, ClusterName, MicroUsd, NodeName, PodKey, PoolName, Text, Timestamp};

/// Maximum number of assigned pods in a view.
pub const MAX_ASSUMED_SHOWN: usize = 200;

/// View of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// Name of the cluster.
    pub cluster: ClusterName,
    /// Whether its agent is connected.
    pub connected: bool,
    /// Whether a snapshot was accepted since the agent connected.
    pub synced: bool,
    /// When that snapshot was accepted.
    pub synced_since: Option<Timestamp>,
    /// Version of the cluster state.
    pub version: u64,
    /// Number of pods that have not ended.
    pub pods: usize,
    /// Number of unschedulable pods for which an instance may be launched.
    pub pending: usize,
    /// Pods assigned to a NodeClaim or Node and not bound yet, by namespace and name, at most
    /// [`MAX_ASSUMED_SHOWN`].
    pub assumed: Vec<(PodKey, Target)>,
    /// Number of Nodes, including those of other managers.
    pub nodes: usize,
    /// NodePools, by name.
    pub pools: Vec<PoolView>,
    /// Machines of this server, by NodeClaim.
    pub machines: Vec<MachineView>,
    /// Price per hour of these machines.
    pub cost: MicroUsd,
    /// Number of unavailable offerings in the account and region.
    pub unavailable_offerings: usize,
    /// Last decisions, latest first.
    pub decisions: Vec<Arc<Decision>>,
    /// Why the last plan failed, until one succeeds.
    pub last_error: Option<String>,
    /// The plan in progress.
    pub planning: Option<PlanningView>,
    /// What the guardrails hold back, and why.
    pub guardrails: GuardrailsView,
    /// Instances with anomalies.
    pub anomalies: InstanceAnomalies,
    /// Other active autoscalers in the cluster.
    pub autoscalers: Vec<Text>,
    /// Objects that cannot be read or watched, and why.
    pub problems: Vec<ProblemRecord>,
    /// NodePools that are not managed, and why.
    pub unmanaged_pools: Vec<(PoolName, Text)>,
}

/// A plan in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanningView {
    /// When it was requested.
    pub since: Timestamp,
    /// Number of its pods.
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

/// View of a NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// `metadata.name`.
    pub name: PoolName,
    /// `spec.weight`: 0 to 100, higher first.
    pub weight: i32,
    /// Why no instance is launched from it.
    pub closed: Option<Text>,
}

/// View of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// Name of the NodeClaim.
    pub claim: ClaimName,
    /// Name of its Node, once observed.
    pub node: Option<NodeName>,
    /// NodePool of the NodeClaim.
    pub pool: PoolName,
    /// StageKind of its lifecycle.
    pub stage: StageKind,
    /// When it entered the stage.
    pub since: Timestamp,
    /// The launched instance.
    pub instance: Option<LaunchedInstance>,
    /// Number of its pods, without DaemonSet pods.
    pub pods: usize,
    /// Why it is terminated; `None` while it is not.
    pub termination_reason: Option<Text>,
    /// What blocks its drain.
    pub blocked: Option<Text>,
}
