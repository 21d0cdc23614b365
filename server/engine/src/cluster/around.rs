//! What stands around pods and nodes: disruption budgets of pods, EC2NodeClasses, attach limits, other autoscalers.

use std::collections::{BTreeMap, BTreeSet};

use super::observation::ClusterSnapshot;
use super::record::{PodKey, PodRecord, PoolRecord};
use super::state::ClusterState;
use crate::model::{LabelSelector, Labels, Text, Timestamp};

/// How long a pod is left to Cluster Autoscaler after it has said that it buys a node for it, in milliseconds. Longer than a
/// node usually takes to join, shorter than Cluster Autoscaler's own patience (`--max-node-provision-time`, 15 minutes).
pub const FOREIGN_SCALE_UP_MS: i64 = 5 * 60_000;

/// Name of Karpenter in an [`AutoscalerRecord`].
pub const KARPENTER: &str = "karpenter";

/// The annotation by which NodePools and NodeClaims are ours, or, with the value `false`, are not.
pub const MANAGED: &str = "fleetwright.dev/managed";

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
    fn guards(&self, labels: &Labels) -> bool {
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

/// Another autoscaler, by its leader election lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscalerRecord {
    /// `karpenter` or `cluster-autoscaler`.
    pub name: Text,
    /// Whether its lease is held and fresh.
    pub live: bool,
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
    /// By node.
    pub(super) attach: BTreeMap<Text, Vec<(Text, i64)>>,
    /// When Cluster Autoscaler said that it buys for a pod, by moment; follows the pods.
    pub(super) foreign: BTreeSet<(Timestamp, PodKey)>,
    /// How long such pods are left alone, in milliseconds.
    pub(super) hold_ms: Option<i64>,
}

impl Surroundings {
    /// Everything that the cluster has shown of them, in a snapshot that holds nothing else.
    pub(super) fn to_snapshot(&self) -> ClusterSnapshot {
        let attach = self.attach.iter();
        ClusterSnapshot {
            budgets: self.budgets.values().cloned().collect(),
            classes: self.classes.values().cloned().collect(),
            attach: attach.map(|(node, limits)| AttachRecord { node: node.clone(), limits: limits.clone() }).collect(),
            autoscalers: self.autoscalers.values().cloned().collect(),
            ..ClusterSnapshot::default()
        }
    }
}

impl ClusterState {
    /// How long a pod is left to Cluster Autoscaler once that buys for it, in milliseconds.
    pub fn hold_after_foreign_scale_up(&mut self, hold_ms: i64) {
        self.around.hold_ms = Some(hold_ms);
    }

    fn hold_ms(&self) -> i64 {
        self.around.hold_ms.unwrap_or(FOREIGN_SCALE_UP_MS)
    }

    /// Until when `pod` is left to Cluster Autoscaler; `None` when it is not.
    #[must_use]
    pub fn held_until(&self, pod: &PodRecord, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp(pod.foreign_scale_up?.0.saturating_add(self.hold_ms()));
        (until > now).then_some(until)
    }

    /// When the next pod is ours to plan because Cluster Autoscaler's node has not come.
    #[must_use]
    pub fn next_release(&self, now: Timestamp) -> Option<Timestamp> {
        let hold = self.hold_ms();
        let until = |at: &Timestamp| Timestamp(at.0.saturating_add(hold));
        self.around.foreign.iter().map(|(at, _)| until(at)).find(|until| *until > now)
    }

    pub(super) fn note_foreign(&mut self, before: Option<&PodRecord>, after: Option<&PodRecord>) {
        let entry = |pod: &PodRecord| pod.foreign_scale_up.map(|at| (at, pod.key.clone()));
        if let Some(gone) = before.and_then(entry) {
            self.around.foreign.remove(&gone);
        }
        self.around.foreign.extend(after.filter(|pod| pod.node.is_none()).and_then(entry));
    }

    /// The node that kube-scheduler has promised to `pod` by itself, when that node stays.
    #[must_use]
    pub fn nominated_node<'p>(&self, pod: &'p PodRecord) -> Option<&'p Text> {
        let waits = pod.node.is_none() && !pod.is_terminal();
        pod.nominated.as_ref().filter(|node| waits && self.node(node).is_some() && !self.is_going_node(node))
    }

    /// Whether a live Karpenter works in this cluster.
    #[must_use]
    pub fn karpenter_lives(&self) -> bool {
        self.around.autoscalers.get(KARPENTER).is_some_and(|karpenter| karpenter.live)
    }

    /// Other autoscalers that are at work in this cluster, by name.
    pub fn live_autoscalers(&self) -> impl Iterator<Item = &Text> {
        self.around.autoscalers.values().filter(|other| other.live).map(|other| &other.name)
    }

    /// Why `pool` is not ours to use; `None` when it is.
    #[must_use]
    pub fn left_to_others(&self, pool: &PoolRecord) -> Option<Text> {
        match pool.meta.managed {
            Some(false) => Some(Text::from(format!("its annotation {MANAGED} is \"false\""))),
            None if self.karpenter_lives() => Some(Text::from(format!(
                "Karpenter is at work in this cluster and the NodePool is left to it; annotate it {MANAGED}: \"true\" to hand it over"
            ))),
            Some(true) | None => None,
        }
    }

    /// EC2NodeClasses, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.around.classes.values()
    }

    /// The EC2NodeClass of that name.
    #[must_use]
    pub fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.around.classes.get(name)
    }

    /// What keeps `pod` from being evicted from its node at `now`; `None` when nothing does (Karpenter: PDB limits).
    #[must_use]
    pub fn eviction_barred(&self, pod: &PodRecord, now: Timestamp) -> Option<String> {
        if pod.refuses_disruption(now) {
            return Some(format!("pod {} has karpenter.sh/do-not-disrupt", pod.key));
        }
        let of_space = (pod.key.namespace.clone(), Text::default());
        let budgets = self.around.budgets.range(of_space..).map(|(_, budget)| budget);
        let guards: Vec<&PodBudgetRecord> = budgets
            .take_while(|budget| budget.namespace == pod.key.namespace)
            .filter(|budget| budget.guards(&pod.labels))
            .collect();
        match guards.as_slice() {
            [] => None,
            [one] if one.frees_unhealthy && !pod.ready => None,
            [one] if one.allowed > 0 => None,
            [one] => Some(format!(
                "PodDisruptionBudget {}/{} lets pod {} not go now (disruptionsAllowed is 0)",
                one.namespace, one.name, pod.key
            )),
            [one, other, ..] => Some(format!(
                "pod {} has the PodDisruptionBudgets {} and {}, and pods with more than one are never evicted",
                pod.key, one.name, other.name
            )),
        }
    }

    /// What keeps the pods of `node` from leaving it at `now`, a sentence for each, by pod.
    #[must_use]
    pub fn drain_barred(&self, node: &Text, now: Timestamp) -> Vec<String> {
        let leaving = self.pods_on(node).filter(|pod| !pod.terminating && pod.daemon.is_none() && !pod.mirror);
        leaving.filter_map(|pod| self.eviction_barred(pod, now)).collect()
    }
}
