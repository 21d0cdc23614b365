//! Records beside pods, nodes, NodeClaims and NodePools: budgets, node classes, volume limits, other autoscalers, problems.

use std::collections::{BTreeMap, BTreeSet};

use super::external_autoscalers::AutoscalerRecord;
use super::node_class::ClassRecord;
use super::pdb::PodBudgetRecord;
use super::record::PodRecord;
use super::state::ClusterState;
use model::{Millis, NodeName, PodKey, Text, Timestamp};

/// An object that the agent or the server cannot read or watch. Decisions for the rest of the cluster are unaffected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRecord {
    /// The object, such as `node n1`.
    pub about: Text,
    /// The cause and its consequence.
    pub reason: Text,
}

/// How many volumes each CSI driver can attach to a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachRecord {
    /// Name of the CSINode, which is that of the Node.
    pub node: NodeName,
    /// Limit of each driver, as (driver, volumes).
    pub limits: Vec<(Text, i64)>,
}

/// Observed records other than pods, nodes, NodeClaims and NodePools.
#[derive(Debug, Clone, Default)]
pub(super) struct AuxiliaryRecords {
    /// By namespace and name.
    pub(super) budgets: BTreeMap<(Text, Text), PodBudgetRecord>,
    pub(super) classes: BTreeMap<Text, ClassRecord>,
    pub(super) autoscalers: BTreeMap<Text, AutoscalerRecord>,
    /// Reason of each problem, by object.
    pub(super) problems: BTreeMap<Text, Text>,
    /// Attach limits by node.
    pub(super) attach: BTreeMap<NodeName, Vec<(Text, i64)>>,
    /// Pending pods for which Cluster Autoscaler triggered a scale-up, by time; index of `pods`.
    pub(super) external_scale_ups: BTreeSet<(Timestamp, PodKey)>,
    /// How long such pods are not planned.
    pub(super) hold_for: Option<Millis>,
    /// Decisions are recorded and not executed, so that nothing is launched twice beside an active Karpenter.
    pub(super) shadow: bool,
}

impl AuxiliaryRecords {
    /// Updates the index of scale-ups when a pod changes from `before` to `after`.
    pub(super) fn index_external_scale_up(&mut self, before: Option<&PodRecord>, after: Option<&PodRecord>) {
        let entry = |pod: &PodRecord| pod.external_scale_up.map(|at| (at, pod.key.clone()));
        if let Some(gone) = before.and_then(entry) {
            self.external_scale_ups.remove(&gone);
        }
        self.external_scale_ups.extend(after.filter(|pod| pod.node.is_none()).and_then(entry));
    }
}

impl ClusterState {
    /// Objects that cannot be read or watched, by object.
    pub fn problems(&self) -> impl Iterator<Item = ProblemRecord> {
        let problems = self.auxiliary.problems.iter();
        problems.map(|(about, reason)| ProblemRecord { about: about.clone(), reason: reason.clone() })
    }
}
