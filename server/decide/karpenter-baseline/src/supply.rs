//! A NodePool prepared for the greedy: its template, its instance types, and what DaemonSets take of them.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODECLASS, NODEPOOL, REGISTERED, ZONE};
use model::resources::CPU;
use model::{
    Catalogue, DaemonSet, Effect, HostPort, InstanceType, NodePool, Offering, Operator, PodShape, Requirement,
    Requirements, Resources, Taint, Text,
};

use crate::amounts::{Amounts, ResourceColumns};
use crate::pods::add_expressions;

/// A NodePool and its instance types.
pub(crate) struct PoolSupply<'i> {
    /// Index into `PlanningInput::pools`.
    pub(crate) index: u32,
    pub(crate) pool: &'i NodePool,
    /// Position of CPU in the rows.
    pub(crate) cpu: Option<usize>,
    /// Requirements and labels of every NodeClaim of the pool.
    pub(crate) template: Requirements,
    /// Types that the template allows, in the order of the catalogue.
    pub(crate) types: Vec<TypeSupply<'i>>,
    pub(crate) offering_kinds: Vec<Requirements>,
    /// Distinct sums of what DaemonSets request on a node, in the order of the types.
    pub(crate) daemon_groups: Vec<Amounts>,
    /// What the limits leave, per resource.
    pub(crate) limits_left: Amounts,
    /// Whether `limits.nodes` is used up exactly.
    pub(crate) has_no_node_left: bool,
}

/// An instance type of a pool.
pub(crate) struct TypeSupply<'i> {
    /// Index into the catalogue.
    pub(crate) index: u32,
    pub(crate) machine: &'i InstanceType,
    /// Labels of its nodes; zone and capacity type as far as any offering has them.
    pub(crate) requirements: Requirements,
    pub(crate) capacity: Amounts,
    pub(crate) allocatable: Amounts,
    pub(crate) free: Amounts,
    /// Index into `PoolSupply::daemon_groups`.
    pub(crate) daemon_group: usize,
    pub(crate) ports: Vec<HostPort>,
    /// Available offerings, with the index of their kind.
    pub(crate) offerings: Vec<(usize, &'i Offering)>,
}

impl<'i> PoolSupply<'i> {
    pub(crate) fn of(index: u32, input: &'i PlanningInput, columns: &ResourceColumns) -> Self {
        let pool = &input.pools[index as usize];
        let template = template(pool);
        let (mut kinds, mut daemon_groups) = (OfferingKinds::default(), Vec::new());
        let daemons: Vec<&DaemonSet> =
            input.daemons.iter().filter(|daemon| tolerates(shape_of(input, daemon), &pool.taints)).collect();
        let mut types = Vec::new();
        for (at, machine) in pool.catalogue.types.iter().enumerate() {
            let requirements = type_requirements(machine);
            if template.first_conflict(&requirements).is_some() {
                continue;
            }
            let shapes = daemons.iter().map(|daemon| shape_of(input, daemon));
            let counted: Vec<&PodShape> =
                shapes.filter(|shape| runs_on(shape, input, &template, &requirements)).collect();
            let requested = sum_of(&counted, columns);
            let allocatable = columns.row(&machine.allocatable);
            let offerings = machine.offerings.iter().filter(|offering| offering.available);
            types.push(TypeSupply {
                index: u32::try_from(at).unwrap_or(u32::MAX),
                machine,
                requirements,
                capacity: columns.row(&machine.capacity),
                free: allocatable.minus(&requested),
                allocatable,
                daemon_group: index_of(&mut daemon_groups, requested),
                ports: counted.iter().flat_map(|shape| shape.host_ports.iter().cloned()).collect(),
                offerings: offerings.map(|offering| (kinds.index(offering, &pool.catalogue), offering)).collect(),
            });
        }
        let (limits_left, has_no_node_left) = limits_left(pool, input, columns);
        let offering_kinds = kinds.requirements;
        let cpu = columns.position(CPU);
        Self { index, pool, cpu, template, types, offering_kinds, daemon_groups, limits_left, has_no_node_left }
    }

    /// For each kind of offering, whether `requirements` allow it.
    pub(crate) fn allowed_offerings(&self, requirements: &Requirements, input: &PlanningInput) -> Vec<bool> {
        let well_known = |key: &str| input.policy.is_well_known(key);
        let allowed = |kind: &Requirements| requirements.first_incompatible(kind, well_known).is_none();
        self.offering_kinds.iter().map(allowed).collect()
    }
}

/// What pods of all these shapes request.
fn sum_of(shapes: &[&PodShape], columns: &ResourceColumns) -> Amounts {
    let nothing = columns.row(&Resources::new());
    shapes.iter().fold(nothing, |sum, shape| sum.plus(&columns.row(&shape.requests)))
}

