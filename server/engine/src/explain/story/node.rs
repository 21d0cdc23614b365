//! The story of one node: why this type, this zone, this way of paying, and what else there was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::explain::ask::{Ask, alternatives};
use crate::explain::market::Market;
use crate::explain::wording::{amounts, count, some};
use crate::explain::world::{World, base};
use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use crate::model::resources::NODES;
use crate::model::{CapacityType, Labels, MicroUsd, Operator, Requirement, Requirements, Resources, Text};
use crate::plan::{Plan, PlannedNode};

use super::{RunnerUp, difference, machine};

/// Pods that one sentence names before it counts the rest.
const NAMED: usize = 3;

/// A constraint on the machine, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forced {
    /// The constraint, such as `kubernetes.io/arch In [arm64]`.
    pub what: String,
    /// Who asks for it: pods as `namespace/name`, or the NodePool.
    pub by: Vec<String>,
}

/// One step from the whole catalogue to the launch options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunnelStep {
    /// What was tested.
    pub step: &'static str,
    /// Types that failed.
    pub dropped: usize,
    /// Types that were left.
    pub left: usize,
}

/// The story of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStory {
    /// Name.
    pub node: Text,
    /// The first launch option; `None` for nodes that exist.
    pub machine: Option<RunnerUp>,
    /// How many pods the plan puts there.
    pub pods: usize,
    /// What the pods and the first option's daemons ask for, or what is left on a node that exists.
    pub amounts: Resources,
    /// What pods and pool force on the machine.
    pub forced: Vec<Forced>,
    /// Types in the catalogue, before any test.
    pub catalogue: usize,
    /// How many types each test dropped.
    pub funnel: Vec<FunnelStep>,
    /// Why this zone.
    pub zone: String,
    /// The next launch option that carries the same pods.
    pub runner_up: Option<RunnerUp>,
    /// The price of the same type in the same zone on demand, for nodes that are not on demand.
    pub on_demand: Option<MicroUsd>,
}

/// The story of the node with that name: planned, static or existing. `None` when neither plan nor input knows it.
#[must_use]
pub fn node_story(input: &PlanningInput, plan: &Plan, name: &str) -> Option<NodeStory> {
    let planned = plan.nodes.iter().chain(&plan.static_nodes).find(|node| node.name.as_ref() == name);
    if let Some(node) = planned {
        return Some(tell(input, plan, node));
    }
    let at = input.nodes.iter().position(|node| node.name.as_ref() == name)?;
    Some(tell_existing(input, plan, u32::try_from(at).ok()?))
}

/// The story of `plan.nodes[index]`; `None` when there are not as many.
#[must_use]
pub fn planned_node_story(input: &PlanningInput, plan: &Plan, index: usize) -> Option<NodeStory> {
    plan.nodes.get(index).map(|node| tell(input, plan, node))
}

fn tell_existing(input: &PlanningInput, plan: &Plan, at: u32) -> NodeStory {
    let world = World::new(input, plan);
    let node = &input.nodes[at as usize];
    let known: Vec<String> = [INSTANCE_TYPE, ZONE, CAPACITY_TYPE]
        .iter()
        .filter_map(|key| node.labels.get(*key))
        .map(ToString::to_string)
        .collect();
    NodeStory {
        node: node.name.clone(),
        machine: None,
        pods: plan.placements.iter().filter(|(_, on)| *on == at).count(),
        amounts: world.room(at).clone(),
        forced: Vec::new(),
        catalogue: 0,
        funnel: Vec::new(),
        zone: known.join(", "),
        runner_up: None,
        on_demand: None,
    }
}

fn tell(input: &PlanningInput, plan: &Plan, node: &PlannedNode) -> NodeStory {
    let world = World::new(input, plan);
    let pool = &input.pools[node.pool as usize];
    let needs = Needs::of(&world, node);
    let chosen = machine(input, node);
    let first = node.types.first().map(|&t| &pool.catalogue.types[t as usize]);
    let on_demand = first.filter(|_| node.capacity_type != CapacityType::OnDemand).and_then(|t| {
        let offered = t.offerings.iter().filter(|o| o.available && o.capacity_type == CapacityType::OnDemand);
        offered.filter(|o| o.zone == chosen.zone).map(|o| o.price).min()
    });
    NodeStory {
        node: node.name.clone(),
        pods: node.pods.len(),
        amounts: node.requests.clone(),
        forced: needs.forced.clone(),
        catalogue: pool.catalogue.types.len(),
        funnel: funnel(&world, node, &needs),
        zone: why_zone(&world, node, &needs, &chosen),
        runner_up: runner_up(&world, node, &needs, &chosen),
        on_demand,
        machine: Some(chosen),
    }
}

/// What pods and pool ask of the machine, taken together.
struct Needs {
    merged: Requirements,
    requests: Resources,
    attached: BTreeMap<Text, i64>,
    forced: Vec<Forced>,
}

