//! Which offerings pods may use, as far as labels and taints say. In doubt they may: a bound must not rest on a doubt.

use crate::input::Policy;
use crate::model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use crate::model::requirements::label_satisfies;
use crate::model::taints::first_barring;
use crate::model::{
    Effect, InstanceType, Node, NodePool, NodeSelectorTerm, Offering, PodShape, Requirement, Taint, Text, Toleration,
};

/// What pods ask of a node's labels and taints.
pub(super) struct Access<'a> {
    selector: Vec<Requirement>,
    terms: &'a [NodeSelectorTerm],
    tolerations: &'a [Toleration],
}

/// Where an offering stands in the catalogue.
#[derive(Clone, Copy)]
pub(super) struct Shop<'a> {
    pub(super) policy: &'a Policy,
    pub(super) pool: &'a NodePool,
    pub(super) machine: &'a InstanceType,
}

impl<'a> Access<'a> {
    pub(super) fn of(shape: &'a PodShape) -> Self {
        let selector = shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
        Self { selector, terms: &shape.node_affinity, tolerations: &shape.tolerations }
    }

    pub(super) fn enters(&self, pool: &NodePool) -> bool {
        first_barring(&pool.taints, self.tolerations).is_none()
    }

    /// Whether the labels that machines of `pool` have whatever their type meet the node selector; `defined` says which
    /// keys types of its catalogue define.
    pub(super) fn suits_labels(
        &self,
        policy: &Policy,
        pool: &NodePool,
        mut defined: impl FnMut(&Text) -> bool,
    ) -> bool {
        let Some(machine) = pool.catalogue.types.first() else { return true };
        let shop = Shop { policy, pool, machine };
        self.selector.iter().all(|requirement| {
            requirement.key().as_ref() == INSTANCE_TYPE
                || shop.is_about_offering(requirement)
                || defined(requirement.key())
                || shop.may_hold(requirement)
        })
    }

    /// Whether a node of the input may take such pods.
    pub(super) fn enters_node(&self, node: &Node) -> bool {
        let holds = |requirement: &Requirement| label_satisfies(&node.labels, requirement);
        let term_holds = |term: &NodeSelectorTerm| {
            selects(term)
                && term.expressions.iter().all(holds)
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        first_barring(&node.taints, self.tolerations).is_none()
            && (!node.unschedulable || self.enters_cordoned())
            && self.selector.iter().all(holds)
            && (self.terms.is_empty() || self.terms.iter().any(term_holds))
    }

    fn enters_cordoned(&self) -> bool {
        let (key, value) = (Text::from("node.kubernetes.io/unschedulable"), Text::from(""));
        first_barring(&[Taint { key, value, effect: Effect::NoSchedule }], self.tolerations).is_none()
    }

    /// Whether a machine type may do, in whichever offering.
    pub(super) fn may_use_type(&self, shop: Shop<'_>) -> bool {
        self.holds(|requirement| shop.is_about_offering(requirement) || shop.may_hold(requirement))
    }

    /// Whether offerings of one type differ for such pods.
    pub(super) fn looks_at_offerings(&self, shop: Shop<'_>) -> bool {
        let expressions = self.terms.iter().flat_map(|term| &term.expressions);
        self.selector.iter().chain(expressions).any(|requirement| shop.is_about_offering(requirement))
    }

    /// Whether an offering may do.
    pub(super) fn may_use(&self, shop: Shop<'_>, offering: &Offering) -> bool {
        self.holds(|requirement| match shop.is_about_offering(requirement) {
            true => shop.offering_may_hold(offering, requirement),
            false => shop.may_hold(requirement),
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

impl Shop<'_> {
    /// Whether a requirement is about zone, capacity type or another label that offerings set.
    pub(super) fn is_about_offering(&self, requirement: &Requirement) -> bool {
        let key = requirement.key().as_ref();
        matches!(key, ZONE | CAPACITY_TYPE)
            || self.pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
    }

    fn offering_may_hold(&self, offering: &Offering, requirement: &Requirement) -> bool {
        match requirement.key().as_ref() {
            ZONE => requirement.has(&offering.zone),
            CAPACITY_TYPE => requirement.has(offering.capacity_type.as_str()),
            key => offering.labels.get(key).is_none_or(|value| requirement.has(value)),
        }
    }

    fn may_hold(&self, requirement: &Requirement) -> bool {
        let agrees = |other: &Requirement| {
            other.intersects(requirement) || (other.allows_absence() && requirement.allows_absence())
        };
        match requirement.key().as_ref() {
            HOSTNAME => true,
            INSTANCE_TYPE => requirement.has(&self.machine.name),
            NODEPOOL => requirement.has(&self.pool.name),
            key => match (self.machine.labels.get(key), self.pool.labels.get(key), self.pool.requirements.get(key)) {
                (Some(defined), _, _) => agrees(defined),
                (None, Some(value), _) => requirement.has(value),
                (None, None, Some(allowed)) => agrees(allowed),
                (None, None, None) => {
                    requirement.allows_absence() || self.policy.is_well_known(key) || is_node_class(key)
                }
            },
        }
    }

    /// Whether the pool may buy this offering of a type that it may buy.
    pub(super) fn sells(&self, offering: &Offering, about_offerings: &[&Requirement]) -> bool {
        offering.available && about_offerings.iter().all(|requirement| self.offering_may_hold(offering, requirement))
    }
}

fn is_node_class(key: &str) -> bool {
    key == crate::model::labels::NODECLASS
}
