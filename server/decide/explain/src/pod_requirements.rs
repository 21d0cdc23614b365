//! The requirements of a pod on its node, as a value from which each constraint can be removed for
//! a trial.

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::{
    Labels, Pod, PodShape, Requirement, Requirements, Text, Timestamp, Toleration, TolerationOperator,
    VolumeAlternatives,
};

/// A rule outside the pod, ignored for a trial. Numbers are pool indices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IgnoredRule {
    /// Readiness of the pool and its NodeClass.
    Ready(u32),
    Limits(u32),
    /// The `minValues` of the pool.
    MinValues(u32),
    /// The price ceilings of the pool and its maximum node size.
    Ceilings(u32),
    /// The wait of the pool before it falls back to on-demand.
    SpotWait(u32),
    /// The maximum spot share of the pool and its on-demand floor.
    SpotShare(u32),
    /// Unavailability of offerings of the pool.
    Availability(u32),
    /// The requirement of the pool on one label.
    Label(u32, Text),
    /// The requirement of the pool on one label, beside which this value is allowed.
    OtherValue(u32, Text, Text),
    /// Required anti-affinity of other pods against this one.
    OtherPodsAntiAffinity,
}

/// The requirements of a pod on its node.
#[derive(Debug, Clone)]
pub(super) struct PodRequirements<'a> {
    pub namespace: &'a Text,
    pub labels: &'a Labels,
    pub shape: PodShape,
    pub volumes: VolumeAlternatives,
    /// Creation time; `None` for replicas that do not exist yet.
    pub created: Option<Timestamp>,
    /// Rules outside the pod that this trial ignores.
    pub ignored_rules: BTreeSet<IgnoredRule>,
}

/// One alternative of node selector and node affinity: the selector with one of the OR-terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub requirements: Requirements,
    /// `matchFields` on the node's name.
    pub names: Vec<Requirement>,
    /// A label key with contradictory requirements, if any.
    pub contradiction: Option<Text>,
}

impl<'a> PodRequirements<'a> {
    /// The requirements of `pod`.
    pub(super) fn of(input: &'a PlanningInput, pod: &'a Pod) -> Self {
        let volumes = pod.volumes.map(|at| input.volume_sets[at as usize].clone());
        Self {
            namespace: &pod.namespace,
            labels: &input.label_sets[pod.labels as usize],
            shape: input.shapes[pod.shape as usize].clone(),
            volumes: volumes.unwrap_or_default(),
            created: pod.created,
            ignored_rules: BTreeSet::new(),
        }
    }

    /// Whether this trial ignores `ignored_rule`.
    pub(super) fn ignores(&self, ignored_rule: &IgnoredRule) -> bool {
        self.ignored_rules.contains(ignored_rule)
    }

    /// Adds a toleration of exactly this taint.
    pub(super) fn add_toleration(&mut self, taint: &model::Taint) {
        self.shape.tolerations.push(Toleration {
            key: taint.key.clone(),
            operator: TolerationOperator::Equal,
            value: taint.value.clone(),
            effect: Some(taint.effect),
        });
    }

    /// The alternatives of the pod's selector and affinity. Empty if its affinity has only empty
    /// terms, which match nothing.
    pub(super) fn alternatives(&self) -> Vec<Alternative> {
        alternatives(&self.shape)
    }

    /// The volume alternatives; one empty set if the volumes do not constrain the node.
    pub(super) fn volume_alternatives(&self) -> Vec<Requirements> {
        if self.volumes.any_of.is_empty() { vec![Requirements::new()] } else { self.volumes.any_of.clone() }
    }

    /// The CSI drivers of its volumes.
    pub(super) fn drivers(&self) -> BTreeSet<&Text> {
        self.volumes.attachments.iter().map(|(driver, _)| driver).collect()
    }
}

/// The alternatives of node selector and required node affinity of `shape`.
pub(super) fn alternatives(shape: &PodShape) -> Vec<Alternative> {
    let mut own = Alternative { requirements: Requirements::new(), names: Vec::new(), contradiction: None };
    for (key, value) in &shape.node_selector {
        own.add(&Requirement::equals(key, value.clone()));
    }
    if shape.node_affinity.is_empty() {
        return vec![own];
    }
    let meaningful = shape.node_affinity.iter().filter(|term| !term.expressions.is_empty() || !term.names.is_empty());
    let build = |term: &model::NodeSelectorTerm| {
        let mut alternative = own.clone();
        term.expressions.iter().for_each(|expression| alternative.add(expression));
        alternative.names.clone_from(&term.names);
        alternative
    };
    meaningful.map(build).collect()
}

impl Alternative {
    /// Adds a requirement and records a contradiction: an empty value set would otherwise read as
    /// "label absent".
    fn add(&mut self, requirement: &Requirement) {
        let strict = |r: &Requirement| !r.allows_absence();
        let wanted = strict(requirement) || self.requirements.get(requirement.key()).is_some_and(strict);
        self.requirements.add(requirement.clone());
        let merged = self.requirements.get(requirement.key());
        if wanted && merged.is_some_and(|merged| !merged.is_satisfiable()) {
            self.contradiction.get_or_insert_with(|| requirement.key().clone());
        }
    }
}
