//! What surroundings mean for pods and nodes: what other autoscalers are left, and what disruption budgets bar from leaving.

use super::record::{PodRecord, PoolRecord};
use super::state::ClusterState;
use super::surroundings::{ClassRecord, PodBudgetRecord, ProblemRecord};
use crate::model::{Text, Timestamp};

/// How long a pod is left to Cluster Autoscaler after it has said that it buys a node for it, in milliseconds. Longer than a
/// node usually takes to join, shorter than Cluster Autoscaler's own patience (`--max-node-provision-time`, 15 minutes).
pub const FOREIGN_SCALE_UP_MS: i64 = 5 * 60_000;

/// Name of Karpenter in an [`AutoscalerRecord`](super::AutoscalerRecord).
pub const KARPENTER: &str = "karpenter";

/// The annotation by which NodePools and NodeClaims are ours, or, with the value `false`, are not.
pub const MANAGED: &str = "fleetwright.dev/managed";

impl ClusterState {
    /// How long a pod is left to Cluster Autoscaler once that buys for it, in milliseconds.
    pub fn hold_after_foreign_scale_up(&mut self, hold_ms: i64) {
        self.around.hold_ms = Some(hold_ms);
    }

    /// Whether decisions are written down only: then a live Karpenter does not keep us from making them.
    pub fn decide_in_shadow(&mut self, shadow: bool) {
        self.around.shadow = shadow;
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

    /// Why `pool` is not ours to use; `None` when it is. Karpenter launches a machine for every NodeClaim that is not launched,
    /// whoever made it, and no annotation keeps it from that: while it lives, each NodeClaim of ours would be bought twice. So no
    /// NodePool can be handed over beside a live one.
    #[must_use]
    pub fn left_to_others(&self, pool: &PoolRecord) -> Option<Text> {
        if pool.meta.managed == Some(false) {
            return Some(Text::from(format!("its annotation {MANAGED} is \"false\"")));
        }
        let karpenter = self.around.autoscalers.get(KARPENTER).filter(|karpenter| karpenter.live);
        let karpenter = karpenter.filter(|_| !self.around.shadow)?;
        let evidence = match karpenter.evidence.as_ref() {
            "" => "its Lease is renewed",
            evidence => evidence,
        };
        let refused = if pool.meta.managed.is_some() {
            format!(", whatever its annotation {MANAGED} says")
        } else {
            String::new()
        };
        Some(Text::from(format!(
            "Karpenter is at work in this cluster ({evidence}) and would buy a second machine for each NodeClaim: the NodePool is \
             left to it{refused}. Scale Karpenter to 0, or set agent.karpenter-absent = true in the agent's configuration if none \
             is there"
        )))
    }

    /// What cannot be read or seen, by what it is about.
    pub fn problems(&self) -> impl Iterator<Item = ProblemRecord> {
        let problems = self.around.problems.iter();
        problems.map(|(about, reason)| ProblemRecord { about: about.clone(), reason: reason.clone() })
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
