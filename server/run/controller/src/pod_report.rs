//! Where a pod is, or why it has no place: a report for operators, from the state of now and the latest decisions.

use std::sync::Arc;

use crate::cost_view::CpuAndMemory;
use crate::decision::{Decision, DecisionId};
use crate::step_view::StepView;
use crate::view::{PendingPodView, PodOutlook};
use cluster::PodRecord;
use model::{NodeName, PodKey, Text, Timestamp};

/// Where a pod is, or why it has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReport {
    /// When it was made.
    pub at: Timestamp,
    /// What is known of the pod.
    pub pod: ReportedPod,
}

/// What is known of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedPod {
    Bound {
        node: NodeName,
        /// The latest decision that planned it, as far as this process remembers.
        decision: Option<PodDecision>,
    },
    /// It is not bound.
    Pending {
        /// As lists show it.
        pod: Box<PendingPodView>,
        /// Why Fleetwright does nothing for it, or what it waits for; empty if the outlook says it all.
        reasons: Vec<Text>,
        /// The latest decision that planned it or found no place.
        decision: Option<PodDecision>,
    },
    /// It is not there; names of the pods in its namespace.
    Unknown(Vec<Text>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDecision {
    pub id: DecisionId,
    /// Why it planned the pod so, one sentence.
    pub reason: Option<Text>,
}

/// Most names of an answer about an unknown pod.
const NAMES_SHOWN: usize = 10_000;

impl StepView<'_> {
    /// Where the pod `key` is, or why it has no place.
    #[must_use]
    pub fn pod_report(&self, key: &PodKey) -> PodReport {
        let Some(pod) = self.state.pod(key) else {
            let same = self.state.pods().filter(|pod| pod.key.namespace == key.namespace);
            let names = same.map(|pod| pod.key.name.clone()).take(NAMES_SHOWN).collect();
            return PodReport { at: self.now, pod: ReportedPod::Unknown(names) };
        };
        let decision = self.decisions.recent().find_map(|decision| about(decision, key));
        let pod = match &pod.node {
            Some(node) => ReportedPod::Bound { node: node.clone(), decision },
            None => ReportedPod::Pending {
                reasons: waits(pod, self),
                pod: Box::new(pending_pod_report(pod, self)),
                decision,
            },
        };
        PodReport { at: self.now, pod }
    }
}

fn pending_pod_report(pod: &PodRecord, view: &StepView<'_>) -> PendingPodView {
    let unplaced = |decision: &Arc<Decision>| {
        let index = decision.unplaced.iter().position(|unplaced| unplaced.pod == pod.key)?;
        Some(PodOutlook::Unplaced { decision: Arc::clone(decision), index })
    };
    let outlook = match view.state.assignments().get(&pod.key) {
        Some(assignment) => PodOutlook::Planned(NodeName::from(assignment.target.name().clone())),
        None => view.decisions.recent().find_map(unplaced).unwrap_or(PodOutlook::Waiting),
    };
    PendingPodView {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        created: pod.created,
        requests: CpuAndMemory::of(&pod.shape.requests),
        outlook,
    }
}

/// What the pod waits for, besides what decisions say.
fn waits(pod: &PodRecord, view: &StepView<'_>) -> Vec<Text> {
    let mut reasons: Vec<Text> = Vec::new();
    if let Some(invalid) = &pod.invalid {
        reasons.push(invalid.clone());
    }
    if pod.is_terminal() {
        reasons.push("the pod has ended".into());
    } else if pod.daemon.is_some() || pod.mirror {
        reasons.push("the pod belongs to one node: no node is launched for it".into());
    } else if let Some(scheduler) = view.state.other_scheduler_of(pod) {
        let why = "no node is launched for its pods (control.schedulers)";
        reasons.push(format!("the scheduler {scheduler} places the pod, which is not planned for: {why}").into());
    } else if pod.scheduling == cluster::Scheduling::Gated {
        reasons.push("the pod has scheduling gates; no node is launched for it before they are removed".into());
    } else if let Some(node) = &pod.nominated {
        reasons.push(format!("kube-scheduler has nominated node {node} for the pod").into());
    } else if !pod.is_unschedulable() {
        reasons.push("kube-scheduler has not reported that no node fits the pod".into());
    }
    if view.state.assignments().get(&pod.key).is_none() {
        reasons.extend(view.holds.why_not_in_hold(pod, view.state));
    }
    if !view.connected {
        reasons.push("the agent of the cluster is disconnected: nothing is decided for it".into());
    } else if !view.state.is_synced() {
        reasons.push("the agent of the cluster has sent no complete snapshot yet: nothing is decided for it".into());
    }
    reasons
}

/// What a decision says of a pod, if it concerns it.
fn about(decision: &Arc<Decision>, key: &PodKey) -> Option<PodDecision> {
    let launch = decision.launches.iter().find(|machine| machine.pods.contains(key));
    let reason = launch.map(|machine| machine.reason.clone());
    let concerns = launch.is_some()
        || decision.assignments.iter().any(|(pod, _)| pod == key)
        || decision.unplaced.iter().any(|unplaced| unplaced.pod == *key);
    concerns.then(|| PodDecision { id: decision.id, reason })
}