/// Index of `group` in `groups`, to which it is added if it is new.
fn index_of(groups: &mut Vec<Amounts>, group: Amounts) -> usize {
    groups.iter().position(|known| *known == group).unwrap_or_else(|| {
        groups.push(group);
        groups.len() - 1
    })
}

/// What the limits of `pool` leave once its present nodes are counted.
fn limits_left(pool: &NodePool, input: &PlanningInput, columns: &ResourceColumns) -> (Amounts, bool) {
    let mut left = columns.limits(&pool.limits);
    let mut count = 0;
    for node in &input.nodes {
        if node.pool.as_ref() == Some(&pool.name) && node.stage != model::NodeStage::Deleting {
            left.charge(&columns.row(&node.capacity));
            count += 1;
        }
    }
    let nodes = model::resources::NODES;
    (left, pool.limits.contains(nodes) && pool.limits.get(nodes) == count)
}

/// Requirements and labels of the NodeClaims of `pool`. The last two labels exist so that DaemonSets
/// that select them are counted.
fn template(pool: &NodePool) -> Requirements {
    let mut template = pool.requirements.clone();
    template.add(Requirement::equals(NODEPOOL, pool.name.as_text().clone()));
    template.add(Requirement::equals(NODECLASS, pool.node_class.clone()));
    template.add(Requirement::equals(REGISTERED, "true"));
    template.add(Requirement::equals(INITIALIZED, "true"));
    template
}

/// Labels of the nodes of `machine`.
pub(crate) fn type_requirements(machine: &InstanceType) -> Requirements {
    let mut requirements = Requirements::clone(&machine.labels);
    let offerings = || machine.offerings.iter();
    let zones: BTreeSet<Text> = offerings().map(|offering| offering.zone.as_text().clone()).collect();
    let capacity_types: BTreeSet<Text> =
        offerings().map(|offering| Text::from(offering.capacity_type.as_str())).collect();
    requirements.add(Requirement::equals(INSTANCE_TYPE, machine.name.as_text().clone()));
    requirements.add(Requirement::new(ZONE, Operator::In, zones));
    requirements.add(Requirement::new(CAPACITY_TYPE, Operator::In, capacity_types));
    requirements
}

fn shape_of<'i>(input: &'i PlanningInput, daemon: &DaemonSet) -> &'i PodShape {
    &input.shapes[daemon.shape as usize]
}

/// DaemonSets tolerate every `PreferNoSchedule` taint.
fn tolerates(shape: &PodShape, taints: &[Taint]) -> bool {
    let hard = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.into_iter().all(|taint| shape.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// Whether a DaemonSet's pod runs on nodes of this type, by any of its required terms.
fn runs_on(shape: &PodShape, input: &PlanningInput, template: &Requirements, machine: &Requirements) -> bool {
    let well_known = |key: &str| input.policy.is_well_known(key);
    let selector = Requirements::from_labels(&shape.node_selector);
    let fits = |wanted: &Requirements| {
        template.first_incompatible(wanted, well_known).is_none() && machine.first_conflict(wanted).is_none()
    };
    if shape.node_affinity.is_empty() {
        return fits(&selector);
    }
    shape.node_affinity.iter().any(|term| {
        let mut wanted = selector.clone();
        add_expressions(&mut wanted, &term.expressions);
        fits(&wanted)
    })
}

/// Distinct requirements of offerings: few, although offerings are many.
#[derive(Default)]
struct OfferingKinds {
    requirements: Vec<Requirements>,
    known: BTreeMap<Requirements, usize>,
}

impl OfferingKinds {
    fn index(&mut self, offering: &Offering, catalogue: &Catalogue) -> usize {
        let requirements = offering_requirements(offering, catalogue);
        if let Some(known) = self.known.get(&requirements) {
            return *known;
        }
        self.requirements.push(requirements.clone());
        self.known.insert(requirements, self.requirements.len() - 1);
        self.requirements.len() - 1
    }
}

/// Labels of a node launched from `offering`; labels that only other offerings set are absent.
fn offering_requirements(offering: &Offering, catalogue: &Catalogue) -> Requirements {
    let mut requirements = Requirements::from_labels(&offering.labels);
    requirements.add(Requirement::equals(ZONE, offering.zone.as_text().clone()));
    requirements.add(Requirement::equals(CAPACITY_TYPE, offering.capacity_type.as_str()));
    for key in catalogue.offering_keys.iter().filter(|key| !offering.labels.contains_key(*key)) {
        requirements.add(Requirement::new(key, Operator::DoesNotExist, []));
    }
    requirements
}
