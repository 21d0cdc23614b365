//! Report about one node: the reasons for its type, zone and capacity type, and the alternatives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::offering_filter::OfferingFilter;
use crate::pod_requirements::{PodRequirements, alternatives};
use crate::snapshot::{PlanSnapshot, base};
use crate::wording::{amounts, count, some};
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use model::plan::{Plan, PlannedNode};
use model::resources::NODES;
use model::{CapacityType, Labels, MicroUsd, NodeName, Operator, Requirement, Requirements, Resources, Text, Zone};
use verifier::kernel::{attach_limit_of_type, largest_amount, within_attach_limit};

use super::{MachineOption, machine, price_difference};

/// Maximum number of pods that one sentence lists before it counts the rest.
const NAMED: usize = 3;

/// A constraint on a node, and its sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineConstraint {
    /// The constraint, for example `kubernetes.io/arch In [arm64]`.
    pub what: String,
    /// Sources of the constraint: pods as `namespace/name`, or the NodePool.
    pub by: Vec<String>,
}

/// One filter step from the catalogue to the launch options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterStep {
    pub step: &'static str,
    /// Number of instance types that failed.
    pub dropped: usize,
    pub left: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub node: NodeName,
    /// The first launch option; `None` for existing nodes.
    pub machine: Option<MachineOption>,
    /// Number of pods that the plan places on the node.
    pub pods: usize,
    /// Requests of the pods and of the DaemonSets on the first option; on an existing node, the
    /// free resources.
    pub amounts: Resources,
    /// Constraints of pods and pool on the node.
    pub constraints: Vec<MachineConstraint>,
    /// Number of instance types in the catalogue.
    pub catalogue: usize,
    /// Filter steps, in order.
    pub filter_steps: Vec<FilterStep>,
    pub zone: String,
    /// The next launch option that fits the same pods.
    pub runner_up: Option<MachineOption>,
    /// On-demand price of the same type in the same zone, for nodes that are not on-demand.
    pub on_demand: Option<MicroUsd>,
}

/// Report about the node with this name: planned, static or existing. `None` if neither plan nor
/// input contain it.
#[must_use]
pub fn node_report(input: &PlanningInput, plan: &Plan, name: &NodeName) -> Option<NodeReport> {
    let planned = plan.nodes.iter().chain(&plan.static_nodes).find(|node| node.name == *name);
    if let Some(node) = planned {
        return Some(planned_report(input, plan, node));
    }
    let at = input.nodes.iter().position(|node| node.name == *name)?;
    Some(existing_node_report(input, plan, u32::try_from(at).ok()?))
}

/// Report about `plan.nodes[index]`; `None` if the index is out of range.
#[must_use]
pub fn planned_node_report(input: &PlanningInput, plan: &Plan, index: usize) -> Option<NodeReport> {
    plan.nodes.get(index).map(|node| planned_report(input, plan, node))
}

fn existing_node_report(input: &PlanningInput, plan: &Plan, at: u32) -> NodeReport {
    let snapshot = PlanSnapshot::new(input, plan);
    let node = &input.nodes[at as usize];
    let known: Vec<String> = [INSTANCE_TYPE, ZONE, CAPACITY_TYPE]
        .iter()
        .filter_map(|key| node.labels.get(*key))
        .map(ToString::to_string)
        .collect();
    NodeReport {
        node: node.name.clone(),
        machine: None,
        pods: plan.placements.iter().filter(|(_, on)| *on == at).count(),
        amounts: snapshot.free_on_node(at).clone(),
        constraints: Vec::new(),
        catalogue: 0,
        filter_steps: Vec::new(),
        zone: known.join(", "),
        runner_up: None,
        on_demand: None,
    }
}

