//! The facts about what stands around pods and nodes, and what is kept of them.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{PodKey, PodRecord};
use crate::model::{LabelSelector, Labels, Text, Timestamp};

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudgetRecord {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// The pods of its namespace that it guards; `None` guards none.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`; 0 while the status does not describe the present specification, as evictions are refused then.
    pub allowed: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready may go regardless.
    pub frees_unhealthy: bool,
}

impl PodBudgetRecord {
    pub(super) fn guards(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// An EC2NodeClass, as far as its life goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassRecord {
    /// Name.
    pub name: Text,
    /// `metadata.generation`.
    pub generation: i64,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It carries the finalizer `karpenter.k8s.aws/termination`.
    pub held: bool,
    /// Why it cannot be used, when its specification cannot be read.
    pub invalid: Option<Text>,
}

/// Another autoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscalerRecord {
    /// `karpenter` or `cluster-autoscaler`.
    pub name: Text,
    /// Whether it is at work.
    pub live: bool,
    /// What shows that it is; empty when nothing does.
    pub evidence: Text,
}

/// Something of the cluster that cannot be read, or cannot be seen. The rest of the cluster is decided for as always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRecord {
    /// What it is about, such as `node n1`.
    pub about: Text,
    /// Why, and what follows from it.
    pub reason: Text,
}

/// How many volumes each CSI driver can attach to a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachRecord {
    /// Node.
    pub node: Text,
    /// (Driver, volumes).
    pub limits: Vec<(Text, i64)>,
}

/// What is believed about the surroundings of pods and nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    /// By namespace and name.
    pub(super) budgets: BTreeMap<(Text, Text), PodBudgetRecord>,
    pub(super) classes: BTreeMap<Text, ClassRecord>,
    pub(super) autoscalers: BTreeMap<Text, AutoscalerRecord>,
    /// Why something cannot be read or seen, by what it is about.
    pub(super) problems: BTreeMap<Text, Text>,
    /// By node.
    pub(super) attach: BTreeMap<Text, Vec<(Text, i64)>>,
    /// When Cluster Autoscaler said that it buys for a pod, by moment; follows the pods.
    pub(super) foreign: BTreeSet<(Timestamp, PodKey)>,
    /// How long such pods are left alone, in milliseconds.
    pub(super) hold_ms: Option<i64>,
    /// Decisions are written down and not carried out, so that nothing is bought twice beside a live Karpenter.
    pub(super) shadow: bool,
}

impl Surroundings {
    /// `before` is in the place of a pod, and `after` takes it.
    pub(super) fn note_foreign(&mut self, before: Option<&PodRecord>, after: Option<&PodRecord>) {
        let entry = |pod: &PodRecord| pod.foreign_scale_up.map(|at| (at, pod.key.clone()));
        if let Some(gone) = before.and_then(entry) {
            self.foreign.remove(&gone);
        }
        self.foreign.extend(after.filter(|pod| pod.node.is_none()).and_then(entry));
    }
}
