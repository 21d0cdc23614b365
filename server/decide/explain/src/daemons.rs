//! Daemon overhead (as in Karpenter): resources that DaemonSets use on a node. All OR-terms of the
//! affinity of a DaemonSet are evaluated, for each instance type anew.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use model::input::PlanningInput;
use model::labels::{HOSTNAME, INITIALIZED, REGISTERED};
use model::taints::first_untolerated;
use model::{Catalogue, DaemonSet, HostPort, InstanceType, NodePool, Requirement, Requirements, Resources, Text};
use verifier::kernel::may_be_defined;

use super::pod_requirements::{Alternative, alternatives};

/// Capacity of one instance type of a pool that is left to pods.
#[derive(Debug)]
pub(super) struct TypeCapacity {
    /// Allocatable resources less the requests of DaemonSet pods.
    pub free: Resources,
    /// Host ports used by DaemonSets, with the name of the DaemonSet.
    pub ports: Vec<(HostPort, String)>,
}

/// Capacity left to pods on every instance type of a catalogue.
#[derive(Debug)]
pub(super) struct FreeCapacity {
    /// Indexed by instance type.
    pub types: Vec<TypeCapacity>,
    /// Free amounts by resource and type, for comparison of one resource across types without
    /// lookups by name.
    amounts: BTreeMap<Text, Vec<i64>>,
}

/// Requests of a pod, each with the free amounts of every type.
#[derive(Debug)]
pub(super) struct RequestColumns<'f>(SmallVec<[(i64, &'f [i64]); 4]>);

impl FreeCapacity {
    fn new(types: Vec<TypeCapacity>) -> Self {
        let names: BTreeSet<&Text> =
            types.iter().flat_map(|capacity| capacity.free.iter().map(|(name, _)| name)).collect();
        let column = |name: &Text| types.iter().map(|capacity| capacity.free.get(name)).collect();
        let amounts = names.into_iter().map(|name| (name.clone(), column(name))).collect();
        Self { types, amounts }
    }

    /// Prepares `requests` for comparison with every type.
    pub(super) fn request_columns(&self, requests: &Resources) -> RequestColumns<'_> {
        let column = |name: &Text| self.amounts.get(name).map_or(&[] as &[i64], Vec::as_slice);
        RequestColumns(
            requests.iter().filter(|(_, amount)| *amount > 0).map(|(name, amount)| (amount, column(name))).collect(),
        )
    }
}

impl RequestColumns<'_> {
    /// Whether the requests fit type `t`.
    pub(super) fn fits(&self, t: u32) -> bool {
        self.0.iter().all(|(amount, column)| *amount <= column.get(t as usize).copied().unwrap_or(0))
    }

    /// Distance of type `t` from the requests: [`super::catalogue::distance`].
    pub(super) fn distance(&self, t: u32) -> i64 {
        let share = |(amount, column): &(i64, &[i64])| {
            super::catalogue::missing_share(*amount, column.get(t as usize).copied().unwrap_or(0))
        };
        self.0.iter().map(share).max().unwrap_or(0)
    }
}

/// The affinity alternatives by which the DaemonSet runs on nodes of `pool`, whatever their type;
/// empty if it never does.
fn alternatives_of(
    input: &PlanningInput,
    daemon: &DaemonSet,
    pool: &NodePool,
    base: &Requirements,
) -> Vec<Alternative> {
    let shape = &input.shapes[daemon.shape as usize];
    if first_untolerated(&pool.taints, &shape.tolerations).is_some() {
        return Vec::new();
    }
    let mut template = base.clone();
    template.add(Requirement::equals(REGISTERED, "true"));
    template.add(Requirement::equals(INITIALIZED, "true"));
    let known = |key: &str| key != HOSTNAME && may_be_defined(pool, key);
    let mut alternatives = alternatives(shape);
    alternatives.retain(|alternative| {
        alternative.contradiction.is_none()
            && alternative.names.iter().all(|names| names.finite_values().is_none())
            && template.first_incompatible(&alternative.requirements, known).is_none()
    });
    alternatives
}

/// The DaemonSets that may run on nodes of a pool, by index, each with its affinity alternatives.
pub(super) type DaemonAlternatives = Vec<(usize, Vec<Alternative>)>;

/// The DaemonSets that may run on nodes of `pool`, whose nodes all satisfy `base`.
pub(super) fn alternatives_for_pool(input: &PlanningInput, pool: &NodePool, base: &Requirements) -> DaemonAlternatives {
    let all = input.daemons.iter().enumerate().map(|(at, daemon)| (at, alternatives_of(input, daemon, pool, base)));
    all.filter(|(_, alternatives)| !alternatives.is_empty()).collect()
}

/// The capacity of every type of `catalogue` less these DaemonSets.
pub(super) fn capacity_without_daemons(
    input: &PlanningInput,
    catalogue: &Catalogue,
    daemons: &DaemonAlternatives,
) -> FreeCapacity {
    let free = |instance: &InstanceType| {
        let mut capacity = TypeCapacity { free: instance.allocatable.clone(), ports: Vec::new() };
        for (at, alternatives) in daemons {
            if alternatives
                .iter()
                .any(|alternative| instance.labels.first_conflict(&alternative.requirements).is_none())
            {
                let daemon = &input.daemons[*at];
                let shape = &input.shapes[daemon.shape as usize];
                capacity.free.subtract(&shape.requests);
                let name = format!("{}/{}", daemon.namespace, daemon.name);
                capacity.ports.extend(shape.host_ports.iter().map(|port| (port.clone(), name.clone())));
            }
        }
        capacity
    };
    FreeCapacity::new(catalogue.types.iter().map(free).collect())
}