fn planned_report(input: &PlanningInput, plan: &Plan, node: &PlannedNode) -> NodeReport {
    let snapshot = PlanSnapshot::new(input, plan);
    let pool = &input.pools[node.pool as usize];
    let node_reqs = NodeRequirements::of(&snapshot, node);
    let chosen = machine(input, node);
    let first = node.types.first().map(|&t| &pool.catalogue.types[t as usize]);
    let on_demand = first.filter(|_| node.capacity_type != CapacityType::OnDemand).and_then(|t| {
        let offered = t.offerings.iter().filter(|o| o.available && o.capacity_type == CapacityType::OnDemand);
        offered.filter(|o| o.zone == chosen.zone).map(|o| o.price).min()
    });
    NodeReport {
        node: node.name.clone(),
        pods: node.pods.len(),
        amounts: node.requests.clone(),
        constraints: node_reqs.constraints.clone(),
        catalogue: pool.catalogue.types.len(),
        filter_steps: filter_steps(&snapshot, node, &node_reqs),
        zone: zone_reason(&snapshot, node, &node_reqs, &chosen),
        runner_up: runner_up(&snapshot, node, &node_reqs, &chosen),
        on_demand,
        machine: Some(chosen),
    }
}

/// Requirements of the pods and the pool on the node, merged.
struct NodeRequirements {
    merged: Requirements,
    requests: Resources,
    /// Number of volumes by CSI driver.
    attached: BTreeMap<Text, usize>,
    constraints: Vec<MachineConstraint>,
}

impl NodeRequirements {
    fn of(snapshot: &PlanSnapshot<'_>, node: &PlannedNode) -> Self {
        let input = snapshot.input;
        let pool = &input.pools[node.pool as usize];
        let mut planned_labels = (*node.labels).clone();
        if let [zone] = node.zones.as_ref() {
            planned_labels.insert(ZONE.into(), zone.as_text().clone());
        }
        planned_labels.insert(CAPACITY_TYPE.into(), node.capacity_type.as_str().into());
        let mut merged = base(pool);
        let mut constraints: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for requirement in pool.requirements.iter().filter(|r| !pool.labels.contains_key(r.key())) {
            constraints.entry(requirement.to_string()).or_default().push(format!("NodePool {}", pool.name));
        }
        // Pods of one shape with the same volumes have the same requirements; volumes shared by
        // pods attach once.
        let mut requests = Resources::new();
        let mut volumes_of = BTreeSet::new();
        let mut requirements_of: BTreeMap<(u32, Option<u32>), Requirements> = BTreeMap::new();
        for pod in node.pods.iter().map(|&pod| &input.pods[pod as usize]) {
            let own = requirements_of
                .entry((pod.shape, pod.volumes))
                .or_insert_with(|| own_requirements(input, pod, &planned_labels));
            for requirement in own.iter() {
                constraints.entry(requirement.to_string()).or_default().push(pod.key().to_string());
            }
            merged.add_all(own);
            requests.add(&input.shapes[pod.shape as usize].requests);
            let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize].attachments);
            volumes_of.extend(volumes.into_iter().flatten().cloned());
        }
        let mut attached = BTreeMap::new();
        for (driver, _) in volumes_of {
            *attached.entry(driver).or_insert(0) += 1;
        }
        merged.remove(HOSTNAME);
        let constraints = constraints.into_iter().map(|(what, by)| MachineConstraint { what, by }).collect();
        Self { merged, requests, attached, constraints }
    }
}

/// The alternatives of affinity and volumes of the pod that the planned labels of the node satisfy.
fn own_requirements(input: &PlanningInput, pod: &model::Pod, planned_labels: &Labels) -> Requirements {
    let agrees = |wanted: &Requirements| {
        wanted.iter().all(|r| planned_labels.get(r.key()).is_none_or(|value| r.has(value) || r.allows_absence()))
    };
    let alternatives = alternatives(&input.shapes[pod.shape as usize]);
    let alternative =
        alternatives.into_iter().map(|alternative| alternative.requirements).find(agrees).unwrap_or_default();
    let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize].any_of);
    let mut own = alternative;
    if let Some(location) = volumes.into_iter().flatten().find(|location| agrees(location)) {
        own.add_all(location);
    }
    own
}

