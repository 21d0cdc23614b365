//! Amounts of all resources of an input as one row of integers, so that sums and comparisons need no look-up.

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::{ResourceName, Resources};

/// The resources of an input, in the order of the rows.
pub(crate) struct ResourceColumns {
    names: Vec<ResourceName>,
}

impl ResourceColumns {
    /// Every resource that a pod, node, instance type or limit of `input` names.
    pub(crate) fn of(input: &PlanningInput) -> Self {
        let shapes = input.shapes.iter().map(|shape| &shape.requests);
        let nodes = input.nodes.iter().flat_map(|node| [&node.allocatable, &node.capacity]);
        let types = input.pools.iter().flat_map(|pool| &pool.catalogue.types);
        let types = types.flat_map(|machine| [&machine.allocatable, &machine.capacity]);
        let limits = input.pools.iter().map(|pool| &pool.limits);
        let all = shapes.chain(nodes).chain(types).chain(limits);
        let names: BTreeSet<&ResourceName> = all.flat_map(|amounts| amounts.iter().map(|(name, _)| name)).collect();
        Self { names: names.into_iter().cloned().collect() }
    }

    /// Position of a resource in the rows.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.as_ref() == name)
    }

    /// `resources` as a row; what is missing is zero.
    pub(crate) fn row(&self, resources: &Resources) -> Amounts {
        Amounts(self.names.iter().map(|name| resources.get(name)).collect())
    }

    /// `resources` as a row; what is missing is unlimited.
    pub(crate) fn limits(&self, resources: &Resources) -> Amounts {
        let amount = |name: &ResourceName| if resources.contains(name) { resources.get(name) } else { i64::MAX };
        Amounts(self.names.iter().map(amount).collect())
    }
}

/// One amount per resource, in the units of [`Resources`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amounts(Vec<i64>);

impl Amounts {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a.saturating_add(*b)).collect())
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a.saturating_sub(*b)).collect())
    }

    /// The smaller amount of each resource.
    pub(crate) fn least(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| *a.min(b)).collect())
    }

    /// The amount at a position of the row.
    pub(crate) fn at(&self, position: usize) -> i64 {
        self.0[position]
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|amount| *amount == 0)
    }

    pub(crate) fn at_least_zero(&self) -> Self {
        Self(self.0.iter().map(|amount| (*amount).max(0)).collect())
    }

    /// Subtracts `used` from limits, which stay unlimited where they are.
    pub(crate) fn charge(&mut self, used: &Self) {
        for (limit, amount) in self.0.iter_mut().zip(&used.0).filter(|(limit, _)| **limit != i64::MAX) {
            *limit = limit.saturating_sub(*amount);
        }
    }

    pub(crate) fn raise_to(&mut self, other: &Self) {
        for (amount, most) in self.0.iter_mut().zip(&other.0) {
            *amount = (*amount).max(*most);
        }
    }

    /// Whether all of `self` fits into `free`. One negative amount of `free` refuses everything, also
    /// what does not request it, as in Karpenter (L31).
    pub(crate) fn fits_into(&self, free: &Self) -> bool {
        self.0.iter().zip(&free.0).all(|(amount, free)| amount <= free)
    }
}
