//! Which offerings pods may use, by labels and taints. Where that is unknown they may: the bound
//! must stay valid.

use model::input::Policy;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{
    Effect, InstanceType, Node, NodePool, NodeSelectorTerm, Offering, PodShape, Requirement, Taint, Text, Toleration,
};

/// Constraints of pods on a node's labels and taints.
pub(super) struct NodeConstraints<'a> {
    selector: Vec<Requirement>,
    terms: &'a [NodeSelectorTerm],
    tolerations: &'a [Toleration],
}

#[derive(Clone, Copy)]
pub(super) struct PoolInstanceType<'a> {
    pub(super) policy: &'a Policy,
    pub(super) pool: &'a NodePool,
    pub(super) instance_type: &'a InstanceType,
}

impl<'a> NodeConstraints<'a> {
    pub(super) fn of(shape: &'a PodShape) -> Self {
        let selector = shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
        Self { selector, terms: &shape.node_affinity, tolerations: &shape.tolerations }
    }

    pub(super) fn tolerates(&self, pool: &NodePool) -> bool {
        first_untolerated(&pool.taints, self.tolerations).is_none()
    }

    /// Whether the labels that all machines of `pool` have satisfy the node selector; `defined`
    /// tests whether types of its catalogue define a key.
    pub(super) fn matches_known_labels(
        &self,
        policy: &Policy,
        pool: &NodePool,
        mut defined: impl FnMut(&Text) -> bool,
    ) -> bool {
        let Some(instance_type) = pool.catalogue.types.first() else { return true };
        let candidate = PoolInstanceType { policy, pool, instance_type };
        self.selector.iter().all(|requirement| {
            requirement.key().as_ref() == INSTANCE_TYPE
                || candidate.is_about_offering(requirement)
                || defined(requirement.key())
                || candidate.may_satisfy(requirement)
        })
    }

    /// Whether an existing node may take such pods.
    pub(super) fn allows_node(&self, node: &Node) -> bool {
        let holds = |requirement: &Requirement| label_satisfies(&node.labels, requirement);
        let term_holds = |term: &NodeSelectorTerm| {
            selects(term)
                && term.expressions.iter().all(holds)
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        first_untolerated(&node.taints, self.tolerations).is_none()
            && (!node.unschedulable || self.tolerates_cordon())
            && self.selector.iter().all(holds)
            && (self.terms.is_empty() || self.terms.iter().any(term_holds))
    }

    fn tolerates_cordon(&self) -> bool {
        let (key, value) = (Text::from("node.kubernetes.io/unschedulable"), Text::from(""));
        first_untolerated(&[Taint { key, value, effect: Effect::NoSchedule }], self.tolerations).is_none()
    }

    /// Whether a type may be used, in any offering.
    pub(super) fn may_use_type(&self, candidate: PoolInstanceType<'_>) -> bool {
        self.holds(|requirement| candidate.is_about_offering(requirement) || candidate.may_satisfy(requirement))
    }

    /// Whether the constraints distinguish offerings of one type.
    pub(super) fn constrains_offerings(&self, candidate: PoolInstanceType<'_>) -> bool {
        let expressions = self.terms.iter().flat_map(|term| &term.expressions);
        self.selector.iter().chain(expressions).any(|requirement| candidate.is_about_offering(requirement))
    }

    /// Whether an offering may be used.
    pub(super) fn may_use(&self, candidate: PoolInstanceType<'_>, offering: &Offering) -> bool {
        self.holds(|requirement| match candidate.is_about_offering(requirement) {
            true => candidate.offering_may_satisfy(offering, requirement),
            false => candidate.may_satisfy(requirement),
        })
    }

    fn holds(&self, holds: impl Fn(&Requirement) -> bool) -> bool {
        let term_holds = |term: &NodeSelectorTerm| {
            selects(term)
                && term.expressions.iter().all(&holds)
                && term.names.iter().all(|requirement| requirement.has("\0"))
        };
        self.selector.iter().all(&holds) && (self.terms.is_empty() || self.terms.iter().any(term_holds))
    }
}

/// A term without any expression selects nothing.
fn selects(term: &NodeSelectorTerm) -> bool {
    !(term.expressions.is_empty() && term.names.is_empty())
}

impl PoolInstanceType<'_> {
    /// Whether a requirement is about zone, capacity type or another label that offerings define.
    pub(super) fn is_about_offering(&self, requirement: &Requirement) -> bool {
        let key = requirement.key().as_ref();
        matches!(key, ZONE | CAPACITY_TYPE)
            || self.pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
    }

    fn offering_may_satisfy(&self, offering: &Offering, requirement: &Requirement) -> bool {
        match requirement.key().as_ref() {
            ZONE => requirement.has(&offering.zone),
            CAPACITY_TYPE => requirement.has(offering.capacity_type.as_str()),
            key => offering.labels.get(key).is_none_or(|value| requirement.has(value)),
        }
    }

    fn may_satisfy(&self, requirement: &Requirement) -> bool {
        let compatible = |other: &Requirement| {
            other.intersects(requirement) || (other.allows_absence() && requirement.allows_absence())
        };
        match requirement.key().as_ref() {
            HOSTNAME => true,
            INSTANCE_TYPE => requirement.has(&self.instance_type.name),
            NODEPOOL => requirement.has(&self.pool.name),
            key => {
                match (self.instance_type.labels.get(key), self.pool.labels.get(key), self.pool.requirements.get(key)) {
                    (Some(defined), _, _) => compatible(defined),
                    (None, Some(value), _) => requirement.has(value),
                    (None, None, Some(allowed)) => compatible(allowed),
                    (None, None, None) => {
                        requirement.allows_absence() || self.policy.is_well_known(key) || is_node_class(key)
                    }
                }
            }
        }
    }

    /// Whether the pool may launch this offering of a type that it may launch.
    pub(super) fn offers(&self, offering: &Offering, about_offerings: &[&Requirement]) -> bool {
        offering.available && about_offerings.iter().all(|requirement| self.offering_may_satisfy(offering, requirement))
    }
}

fn is_node_class(key: &str) -> bool {
    key == model::labels::NODECLASS
}