/// The filter steps from the catalogue to the launch options, in the order of the checks.
fn filter_steps(snapshot: &PlanSnapshot<'_>, node: &PlannedNode, node_reqs: &NodeRequirements) -> Vec<FilterStep> {
    let pool = &snapshot.input.pools[node.pool as usize];
    let capacities = snapshot.type_capacities(node.pool);
    let types = &pool.catalogue.types;
    let pod_reqs = any_pod(snapshot);
    let filter = pod_reqs.as_ref().map(|pod_reqs| {
        let mut filter = OfferingFilter::new(snapshot, pod_reqs, node.pool);
        filter.already_launched = true;
        filter
    });
    let open = |t: u32, merged: &Requirements| {
        let instance = &types[t as usize];
        let open = |m: &OfferingFilter<'_, '_>| {
            let wanted = m.wanted(merged);
            instance.offerings.iter().any(|o| m.rejection(instance, o, &wanted).is_none())
        };
        filter.as_ref().is_none_or(open)
    };
    let mut paid = node_reqs.merged.clone();
    paid.add(Requirement::new(CAPACITY_TYPE, Operator::In, [node.capacity_type.as_str().into()]));
    paid.add(Requirement::new(ZONE, Operator::In, node.zones.iter().cloned().map(Text::from)));
    let matching = snapshot.types(node.pool, &node_reqs.merged);
    let large = |t: u32| {
        let attaches = node_reqs
            .attached
            .iter()
            .all(|(driver, volumes)| within_attach_limit(*volumes, attach_limit_of_type(&types[t as usize], driver)));
        node_reqs.requests.fits(&capacities[t as usize].free) && attaches
    };
    // Each check sees only the types that passed the checks before it, so their order decides the
    // counts.
    let mut left: Vec<u32> = (0..u32::try_from(types.len()).unwrap_or(u32::MAX)).collect();
    let mut steps = Vec::new();
    let mut test = |step: &'static str, keeps: &dyn Fn(u32) -> bool| {
        let before = left.len();
        left.retain(|&t| keeps(t));
        steps.push(FilterStep { step, dropped: before - left.len(), left: left.len() });
    };
    test("requirements", &|t| matching.contains(&t));
    test("resources", &large);
    test("offerings", &|t| open(t, &node_reqs.merged));
    test("capacity type and zone", &|t| open(t, &paid));
    test("limits", &|t| within_limits(snapshot, node, t));
    let ordinary = node.types.iter().any(|&t| !types[t as usize].exotic);
    test("exotic machines", &|t| !ordinary || !types[t as usize].exotic || node.types.contains(&t));
    test("price and number of options", &|t| node.types.contains(&t));
    steps
}

/// Some pod of the plan, used to filter offerings. Rules that differ between pods do not affect
/// planned nodes.
fn any_pod<'w>(snapshot: &PlanSnapshot<'w>) -> Option<PodRequirements<'w>> {
    let mut pod_reqs = PodRequirements::of(snapshot.input, snapshot.input.pods.first()?);
    pod_reqs.created = None;
    Some(pod_reqs)
}

/// Whether the limits allow the type in place of the current options of the node.
fn within_limits(snapshot: &PlanSnapshot<'_>, node: &PlannedNode, t: u32) -> bool {
    let pool = &snapshot.input.pools[node.pool as usize];
    let types = &pool.catalogue.types;
    pool.limits.iter().filter(|(name, _)| name.as_ref() != NODES).all(|(name, _)| {
        let charged = largest_amount(node.types.iter().map(|&t| &types[t as usize]), name);
        types[t as usize].capacity.get(name) <= snapshot.left(node.pool, name).unwrap_or(0) + charged
    })
}

