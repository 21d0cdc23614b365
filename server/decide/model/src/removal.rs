//! What a check of removals is computed from: the nodes to remove, and the facts that its rules
//! need. [`RemovalPlan`] is what is judged, [`RemovalInput`] the state of the cluster around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::disruption_policy::{Budget, BudgetLimit, BudgetWindow, DisruptionReason};
use super::{ClaimName, Millis, NodeName, NodePool, NodeStage, PodKey, PoolName, Text, Timestamp};

/// What is fixed of a reason.
struct Facts {
    /// Its number in the decision log, which never changes.
    number: u8,
    /// Its name, as conditions and budgets of Karpenter write theirs. In the API it is `DISRUPTION_REASON_` with this name.
    name: &'static str,
    /// The label `reason` of metrics, which is that of Karpenter where the meaning is the same.
    label: &'static str,
    /// The kind of decisions for it, in the decision log and the dashboard. In the API it is `DECISION_KIND_` with it.
    kind: &'static str,
    /// Why nodes are removed, in summaries of decisions.
    summary: &'static str,
    /// What budgets name it; `None` for a forceful reason, which no budget limits.
    budgets: Option<DisruptionReason>,
}

/// Makes [`RemovalReason`] of the table of its values. What else a part of the program has to know of every reason is a
/// column of the table.
macro_rules! removal_reasons {
    ($($(#[$doc:meta])* $name:ident { $($facts:tt)* })*) => {
        /// Why a node is removed, in the order of precedence when several reasons apply to a node.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RemovalReason { $($(#[$doc])* $name),* }

        impl RemovalReason {
            /// All reasons, in the order of precedence.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn facts(self) -> Facts {
                match self { $(Self::$name => Facts { name: stringify!($name), $($facts)* }),* }
            }
        }
    };
}

removal_reasons! {
    /// The cloud reclaims the instance.
    Interrupted {
        number: 0, label: "interrupted", kind: "interruption", summary: "interrupted by the cloud", budgets: None,
    }
    /// The cloud recommends to leave the instance.
    Rebalanced {
        number: 7, label: "rebalanced", kind: "rebalance", summary: "at risk of an interruption", budgets: None,
    }
    /// Its conditions match a repair policy.
    Unhealthy {
        number: 1, label: "unhealthy", kind: "repair", summary: "unhealthy", budgets: None,
    }
    /// It is older than `expireAfter`.
    Expired {
        number: 2, label: "expired", kind: "expiration", summary: "older than expireAfter", budgets: None,
    }
    /// Its static NodePool has more nodes than `replicas`.
    Surplus {
        number: 3, label: "surplus", kind: "static-scale-down", summary: "more than replicas", budgets: None,
    }
    /// It was launched for a hold that has ended, and has only DaemonSet pods.
    HoldEnded {
        number: 9, label: "hold_ended", kind: "hold-ended", summary: "its hold has ended", budgets: None,
    }
    /// Its conditions match a repair policy, and other capacity replaces it first.
    Repaired {
        number: 8, label: "unhealthy", kind: "voluntary-repair", summary: "unhealthy",
        budgets: Some(DisruptionReason::Unhealthy),
    }
    /// It has only DaemonSet pods.
    Empty {
        number: 4, label: "empty", kind: "empty", summary: "not needed", budgets: Some(DisruptionReason::Empty),
    }
    /// It does not match its NodePool any more.
    Drifted {
        number: 5, label: "drifted", kind: "drift", summary: "does not match its NodePool",
        budgets: Some(DisruptionReason::Drifted),
    }
    /// Its pods fit elsewhere at a lower price.
    Underutilized {
        number: 6, label: "underutilized", kind: "consolidation", summary: "pods fit elsewhere at a lower price",
        budgets: Some(DisruptionReason::Underutilized),
    }
}

impl RemovalReason {
    /// Its number in the decision log.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.facts().number
    }

    /// The reason with this number in the decision log; `None` for a number that no reason has.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.number() == number)
    }

    /// Its name: `HoldEnded`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// The label `reason` of metrics: `hold_ended`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.facts().label
    }

    /// The kind of decisions for it: `hold-ended`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        self.facts().kind
    }

    /// Why nodes are removed, in summaries of decisions: `its hold has ended`.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        self.facts().summary
    }

    /// The reason as budgets name it; `None` for a forceful reason, which no budget limits.
    #[must_use]
    pub const fn disruption_reason(self) -> Option<DisruptionReason> {
        self.facts().budgets
    }

    /// Whether the node is removed whatever its pods need: no budget, PodDisruptionBudget or
    /// do-not-disrupt holds it (Karpenter: interruption, node repair, expiration, static
    /// scale-down).
    #[must_use]
    pub fn is_forceful(self) -> bool {
        self.disruption_reason().is_none()
    }

    /// Whether the instance ends at a time that the cloud has set, so that the removal waits for
    /// nothing: neither for its record nor for a guardrail.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        self == Self::Interrupted
    }

    /// Whether the node is removed only while no pod is on it that would run elsewhere again.
    #[must_use]
    pub fn requires_empty_node(self) -> bool {
        matches!(self, Self::Empty | Self::HoldEnded)
    }
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The removal of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRemoval {
    /// NodeClaim of the node.
    pub claim: ClaimName,
    /// Why it is removed.
    pub reason: RemovalReason,
    /// When its pods are deleted regardless of PodDisruptionBudgets and do-not-disrupt
    /// (`terminationGracePeriod`, or the end of the instance); `None` has no deadline.
    pub deadline: Option<Timestamp>,
}