impl Needs {
    fn of(world: &World<'_>, node: &PlannedNode) -> Self {
        let input = world.input;
        let pool = &input.pools[node.pool as usize];
        let mut promised = (*node.labels).clone();
        if let [zone] = node.zones.as_ref() {
            promised.insert(ZONE.into(), zone.clone());
        }
        promised.insert(CAPACITY_TYPE.into(), node.capacity_type.as_str().into());
        let mut merged = base(pool);
        let mut forced: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for requirement in pool.requirements.iter().filter(|r| !pool.labels.contains_key(r.key())) {
            forced.entry(requirement.to_string()).or_default().push(format!("NodePool {}", pool.name));
        }
        let mut requests = Resources::new();
        let mut volumes_of = BTreeSet::new();
        let mut ways_of: BTreeMap<(u32, Option<u32>), Requirements> = BTreeMap::new();
        for pod in node.pods.iter().map(|&pod| &input.pods[pod as usize]) {
            let own = ways_of.entry((pod.shape, pod.volumes)).or_insert_with(|| own_needs(input, pod, &promised));
            for requirement in own.iter() {
                forced.entry(requirement.to_string()).or_default().push(format!("{}/{}", pod.namespace, pod.name));
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
        let forced = forced.into_iter().map(|(what, by)| Forced { what, by }).collect();
        Self { merged, requests, attached, forced }
    }
}

/// The way of the pod's affinity and volumes that the node's promised labels satisfy.
fn own_needs(input: &PlanningInput, pod: &crate::model::Pod, promised: &Labels) -> Requirements {
    let agrees = |wanted: &Requirements| {
        wanted.iter().all(|r| promised.get(r.key()).is_none_or(|value| r.has(value) || r.allows_absence()))
    };
    let ways = alternatives(&input.shapes[pod.shape as usize]);
    let way = ways.into_iter().map(|way| way.requirements).find(agrees).unwrap_or_default();
    let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize].any_of);
    let mut own = way;
    if let Some(place) = volumes.into_iter().flatten().find(|place| agrees(place)) {
        own.add_all(place);
    }
    own
}

/// The way from the catalogue to the options, in the order of the tests.
fn funnel(world: &World<'_>, node: &PlannedNode, needs: &Needs) -> Vec<FunnelStep> {
    let pool = &world.input.pools[node.pool as usize];
    let freed = world.freed(node.pool);
    let types = &pool.catalogue.types;
    let ask = any_pod(world);
    let market = ask.as_ref().map(|ask| {
        let mut market = Market::new(world, ask, node.pool);
        market.joins = true;
        market
    });
    let open = |t: u32, merged: &Requirements| {
        let instance = &types[t as usize];
        let open = |m: &Market<'_>| {
            let wanted = m.wanted(merged);
            instance.offerings.iter().any(|o| m.closed(instance, o, &wanted).is_none())
        };
        market.as_ref().is_none_or(open)
    };
    let mut paid = needs.merged.clone();
    paid.add(Requirement::new(CAPACITY_TYPE, Operator::In, [node.capacity_type.as_str().into()]));
    paid.add(Requirement::new(ZONE, Operator::In, node.zones.iter().cloned()));
    let matching = world.types(node.pool, &needs.merged);
    let large = |t: u32| {
        let attaches = needs.attached.iter().all(|(driver, volumes)| {
            let limit = format!("{}{driver}", crate::model::resources::ATTACHABLE_VOLUMES_PREFIX);
            let allocatable = &types[t as usize].allocatable;
            !allocatable.contains(&limit) || *volumes <= allocatable.get(&limit)
        });
        needs.requests.fits(&freed[t as usize].room) && attaches
    };
    let mut left: Vec<u32> = (0..u32::try_from(types.len()).unwrap_or(u32::MAX)).collect();
    let mut steps = Vec::new();
    let mut test = |step: &'static str, keeps: &dyn Fn(u32) -> bool| {
        let before = left.len();
        left.retain(|&t| keeps(t));
        steps.push(FunnelStep { step, dropped: before - left.len(), left: left.len() });
    };
    test("requirements", &|t| matching.contains(&t));
    test("resources", &large);
    test("offerings", &|t| open(t, &needs.merged));
    test("capacity type and zone", &|t| open(t, &paid));
    test("limits", &|t| within_limits(world, node, t));
    let ordinary = node.types.iter().any(|&t| !types[t as usize].exotic);
    test("exotic machines", &|t| !ordinary || !types[t as usize].exotic || node.types.contains(&t));
    test("price and number of options", &|t| node.types.contains(&t));
    steps
}

/// Offerings are looked at as some pod of the plan meets them; rules that differ between pods do not bear on machines that
/// are planned already.
fn any_pod<'w>(world: &World<'w>) -> Option<Ask<'w>> {
    let mut ask = Ask::of(world.input, world.input.pods.first()?);
    ask.created = None;
    Some(ask)
}