fn zone_reason(
    snapshot: &PlanSnapshot<'_>,
    node: &PlannedNode,
    node_reqs: &NodeRequirements,
    chosen: &MachineOption,
) -> String {
    let pool = &snapshot.input.pools[node.pool as usize];
    // A zone that was forced needs no price comparison, so constraints come first.
    let wanted = node_reqs.merged.get(ZONE);
    if let Some(only) = wanted.and_then(|r| r.finite_values()).filter(|values| values.len() == 1) {
        return format!("{} is the only zone that pods and NodePool allow", some(&only.iter().collect::<Vec<_>>(), 1));
    }
    let Some(&first) = node.types.first() else { return String::new() };
    let instance = &pool.catalogue.types[first as usize];
    let mut prices: BTreeMap<&Zone, MicroUsd> = BTreeMap::new();
    for offering in &instance.offerings {
        let allowed = wanted.is_none_or(|r| r.has(&offering.zone));
        if offering.available && offering.capacity_type == node.capacity_type && allowed {
            let best = prices.entry(&offering.zone).or_insert(offering.price);
            *best = (*best).min(offering.price);
        }
    }
    let others: Vec<(&&Zone, &MicroUsd)> = prices.iter().filter(|(zone, _)| ***zone != chosen.zone).collect();
    if others.is_empty() {
        return format!(
            "{} is the only zone where {} is available as {}",
            chosen.zone,
            instance.name,
            node.capacity_type.as_str()
        );
    }
    let elsewhere: Vec<String> = others.iter().map(|(zone, price)| format!("{zone} ${price}")).collect();
    let why = if others.iter().all(|(_, price)| **price > chosen.price) {
        "is the cheapest zone for it"
    } else if others.iter().all(|(_, price)| **price >= chosen.price) {
        "is as cheap as any; among equals the zone where the pool has fewest nodes comes first"
    } else {
        "was chosen by rules between pods or by zone balance, although it is not the cheapest"
    };
    format!("{} {why}; elsewhere: {}", chosen.zone, elsewhere.join(", "))
}

/// The next cheapest option, in the cheapest zone of the node.
fn runner_up(
    snapshot: &PlanSnapshot<'_>,
    node: &PlannedNode,
    node_reqs: &NodeRequirements,
    chosen: &MachineOption,
) -> Option<MachineOption> {
    let pool = &snapshot.input.pools[node.pool as usize];
    let allowed = |zone: &Zone| node_reqs.merged.get(ZONE).is_none_or(|r| r.has(zone)) && node.zones.contains(zone);
    let mut best: Option<MachineOption> = None;
    for instance in node.types.iter().skip(1).map(|&t| &pool.catalogue.types[t as usize]) {
        for offering in instance.offerings.iter().filter(|o| o.available && o.capacity_type == node.capacity_type) {
            if !allowed(&offering.zone) || best.as_ref().is_some_and(|best| best.price <= offering.price) {
                continue;
            }
            best = Some(MachineOption {
                pool: chosen.pool.clone(),
                instance_type: instance.name.clone(),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
                price: offering.price,
            });
        }
    }
    best
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(machine) = &self.machine else {
            writeln!(f, "{} exists already ({}).", self.node, self.zone)?;
            return writeln!(
                f,
                "The plan puts {} there; {} are left.",
                count(self.pods, "pod"),
                amounts(&self.amounts)
            );
        };
        writeln!(f, "{}: {machine}.", self.node)?;
        writeln!(
            f,
            "It carries {} that, with its DaemonSets, ask for {}.",
            count(self.pods, "pod"),
            amounts(&self.amounts)
        )?;
        // Constraints precede the filter steps, whose counts they explain.
        for constraint in &self.constraints {
            writeln!(f, "- {}: asked for by {}", constraint.what, some(&constraint.by, NAMED))?;
        }
        writeln!(f, "Of {} in the catalogue:", count(self.catalogue, "type"))?;
        for step in &self.filter_steps {
            writeln!(f, "- {}: {} dropped, {} left", step.step, step.dropped, step.left)?;
        }
        writeln!(f, "Zone: {}.", self.zone)?;
        match (machine.capacity_type, self.on_demand) {
            (CapacityType::Reserved, _) => writeln!(f, "Reserved capacity is paid already and comes first.")?,
            (CapacityType::Spot, Some(price)) => writeln!(
                f,
                "Spot comes before on-demand where it is allowed; on demand it would cost ${price} per hour, {}.",
                price_difference(price, machine.price)
            )?,
            (CapacityType::Spot, None) => writeln!(f, "Spot comes before on-demand where it is allowed.")?,
            (CapacityType::OnDemand, _) => {
                writeln!(f, "On demand: reserved and spot capacity are not allowed or not available.")?;
            }
        }
        match &self.runner_up {
            Some(other) => writeln!(f, "Runner-up: {other}, {}.", price_difference(other.price, machine.price)),
            None => writeln!(f, "There is no runner-up: no other type carries these pods."),
        }
    }
}