/// Removals that begin together, and where their pods go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovalPlan {
    /// The removals.
    pub removals: Vec<NodeRemoval>,
    /// Evicted pods, and the existing node or replacement that a plan gives to each.
    pub placements: BTreeMap<PodKey, NodeName>,
}

/// The facts that a [`RemovalPlan`] is judged by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovalInput {
    /// When the removals begin.
    pub now: Timestamp,
    /// The managed NodePools of the removed nodes.
    pub pools: Vec<RemovalPool>,
    /// The budget of the whole cluster; `None` has no limit.
    pub cluster_budget: Option<ClusterBudget>,
    /// The removed nodes.
    pub nodes: Vec<RemovalNode>,
    /// The PodDisruptionBudgets that select their pods, by `namespace/name`.
    pub pod_budgets: BTreeMap<Text, PodBudget>,
    /// For workloads of their pods, by namespace and [`RemovalPod::workload`], the pods on other
    /// nodes. A workload without an entry has none.
    pub elsewhere: BTreeMap<(Text, Text), ReplicaCount>,
    /// Names of nodes that stay and of replacements, as far as placements name them.
    pub destinations: BTreeSet<NodeName>,
    /// The NodePools of the removed nodes whose annotations removals keep.
    pub opt_in: Vec<OptInPool>,
}

/// A NodePool with annotations `fleetwright.dev/…` that removals keep, and its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptInPool {
    /// Name.
    pub name: PoolName,
    /// `on-demand-min-nodes`.
    pub on_demand_min_nodes: Option<i64>,
    /// `spot-max-percent`.
    pub spot_max_percent: Option<i64>,
    /// `min-nodes`, unless limits may forbid as many.
    pub min_nodes: Option<i64>,
    /// `zone-balance`.
    pub zone_balance: bool,
    /// Its nodes that stay; nodes that are being deleted are none.
    pub staying: Vec<OptInNode>,
    /// Its nodes that are launched with the removals: what held before is judged without them.
    pub launched: Vec<OptInNode>,
    /// Its removed nodes, by NodeClaim.
    pub removed: BTreeMap<ClaimName, OptInNode>,
}

impl OptInPool {
    /// The annotations of `pool`, without its nodes; `None` if it has none that removals keep. Static NodePools have none.
    #[must_use]
    pub fn of(pool: &NodePool) -> Option<Self> {
        let rules = &pool.rules;
        let min_nodes = rules.min_nodes.filter(|_| pool.limits.is_empty());
        let has_rules = rules.zone_balance
            || rules.on_demand_min_nodes.is_some()
            || rules.spot_max_percent.is_some()
            || min_nodes.is_some();
        (has_rules && pool.replicas.is_none()).then(|| Self {
            name: pool.name.clone(),
            on_demand_min_nodes: rules.on_demand_min_nodes,
            spot_max_percent: rules.spot_max_percent,
            min_nodes,
            zone_balance: rules.zone_balance,
            ..Self::default()
        })
    }
}

/// A node as annotations of its NodePool count it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptInNode {
    /// `karpenter.sh/capacity-type`.
    pub capacity_type: Text,
    /// `topology.kubernetes.io/zone`.
    pub zone: Text,
    /// Its CPUs in thousandths; of a launch, the most that an option has for spot, and else the least.
    pub millicores: i64,
    /// Its pods that other nodes can run and that no other pod must be beside.
    pub pods_apart: usize,
    /// Whether a rule of one of its pods keeps it out of a zone of the NodePool.
    pub is_bound_to_zones: bool,
}

