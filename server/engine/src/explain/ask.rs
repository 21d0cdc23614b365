//! What a pod asks of its node, as a value whose every constraint can be taken out and tried without.

use std::collections::BTreeSet;

use crate::input::PlanningInput;
use crate::model::labels::ARCH;
use crate::model::{
    Labels, Pod, PodShape, Requirement, Requirements, Text, Timestamp, Toleration, TolerationOperator,
    VolumeAlternatives,
};

/// A rule that is not the pod's own and is left aside for a trial. Numbers are pools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiver {
    /// The pool and its NodeClass count as ready.
    Ready(u32),
    /// The pool's limits.
    Limits(u32),
    /// The pool's `minValues`.
    MinValues(u32),
    /// The pool's price ceilings and its largest machine.
    Ceilings(u32),
    /// The pool's wait before on-demand.
    SpotWait(u32),
    /// The pool's share of spot and its on-demand floor.
    SpotShare(u32),
    /// Offerings of the pool that cannot be launched at present.
    Stock(u32),
    /// What the pool says about one label.
    Label(u32, Text),
    /// Anti-affinity of other pods.
    ForeignAntiAffinity,
}

/// What a pod asks of its node.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    /// The pod's namespace.
    pub namespace: &'a Text,
    /// The pod's labels.
    pub labels: &'a Labels,
    /// Its constraints.
    pub shape: PodShape,
    /// Its volumes.
    pub volumes: VolumeAlternatives,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Rules of others that are left aside.
    pub waived: BTreeSet<Waiver>,
}

/// One way to satisfy node selector and node affinity: the selector and one of the OR-terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    /// Labels.
    pub requirements: Requirements,
    /// `matchFields` on the node's name.
    pub names: Vec<Requirement>,
    /// A key on which the pod contradicts itself.
    pub contradiction: Option<Text>,
}

impl<'a> Ask<'a> {
    /// What `pod` asks for.
    pub(super) fn of(input: &'a PlanningInput, pod: &'a Pod) -> Self {
        let volumes = pod.volumes.map(|at| input.volume_sets[at as usize].clone());
        Self {
            namespace: &pod.namespace,
            labels: &input.label_sets[pod.labels as usize],
            shape: input.shapes[pod.shape as usize].clone(),
            volumes: volumes.unwrap_or_default(),
            created: pod.created,
            waived: BTreeSet::new(),
        }
    }

    /// Whether `waiver` is in force.
    pub(super) fn waives(&self, waiver: &Waiver) -> bool {
        self.waived.contains(waiver)
    }

    /// Tolerates every taint of that key and value.
    pub(super) fn tolerate(&mut self, taint: &crate::model::Taint) {
        self.shape.tolerations.push(Toleration {
            key: taint.key.clone(),
            operator: TolerationOperator::Equal,
            value: taint.value.clone(),
            effect: Some(taint.effect),
        });
    }

    /// The ways to satisfy the pod's own selector and affinity. Empty when its affinity has only empty terms, which match
    /// nothing.
    pub(super) fn alternatives(&self) -> Vec<Alternative> {
        alternatives(&self.shape)
    }

    /// The volume alternatives, one empty set when volumes do not care.
    pub(super) fn volume_alternatives(&self) -> Vec<Requirements> {
        if self.volumes.any_of.is_empty() { vec![Requirements::new()] } else { self.volumes.any_of.clone() }
    }

    /// Whether selector or required affinity say anything about the architecture.
    pub(super) fn names_architecture(&self) -> bool {
        names_architecture(&self.shape)
    }

    /// How many volumes of each driver it attaches, by driver.
    pub(super) fn drivers(&self) -> BTreeSet<&Text> {
        self.volumes.attachments.iter().map(|(driver, _)| driver).collect()
    }
}

/// The ways to satisfy selector and required node affinity of `shape`.
pub(super) fn alternatives(shape: &PodShape) -> Vec<Alternative> {
    let mut own = Alternative { requirements: Requirements::new(), names: Vec::new(), contradiction: None };
    for (key, value) in &shape.node_selector {
        own.add(&Requirement::equals(key, value.clone()));
    }
    if shape.node_affinity.is_empty() {
        return vec![own];
    }
    let meaningful = shape.node_affinity.iter().filter(|term| !term.expressions.is_empty() || !term.names.is_empty());
    let build = |term: &crate::model::NodeSelectorTerm| {
        let mut alternative = own.clone();
        term.expressions.iter().for_each(|expression| alternative.add(expression));
        alternative.names.clone_from(&term.names);
        alternative
    };
    meaningful.map(build).collect()
}

/// Whether selector or required node affinity of `shape` constrain `kubernetes.io/arch`.
pub(super) fn names_architecture(shape: &PodShape) -> bool {
    let named = |key: &Text| key.as_ref() == ARCH;
    let canonical = |key: &Text| crate::model::labels::canonical_key(key) == ARCH;
    shape.node_selector.keys().any(canonical)
        || shape.node_affinity.iter().any(|term| term.expressions.iter().any(|e| named(e.key())))
}

impl Alternative {
    /// Adds a requirement, and remembers when no value can satisfy all: an empty set would read as "no such label".
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
