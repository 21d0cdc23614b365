//! Which pods of the input are planned, which are not and why, and how many each workload has.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{ClusterState, PodRecord};
use manifests::cluster::Cluster;
use manifests::cluster::pods::PodObject;
use manifests::notes::Notes;
use model::schedulers::PlannedSchedulers;
use model::{ClaimName, NodeName, PodKey, Text, Timestamp};

use crate::drains::BudgetedPods;
use crate::owners::Owners;

/// Pods of one workload in the input.
#[derive(Debug, Default)]
pub struct WorkloadPods {
    /// Names of pods that run or will run.
    pub live: BTreeSet<Text>,
    pub succeeded: i64,
}

/// (namespace, `Kind/name`).
pub type WorkloadKey = (Text, Text);

#[derive(Debug, Default)]
pub struct PresentPods {
    pub owned: BTreeMap<WorkloadKey, WorkloadPods>,
    /// Names that no new pod can have.
    pub taken: BTreeSet<PodKey>,
}

/// Looks at the pods of a cluster.
#[derive(Debug)]
pub struct PodSurvey<'c> {
    /// The objects of the input, except Karpenter's.
    pub cluster: &'c Cluster,
    /// The same, with Karpenter's, as records.
    pub state: &'c ClusterState,
    /// Finds the workload of each pod.
    pub owners: &'c Owners,
    /// The schedulers whose pods are planned.
    pub schedulers: &'c PlannedSchedulers,
    pub now: Timestamp,
    /// Whether new nodes are planned in the place of running ones.
    pub replaces_nodes: bool,
    /// The notes for the user.
    pub notes: &'c mut Notes,
}

impl PodSurvey<'_> {
    /// Counts the pods by workload, and those that run or will run by disruption budget.
    pub fn count(&mut self, budgeted_pods: &mut BudgetedPods) -> PresentPods {
        let mut present = PresentPods::default();
        for pod in &self.cluster.pods {
            let key = PodKey { namespace: pod.meta.namespace.clone(), name: pod.meta.name.clone() };
            let record = self.state.pod(&key).filter(|_| !pod.finished);
            let is_moved = record.is_some_and(|record| self.look_at(pod, record));
            present.taken.insert(key);
            let workload = self.owners.workload(pod);
            let occupies = pod.is_active() || is_moved;
            if occupies {
                budgeted_pods.add_pod(pod, &workload);
            }
            let owned = present.owned.entry((pod.meta.namespace.clone(), workload)).or_default();
            if occupies {
                owned.live.insert(pod.meta.name.clone());
            }
            owned.succeeded += i64::from(pod.succeeded);
        }
        present
    }

    /// Notes what becomes of a pod that has not finished; returns whether it is planned again because its Node leaves.
    fn look_at(&mut self, pod: &PodObject, record: &PodRecord) -> bool {
        let title = pod.meta.title();
        if let Some(node) = &pod.spec.node_name {
            self.note_absent_daemon_set(pod);
            return self.look_at_bound(record, node, &title);
        }
        if record.terminating || record.mirror || record.daemon.is_some() {
            return false;
        }
        if pod.nominated.is_some() && self.state.nominated_node(record).is_some() {
            self.notes.add(
                "pods are nominated for a node (status.nominatedNodeName); they use its capacity and are not planned again",
                &title,
            );
        } else {
            if pod.nominated.is_some() {
                let what = "pods are nominated for a node that is missing or being removed, and are planned again";
                self.notes.add(what, &title);
            }
            self.note_excluded(pod, &title);
        }
        false
    }

    fn look_at_bound(&mut self, record: &PodRecord, node: &NodeName, title: &str) -> bool {
        let is_known = self.state.node(node).is_some() || self.state.claim(&ClaimName::from(node.as_text())).is_some();
        if !is_known {
            self.notes
                .add(&format!("pods run on Node/{node}, which is not in the input, and are not looked at"), title);
            return false;
        }
        if !self.state.are_pods_moved_from(node) || !record.is_reschedulable() {
            return false;
        }
        let is_protected = record.blocks_disruption(self.now);
        if is_protected || self.state.is_never_evicted(record) {
            let why = if is_protected { "karpenter.sh/do-not-disrupt" } else { "a PodDisruptionBudget" };
            self.notes.add(&format!("pods of nodes that are being deleted are held by {why} and not planned"), title);
            return false;
        }
        if let Some(scheduler) = self.state.other_scheduler_of(record) {
            self.notes.add(&format!("pods of another scheduler ({scheduler}) are not planned"), title);
            return false;
        }
        true
    }

    /// Notes why a pod that waits is not planned.
    fn note_excluded(&mut self, pod: &PodObject, title: &str) {
        if pod.spec.gated {
            self.notes.add("gated pods wait for their scheduling gates and are not planned", title);
        } else if let Some(scheduler) = self.schedulers.other(&pod.spec.scheduler) {
            self.notes.add(&format!("pods of another scheduler ({scheduler}) are not planned"), title);
        }
    }

    /// Notes the DaemonSet of `pod` if it is not in the input: the pods of a new node are planned beside those of the
    /// DaemonSets that are.
    fn note_absent_daemon_set(&mut self, pod: &PodObject) {
        let Some(name) = pod.meta.owned_by("DaemonSet").filter(|_| self.replaces_nodes) else { return };
        let namespace = &pod.meta.namespace;
        let mut known = self.cluster.daemons.iter().map(|daemon| (&daemon.meta.namespace, &daemon.meta.name));
        if !known.any(|known| known == (namespace, name)) {
            let what = "DaemonSets that have pods are not in the input: new nodes are planned without them";
            self.notes.add(what, &format!("{namespace}/{name}"));
        }
    }
}
