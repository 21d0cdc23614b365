//! Records beside pods, nodes, NodeClaims and NodePools: budgets, node classes, volume limits,
//! other autoscalers, problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::{AttachRecord, AutoscalerRecord, ClassRecord, PodBudgetRecord, PodRecord, ProblemRecord};
use model::schedulers::PlannedSchedulers;
use model::{ClusterFacts, Millis, NodeName, PodKey, Text, Timestamp};

/// Observed records other than pods, nodes, NodeClaims and NodePools.
#[derive(Debug, Clone, Default)]
pub(super) struct AuxiliaryRecords {
    /// By namespace and name.
    budgets: BTreeMap<(Text, Text), PodBudgetRecord>,
    classes: BTreeMap<Text, ClassRecord>,
    autoscalers: BTreeMap<Text, AutoscalerRecord>,
    /// Reason of each problem, by object.
    problems: BTreeMap<Text, Text>,
    /// Attach limits by node.
    attach: BTreeMap<NodeName, Vec<(Text, i64)>>,
    /// Pending pods for which Cluster Autoscaler triggered a scale-up, by time; index of `pods`.
    external_scale_ups: BTreeSet<(Timestamp, PodKey)>,
    /// How long such pods are not planned.
    hold_for: Option<Millis>,
    /// What new nodes need to join the cluster.
    facts: Arc<ClusterFacts>,
    /// Decisions are recorded and not executed, so that nothing is launched twice beside an active
    /// Karpenter.
    shadow: bool,
    /// The schedulers whose pods are planned.
    schedulers: PlannedSchedulers,
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

    /// Removes all records before those of a snapshot are inserted. Settings, facts, and the index of
    /// scale-ups stay.
    pub(super) fn clear_records(&mut self) {
        *self = Self {
            hold_for: self.hold_for,
            shadow: self.shadow,
            schedulers: std::mem::take(&mut self.schedulers),
            facts: Arc::clone(&self.facts),
            external_scale_ups: std::mem::take(&mut self.external_scale_ups),
            ..Self::default()
        };
    }

    pub(super) fn insert_budget(&mut self, budget: PodBudgetRecord) {
        self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget);
    }

    pub(super) fn remove_budget(&mut self, namespace: &Text, name: &Text) {
        self.budgets.remove(&(namespace.clone(), name.clone()));
    }

    /// The PodDisruptionBudgets, by namespace and name.
    pub(super) fn budgets(&self) -> impl Iterator<Item = &PodBudgetRecord> {
        self.budgets.values()
    }

    /// The PodDisruptionBudgets of a namespace, by name.
    pub(super) fn budgets_of(&self, namespace: &Text) -> impl Iterator<Item = &PodBudgetRecord> {
        let budgets = self.budgets.range((namespace.clone(), Text::default())..).map(|(_, budget)| budget);
        budgets.take_while(move |budget| budget.namespace == *namespace)
    }

    pub(super) fn insert_class(&mut self, class: ClassRecord) {
        self.classes.insert(class.name.clone(), class);
    }

    pub(super) fn remove_class(&mut self, name: &Text) {
        self.classes.remove(name);
    }

    /// EC2NodeClasses, by name.
    pub(super) fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.classes.values()
    }

    pub(super) fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.classes.get(name)
    }

    pub(super) fn insert_attach_limits(&mut self, attach: AttachRecord) {
        self.attach.insert(attach.node, attach.limits);
    }

    pub(super) fn remove_attach_limits(&mut self, node: &NodeName) {
        self.attach.remove(node);
    }

    pub(super) fn attach_records(&self) -> impl Iterator<Item = AttachRecord> {
        self.attach.iter().map(|(node, limits)| AttachRecord { node: node.clone(), limits: limits.clone() })
    }

    pub(super) fn attach_limits(&self, node: &NodeName) -> Option<&Vec<(Text, i64)>> {
        self.attach.get(node)
    }

    pub(super) fn insert_autoscaler(&mut self, autoscaler: AutoscalerRecord) {
        self.autoscalers.insert(autoscaler.name.clone(), autoscaler);
    }

    pub(super) fn remove_autoscaler(&mut self, name: &Text) {
        self.autoscalers.remove(name);
    }

    /// Other autoscalers, by name.
    pub(super) fn autoscalers(&self) -> impl Iterator<Item = &AutoscalerRecord> {
        self.autoscalers.values()
    }

    pub(super) fn autoscaler(&self, name: &str) -> Option<&AutoscalerRecord> {
        self.autoscalers.get(name)
    }

    pub(super) fn insert_problem(&mut self, problem: ProblemRecord) {
        self.problems.insert(problem.about, problem.reason);
    }

    pub(super) fn remove_problem(&mut self, about: &Text) {
        self.problems.remove(about);
    }

    /// Objects that cannot be read or watched, by object.
    pub(super) fn problems(&self) -> impl Iterator<Item = ProblemRecord> {
        self.problems.iter().map(|(about, reason)| ProblemRecord { about: about.clone(), reason: reason.clone() })
    }

    /// When Cluster Autoscaler triggered scale-ups for pending pods, earliest first.
    pub(super) fn external_scale_ups(&self) -> impl Iterator<Item = Timestamp> {
        self.external_scale_ups.iter().map(|(at, _)| *at)
    }

    /// Sets how long such pods are not planned.
    pub(super) fn set_hold(&mut self, hold_for: Millis) {
        self.hold_for = Some(hold_for);
    }

    /// How long such pods are not planned.
    pub(super) fn hold_for(&self) -> Option<Millis> {
        self.hold_for
    }

    /// What new nodes need to join the cluster.
    pub(super) fn facts(&self) -> &Arc<ClusterFacts> {
        &self.facts
    }

    pub(super) fn set_facts(&mut self, facts: Arc<ClusterFacts>) {
        self.facts = facts;
    }

    /// The schedulers whose pods are planned.
    pub(super) fn schedulers(&self) -> &PlannedSchedulers {
        &self.schedulers
    }

    pub(super) fn set_schedulers(&mut self, schedulers: PlannedSchedulers) {
        self.schedulers = schedulers;
    }

    pub(super) fn set_shadow(&mut self, shadow: bool) {
        self.shadow = shadow;
    }

    /// Whether decisions are recorded and not executed.
    pub(super) fn is_shadow(&self) -> bool {
        self.shadow
    }
}