/// A NodePool with removed nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalPool {
    /// Name.
    pub name: PoolName,
    /// `spec.disruption.budgets`.
    pub budgets: Vec<Budget>,
    /// `fleetwright.dev/disruption-windows`; without an entry the pool has none.
    pub windows: Vec<BudgetWindow>,
    /// Number of initialized nodes.
    pub total: usize,
    /// Number of initialized nodes that are not ready, terminating, or whose removal is decided;
    /// the removed nodes of the plan are not counted.
    pub unavailable: usize,
    /// Number of these that are only not ready. They do not hold repairs, which make them available again.
    pub not_ready: usize,
}

/// A budget over all managed NodePools of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterBudget {
    /// How many of the nodes may be unavailable.
    pub limit: BudgetLimit,
    /// Number of initialized nodes.
    pub total: usize,
    /// Number of initialized nodes that are not ready, terminating, or whose removal is decided;
    /// the removed nodes of the plan are not counted.
    pub unavailable: usize,
    /// Number of these that are only not ready. They do not hold repairs, which make them available again.
    pub not_ready: usize,
}

/// A node to remove, or a NodeClaim without a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalNode {
    /// Name of the NodeClaim.
    pub claim: ClaimName,
    /// Name of the Node; empty while there is none.
    pub node: NodeName,
    /// This server created the NodeClaim, or it was handed over to this server.
    pub ours: bool,
    /// NodePool of the NodeClaim.
    pub pool: PoolName,
    /// Stage of its lifecycle.
    pub stage: NodeStage,
    /// When the Node was created.
    pub created: Option<Timestamp>,
    /// `karpenter.sh/do-not-disrupt` on the Node.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// Its pods that have not ended.
    pub pods: Vec<RemovalPod>,
}

/// A pod on a node to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalPod {
    /// Namespace and name.
    pub key: PodKey,
    /// `Kind/name` of its owner, or `Pod/name`.
    pub workload: Text,
    /// It belongs to a DaemonSet, or is the mirror of a static pod: it ends with the node.
    pub node_bound: bool,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// A drain does not evict it: it tolerates the taint of a drained node, or is the mirror of a static pod.
    pub tolerates_drain: bool,
    /// `karpenter.sh/do-not-disrupt` on the pod.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `namespace/name` of each PodDisruptionBudget that selects it.
    pub pod_budgets: Vec<Text>,
}

/// `karpenter.sh/do-not-disrupt` on a pod or Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoNotDisrupt {
    /// While it exists.
    Always,
    /// For this long from the start of the pod, or the creation of the Node. A pod that has not
    /// started is protected.
    For(Millis),
}

impl DoNotDisrupt {
    /// Whether it is active at `now`. `since` is the start of the pod, or the creation of the Node.
    #[must_use]
    pub fn is_active(self, since: Option<Timestamp>, now: Timestamp) -> bool {
        match (self, since) {
            (Self::Always, _) | (Self::For(_), None) => true,
            (Self::For(wait), Some(since)) => now < since + wait,
        }
    }

    /// When it ends; `None` when no time ends it.
    #[must_use]
    pub fn end(self, since: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::Always => None,
            Self::For(wait) => Some(since? + wait),
        }
    }
}

impl RemovalPod {
    /// Whether do-not-disrupt protects the pod, and so its node, at `now`.
    #[must_use]
    pub fn is_protected(&self, now: Timestamp) -> bool {
        !self.terminating && self.do_not_disrupt.is_some_and(|lasts| lasts.is_active(self.started, now))
    }

    /// The PodDisruptionBudgets, by `namespace/name`, that prevent its eviction whatever other pods are evicted: one that
    /// allows no eviction now, or several, under which a pod is never evicted. Empty for a pod that a drain does not evict.
    #[must_use]
    pub fn blocking_budgets(&self, budgets: &BTreeMap<Text, PodBudget>) -> &[Text] {
        let blocks = match self.pod_budgets.as_slice() {
            [] => false,
            [name] => budgets.get(name).is_none_or(|budget| budget.blocks(self.ready)),
            [_, _, ..] => true,
        };
        if blocks && !self.terminating && !self.tolerates_drain { &self.pod_budgets } else { &[] }
    }
}

/// Status of a PodDisruptionBudget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodBudget {
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready can be evicted regardless
    /// of the budget.
    pub evicts_unhealthy_always: bool,
}

impl PodBudget {
    /// Whether it allows no eviction now of a pod that is, or is not, `ready` and that no other budget selects.
    #[must_use]
    pub fn blocks(&self, ready: bool) -> bool {
        self.allowed == 0 && (ready || !self.evicts_unhealthy_always)
    }
}

/// How a PodDisruptionBudget that selects a pod treats its eviction at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvictionRule {
    /// `maxUnavailable` is 0 or `0%`, or `minAvailable` is `100%`: it allows no eviction, whatever the number of pods.
    pub never_allows: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub evicts_unhealthy_always: bool,
}