/// Whether the limits have room for the type instead of what the node is charged.
fn within_limits(world: &World<'_>, node: &PlannedNode, t: u32) -> bool {
    let pool = &world.input.pools[node.pool as usize];
    let types = &pool.catalogue.types;
    pool.limits.iter().filter(|(name, _)| name.as_ref() != NODES).all(|(name, _)| {
        let charged = node.types.iter().map(|&t| types[t as usize].capacity.get(name)).max().unwrap_or(0);
        types[t as usize].capacity.get(name) <= world.left(node.pool, name).unwrap_or(0) + charged
    })
}

fn why_zone(world: &World<'_>, node: &PlannedNode, needs: &Needs, chosen: &RunnerUp) -> String {
    let pool = &world.input.pools[node.pool as usize];
    let wanted = needs.merged.get(ZONE);
    if let Some(only) = wanted.and_then(|r| r.finite_values()).filter(|values| values.len() == 1) {
        return format!("{} is the only zone that pods and NodePool allow", some(&only.iter().collect::<Vec<_>>(), 1));
    }
    let Some(&first) = node.types.first() else { return String::new() };
    let instance = &pool.catalogue.types[first as usize];
    let mut prices: BTreeMap<&Text, MicroUsd> = BTreeMap::new();
    for offering in &instance.offerings {
        let allowed = wanted.is_none_or(|r| r.has(&offering.zone));
        if offering.available && offering.capacity_type == node.capacity_type && allowed {
            let best = prices.entry(&offering.zone).or_insert(offering.price);
            *best = (*best).min(offering.price);
        }
    }
    let others: Vec<(&&Text, &MicroUsd)> = prices.iter().filter(|(zone, _)| ***zone != chosen.zone).collect();
    if others.is_empty() {
        return format!(
            "{} is the only zone where {} is for sale as {}",
            chosen.zone,
            instance.name,
            node.capacity_type.as_str()
        );
    }
    let said: Vec<String> = others.iter().map(|(zone, price)| format!("{zone} ${price}")).collect();
    let why = if others.iter().all(|(_, price)| **price > chosen.price) {
        "is the cheapest zone for it"
    } else if others.iter().all(|(_, price)| **price >= chosen.price) {
        "is as cheap as any; among equals the zone where the pool has fewest nodes comes first"
    } else {
        "was chosen by rules between pods or by zone balance, although it is not the cheapest"
    };
    format!("{} {why}; elsewhere: {}", chosen.zone, said.join(", "))
}

/// The next option in price, in the cheapest of the node's zones.
fn runner_up(world: &World<'_>, node: &PlannedNode, needs: &Needs, chosen: &RunnerUp) -> Option<RunnerUp> {
    let pool = &world.input.pools[node.pool as usize];
    let allowed = |zone: &Text| needs.merged.get(ZONE).is_none_or(|r| r.has(zone)) && node.zones.contains(zone);
    let mut best: Option<RunnerUp> = None;
    for instance in node.types.iter().skip(1).map(|&t| &pool.catalogue.types[t as usize]) {
        for offering in instance.offerings.iter().filter(|o| o.available && o.capacity_type == node.capacity_type) {
            if !allowed(&offering.zone) || best.as_ref().is_some_and(|best| best.price <= offering.price) {
                continue;
            }
            best = Some(RunnerUp {
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

impl fmt::Display for NodeStory {
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
        for forced in &self.forced {
            writeln!(f, "- {}: asked for by {}", forced.what, some(&forced.by, NAMED))?;
        }
        writeln!(f, "Of {} in the catalogue:", count(self.catalogue, "type"))?;
        for step in &self.funnel {
            writeln!(f, "- {}: {} dropped, {} left", step.step, step.dropped, step.left)?;
        }
        writeln!(f, "Zone: {}.", self.zone)?;
        match (machine.capacity_type, self.on_demand) {
            (CapacityType::Reserved, _) => writeln!(f, "Reserved capacity is paid already and comes first.")?,
            (CapacityType::Spot, Some(price)) => writeln!(
                f,
                "Spot comes before on-demand where it is allowed; on demand it would cost ${price} per hour, {}.",
                difference(price, machine.price)
            )?,
            (CapacityType::Spot, None) => writeln!(f, "Spot comes before on-demand where it is allowed.")?,
            (CapacityType::OnDemand, _) => {
                writeln!(f, "On demand: reserved and spot capacity are not allowed or not for sale.")?;
            }
        }
        match &self.runner_up {
            Some(other) => writeln!(f, "Runner-up: {other}, {}.", difference(other.price, machine.price)),
            None => writeln!(f, "There is no runner-up: no other type carries these pods."),
        }
    }
}