/// Whether the API server refuses every eviction of a pod until a PodDisruptionBudget is changed. `rules` are those of all
/// PodDisruptionBudgets that select it; a pod that several select is never evicted.
#[must_use]
pub fn is_never_evicted(rules: &[EvictionRule], ready: bool) -> bool {
    match rules {
        [] => false,
        [rule] => rule.never_allows && (ready || !rule.evicts_unhealthy_always),
        [_, _, ..] => true,
    }
}

/// Pods of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaCount {
    /// Number of pods that have not ended and are not terminating.
    pub pods: usize,
    /// Number of these that are ready, on nodes that stay.
    pub ready: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn what_logs_and_metrics_have_of_a_reason_stays() {
        let known = [
            (0, "Interrupted", "interrupted", "interruption"),
            (1, "Unhealthy", "unhealthy", "repair"),
            (2, "Expired", "expired", "expiration"),
            (3, "Surplus", "surplus", "static-scale-down"),
            (4, "Empty", "empty", "empty"),
            (5, "Drifted", "drifted", "drift"),
            (6, "Underutilized", "underutilized", "consolidation"),
            (7, "Rebalanced", "rebalanced", "rebalance"),
            (8, "Repaired", "unhealthy", "voluntary-repair"),
            (9, "HoldEnded", "hold_ended", "hold-ended"),
        ];
        assert_eq!(RemovalReason::ALL.len(), known.len());
        for (number, name, label, kind) in known {
            let reason = RemovalReason::of_number(number).unwrap();
            let found = (reason.number(), reason.as_str(), reason.label(), reason.kind());
            assert_eq!(found, (number, name, label, kind));
        }
        assert_eq!(RemovalReason::of_number(10), None);
    }

    /// A ready pod that started 600 s ago.
    fn pod() -> RemovalPod {
        RemovalPod {
            key: PodKey { namespace: "shop".into(), name: "db-0".into() },
            workload: "StatefulSet/db".into(),
            node_bound: false,
            terminating: false,
            ready: true,
            tolerates_drain: false,
            do_not_disrupt: None,
            started: Some(Timestamp::from_millis(400_000)),
            pod_budgets: Vec::new(),
        }
    }

    #[test]
    fn budgets_that_prevent_the_eviction_of_a_pod_are_named() {
        let allows = |allowed, evicts_unhealthy_always| PodBudget { allowed, evicts_unhealthy_always };
        let budgets = [("shop/one", allows(1, false)), ("shop/none", allows(0, false)), ("shop/sick", allows(0, true))];
        let budgets = budgets.into_iter().map(|(name, budget)| (Text::from(name), budget)).collect();
        let guarded =
            |names: &[&str]| RemovalPod { pod_budgets: names.iter().map(|name| Text::from(*name)).collect(), ..pod() };
        let (none, both) = ([Text::from("shop/none")], [Text::from("shop/none"), Text::from("shop/one")]);
        for (pod, expected) in [
            (guarded(&[]), [].as_slice()),
            (guarded(&["shop/one"]), &[]),
            (guarded(&["shop/none"]), &none),
            (guarded(&["shop/none", "shop/one"]), &both),
            (RemovalPod { ready: false, ..guarded(&["shop/sick"]) }, &[]),
            // A drain evicts pods of DaemonSets as well.
            (RemovalPod { node_bound: true, ..guarded(&["shop/none"]) }, &none),
            // It is ending, or is not evicted by a drain.
            (RemovalPod { terminating: true, ..guarded(&["shop/none"]) }, &[]),
            (RemovalPod { tolerates_drain: true, ..guarded(&["shop/none"]) }, &[]),
        ] {
            assert_eq!(pod.blocking_budgets(&budgets), expected, "{pod:?}");
        }
    }

    #[test]
    fn do_not_disrupt_protects_a_pod_while_its_duration_lasts() {
        let protected = |lasts| RemovalPod { do_not_disrupt: Some(lasts), ..pod() };
        assert!(protected(DoNotDisrupt::Always).is_protected(NOW));
        assert!(protected(DoNotDisrupt::For(Millis::new(600_001))).is_protected(NOW));
        assert!(!protected(DoNotDisrupt::For(Millis::new(600_000))).is_protected(NOW));
        assert!(RemovalPod { started: None, ..protected(DoNotDisrupt::For(Millis::new(1))) }.is_protected(NOW));
        assert!(!RemovalPod { terminating: true, ..protected(DoNotDisrupt::Always) }.is_protected(NOW));
        assert!(RemovalPod { node_bound: true, ..protected(DoNotDisrupt::Always) }.is_protected(NOW));
    }
}
