//! The finished plan as a world to try pods against: what room is left where, who lives where, what limits leave.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, HOSTNAME, NODECLASS, NODEPOOL, ZONE};
use crate::model::offering::SharedCatalogue;
use crate::model::resources::NODES;
use crate::model::{
    Catalogue, HostPort, InstanceType, LabelSelector, Node, NodePool, NodeStage, Offering, PodShape, Requirement,
    Requirements, Resources, Text,
};
use crate::plan::{Plan, PlannedNode};

use super::catalogue::{OfTypes, keys_of_types};
use super::daemons::{self, FreeRoom};
use super::market::Manner;
use super::residents::ByLabel;

/// A machine that pods live on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// A node of the input.
    Node(u32),
    /// A node of the plan.
    Planned(u32),
}

/// What pods and daemons take of one machine.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Sum of requests.
    pub requests: Resources,
    /// Host ports that are taken.
    pub ports: Vec<HostPort>,
    /// Volumes attached, by driver.
    pub attached: BTreeSet<(Text, Text)>,
}

/// Pods that look alike to every topology rule, and where they live.
#[derive(Debug)]
pub(super) struct Resident {
    /// Namespace.
    pub namespace: Text,
    /// Index of the label set.
    pub labels: u32,
    /// Index of the shape.
    pub shape: u32,
    /// A pod of the kind, for messages: `namespace/name`.
    pub example: String,
    /// How many live where.
    pub places: BTreeMap<Place, i64>,
}

/// A pool as planning sees it.
#[derive(Debug)]
pub(super) struct PoolView {
    /// What every node of the pool satisfies.
    pub base: Requirements,
    /// What its nodes use of its limits, planned ones by their largest option. Computed when first asked for, as all that
    /// follows.
    used: OnceCell<Resources>,
    /// What pods find free on each type.
    free: OnceCell<Rc<FreeRoom>>,
    /// The values of the labels that were asked about, of the zone and of those that types have, that machines of the pool may
    /// have.
    offered: RefCell<FxHashMap<Text, Rc<BTreeSet<Text>>>>,
    /// By type, whether a machine keeps the limits, and the sum of what it would exceed them by, as a share of each limit in
    /// millionths.
    over: OnceCell<Vec<(bool, i128)>>,
}

/// Pools that sell one catalogue and get the same DaemonSets share what is free.
type FreeRooms = Vec<(SharedCatalogue, daemons::Ways, Rc<FreeRoom>)>;

/// Open offerings, by type, of a pool under requirements as a pod of some kind meets them; looked up, never walked through.
type Sales = FxHashMap<(u32, Requirements, Manner), Rc<[Vec<u32>]>>;

/// Types by pool and requirements; looked up, never walked through.
type Matches = FxHashMap<(u32, Requirements), Rc<[u32]>>;

/// The same for each catalogue, with the label keys that its types define: pools that sell one share what is found. Looked up,
/// never walked through.
type Alike = FxHashMap<*const Catalogue, (FxHashSet<Text>, FxHashMap<OfTypes, Rc<[u32]>>)>;

/// The finished plan, ready for trials.
#[derive(Debug)]
pub(super) struct World<'a> {
    /// What was planned from.
    pub input: &'a PlanningInput,
    /// What was planned.
    pub plan: &'a Plan,
    /// Loads of the input's nodes, daemons that are still to come included.
    pub loads: Vec<Load>,
    /// Loads of planned nodes, daemons apart: they depend on the type.
    pub planned: Vec<Load>,
    /// Pools.
    pub pools: Vec<PoolView>,
    /// Everybody who counts for topology rules.
    pub residents: Vec<Resident>,
    /// Machines that the plan draws from each reservation.
    pub drawn: BTreeMap<Text, i64>,
    rooms: OnceCell<Vec<Resources>>,
    most: OnceCell<Vec<Resources>>,
    matches: RefCell<Matches>,
    alike: RefCell<Alike>,
    sales: RefCell<Sales>,
    free: RefCell<FreeRooms>,
    amounts: RefCell<FxHashMap<Text, Rc<[i64]>>>,
    by_label: OnceCell<ByLabel>,
}

impl<'a> World<'a> {
    /// The world after `plan`, as a pod that has no place in it sees it.
    pub(super) fn new(input: &'a PlanningInput, plan: &'a Plan) -> Self {
        Self::without(input, plan, None)
    }

    /// The world after `plan` had it not placed the pod `except`.
    pub(super) fn without(input: &'a PlanningInput, plan: &'a Plan, except: Option<u32>) -> Self {
        let mut world = Self {
            input,
            plan,
            loads: input.nodes.iter().map(|_| Load::default()).collect(),
            planned: plan.nodes.iter().map(|_| Load::default()).collect(),
            pools: input.pools.iter().map(view).collect(),
            residents: Vec::new(),
            drawn: BTreeMap::new(),
            rooms: OnceCell::new(),
            most: OnceCell::new(),
            matches: RefCell::default(),
            alike: RefCell::default(),
            sales: RefCell::default(),
            free: RefCell::default(),
            amounts: RefCell::default(),
            by_label: OnceCell::new(),
        };
        for reservation in plan.nodes.iter().chain(&plan.static_nodes).filter_map(|node| node.reservation.clone()) {
            *world.drawn.entry(reservation).or_insert(0) += 1;
        }
        world.settle(except);
        world
    }

    /// Puts everybody where they live.
    fn settle(&mut self, except: Option<u32>) {
        let mut census = Census::default();
        let input = self.input;
        for (at, node) in (0_u32..).zip(&input.nodes) {
            let load = &mut self.loads[at as usize];
            for pod in node.pods.iter().filter(|pod| !pod.leaving) {
                load.take(input, pod.shape, pod.volumes);
                if !pod.terminating {
                    let who = || format!("{}/{}", pod.namespace, pod.name);
                    census.count(&pod.namespace, pod.labels, pod.shape, Place::Node(at), who);
                }
            }
            for shape in daemons::still_to_come(input, node) {
                load.take(input, shape, None);
            }
        }
        let placed = self.plan.placements.iter().map(|&(pod, node)| (pod, Place::Node(node)));
        let on = |(at, node): (u32, &'a PlannedNode)| node.pods.iter().map(move |&pod| (pod, Place::Planned(at)));
        for (pod, place) in placed.chain((0_u32..).zip(&self.plan.nodes).flat_map(on)) {
            if Some(pod) == except {
                continue;
            }
            let pod = &input.pods[pod as usize];
            let load = match place {
                Place::Node(node) => &mut self.loads[node as usize],
                Place::Planned(node) => &mut self.planned[node as usize],
            };
            load.take(input, pod.shape, pod.volumes);
            census.count(&pod.namespace, pod.labels, pod.shape, place, || format!("{}/{}", pod.namespace, pod.name));
        }
        self.residents = census.residents;
    }

    /// Pools that pending pods may be planned on: all but the static ones.
    pub(super) fn open_pools(&self) -> impl Iterator<Item = (u32, &'a NodePool)> {
        (0_u32..).zip(&self.input.pools).filter(|(_, pool)| pool.replicas.is_none())
    }

    /// Residents among whom all are that `selector` selects, in their order. A selector that is missing selects nobody.
    pub(super) fn candidates(&self, selector: Option<&LabelSelector>) -> impl Iterator<Item = &Resident> {
        let by_label = self.by_label.get_or_init(|| ByLabel::of(self.input, &self.residents));
        let some = by_label.candidates(selector);
        let all = if some.is_none() { self.residents.as_slice() } else { &[] };
        some.into_iter().flatten().map(|at| &self.residents[at]).chain(all)
    }

    /// What pods can still use of an existing node.
    pub(super) fn room(&self, node: u32) -> &Resources {
        let room = |(node, load): (&Node, &Load)| {
            let mut room = node.allocatable.clone();
            room.subtract(&load.requests);
            room
        };
        &self.rooms.get_or_init(|| self.input.nodes.iter().zip(&self.loads).map(room).collect())[node as usize]
    }

    /// The most of each resource that some option of a planned node has left; a bound that is quick to look at.
    pub(super) fn most_room(&self, planned: u32) -> &Resources {
        let largest = |node: &PlannedNode| {
            let mut most = Resources::new();
            for &option in node.types.iter() {
                most.raise_to(&self.freed(node.pool)[option as usize].room);
            }
            most
        };
        // Machines that are alike share their options. The options live as long as the plan, so their address names them.
        let mut known: FxHashMap<(u32, *const u32), Resources> = FxHashMap::default();
        let mut most = |(node, load): (&PlannedNode, &Load)| {
            let key = (node.pool, node.types.as_ptr());
            let mut most = known.entry(key).or_insert_with(|| largest(node)).clone();
            most.subtract(&load.requests);
            most
        };
        &self.most.get_or_init(|| self.plan.nodes.iter().zip(&self.planned).map(&mut most).collect())[planned as usize]
    }

    /// What each type offers to pods of `pool`, its DaemonSets taken off.
    pub(super) fn freed(&self, pool: u32) -> &[daemons::Freed] {
        &self.free_room(pool).types
    }

    /// The same, ready for comparisons.
    pub(super) fn free_room(&self, pool: u32) -> &Rc<FreeRoom> {
        self.pools[pool as usize].free.get_or_init(|| self.find_free_room(pool))
    }

    fn find_free_room(&self, at: u32) -> Rc<FreeRoom> {
        let pool = &self.input.pools[at as usize];
        let ways = daemons::ways_onto(self.input, pool, &self.pools[at as usize].base);
        let mut known = self.free.borrow_mut();
        let mut alike = known.iter().filter(|(of, by, _)| Arc::ptr_eq(of, &pool.catalogue) && *by == ways);
        if let Some((_, _, free)) = alike.next() {
            return Rc::clone(free);
        }
        let free = Rc::new(daemons::free_of_daemons(self.input, &pool.catalogue, &ways));
        known.push((Arc::clone(&pool.catalogue), ways, Rc::clone(&free)));
        free
    }

    /// Every amount of `name` that is free on a type, a node or a planned node, and 0; ascending.
    pub(super) fn free_amounts(&self, name: &Text) -> Rc<[i64]> {
        if let Some(known) = self.amounts.borrow().get(name) {
            return Rc::clone(known);
        }
        // Machines of pools that share what is free are looked at once.
        let mut seen: Vec<*const FreeRoom> = Vec::new();
        let mut amounts: BTreeSet<i64> = BTreeSet::from([0]);
        for free in self.open_pools().map(|(pool, _)| self.free_room(pool)) {
            if !seen.contains(&Rc::as_ptr(free)) {
                seen.push(Rc::as_ptr(free));
                amounts.extend(free.types.iter().map(|freed| freed.room.get(name)));
            }
        }
        amounts.extend((0_u32..).zip(&self.input.nodes).map(|(at, _)| self.room(at).get(name)));
        amounts.extend((0_u32..).zip(&self.plan.nodes).map(|(at, _)| self.most_room(at).get(name)));
        let amounts: Rc<[i64]> = amounts.into_iter().collect();
        self.amounts.borrow_mut().insert(name.clone(), Rc::clone(&amounts));
        amounts
    }

    /// Sum of what a machine of type `t` would exceed the limits of `pool` by, as a share of each limit in millionths.
    pub(super) fn over(&self, pool: u32, t: u32) -> i128 {
        self.excesses(pool)[t as usize].1
    }

    /// Whether a machine of type `t` keeps the limits of `pool`.
    pub(super) fn keeps_limits(&self, pool: u32, t: u32) -> bool {
        self.excesses(pool)[t as usize].0
    }

    fn excesses(&self, pool: u32) -> &[(bool, i128)] {
        self.pools[pool as usize].over.get_or_init(|| self.find_excesses(pool))
    }

    fn find_excesses(&self, at: u32) -> Vec<(bool, i128)> {
        let pool = &self.input.pools[at as usize];
        let limited = pool.limits.iter().filter(|(name, _)| name.as_ref() != NODES);
        let limits: Vec<(&Text, i64, i64)> =
            limited.map(|(name, limit)| (name, limit, self.left(at, name).unwrap_or(0))).collect();
        let of_type = |instance: &InstanceType| {
            let over = limits.iter().map(|(name, limit, left)| (instance.capacity.get(name) - left, *limit));
            let share = |(by, limit): (i64, i64)| i128::from(by) * 1_000_000 / i128::from(limit.max(1));
            (over.clone().all(|(by, _)| by <= 0), over.filter(|(by, _)| *by > 0).map(share).sum())
        };
        pool.catalogue.types.iter().map(of_type).collect()
    }

    /// Types of `pool` that agree with `merged`, offerings apart.
    pub(super) fn types(&self, pool: u32, merged: &Requirements) -> Rc<[u32]> {
        if let Some(known) = self.matches.borrow().get(&(pool, merged.clone())) {
            return Rc::clone(known);
        }
        let (of, base) = (&self.input.pools[pool as usize], &self.pools[pool as usize].base);
        let mut alike = self.alike.borrow_mut();
        // The catalogue lives as long as the input, so its address names it.
        let (keys, known) = alike
            .entry(Arc::as_ptr(&of.catalogue))
            .or_insert_with(|| (keys_of_types(&of.catalogue), FxHashMap::default()));
        let asked = OfTypes::new(of, keys, base, merged);
        let found = Rc::clone(known.entry(asked).or_insert_with_key(|asked| asked.matching(&of.catalogue).into()));
        self.matches.borrow_mut().insert((pool, merged.clone()), Rc::clone(&found));
        found
    }

    /// The open offerings of `pool` under `merged`, by type, found with `open` unless they are known.
    pub(super) fn sales(
        &self,
        (pool, merged, manner): (u32, &Requirements, Manner),
        open: impl Fn(&InstanceType, &Offering) -> bool,
    ) -> Rc<[Vec<u32>]> {
        let key = (pool, merged.clone(), manner);
        if let Some(known) = self.sales.borrow().get(&key) {
            return Rc::clone(known);
        }
        let of_type = |instance: &InstanceType| {
            let offerings = (0_u32..).zip(&instance.offerings).filter(|(_, offering)| open(instance, offering));
            offerings.map(|(at, _)| at).collect()
        };
        let found: Rc<[Vec<u32>]> = self.input.pools[pool as usize].catalogue.types.iter().map(of_type).collect();
        self.sales.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    /// The values of `key` that machines of `pool` may have: zones with an open offering, or what types and pool say.
    pub(super) fn offered(&self, at: u32, key: &Text) -> Rc<BTreeSet<Text>> {
        let (pool, view) = (&self.input.pools[at as usize], &self.pools[at as usize]);
        if let Some(known) = view.offered.borrow().get(key) {
            return Rc::clone(known);
        }
        let types = self.types(at, &view.base);
        let types = types.iter().map(|&at| &pool.catalogue.types[at as usize]);
        let values: BTreeSet<&Text> = if key.as_ref() == ZONE {
            let open = types.flat_map(|t| &t.offerings).filter(|offering| offering.available);
            open.map(|offering| &offering.zone).collect()
        } else {
            let of_types = types.filter_map(|t| t.labels.get(key)?.finite_values()).flatten();
            of_types.chain(view.base.get(key).and_then(|r| r.finite_values()).into_iter().flatten()).collect()
        };
        let values: Rc<BTreeSet<Text>> = Rc::new(values.into_iter().cloned().collect());
        view.offered.borrow_mut().insert(key.clone(), Rc::clone(&values));
        values
    }

    /// What is left of the limit `resource` of `pool`; `None` without such a limit.
    pub(super) fn left(&self, pool: u32, resource: &str) -> Option<i64> {
        let limits = &self.input.pools[pool as usize].limits;
        limits.contains(resource).then(|| limits.get(resource) - self.used(pool).get(resource))
    }

    /// What the nodes of `pool` use of its limits, planned ones by their largest option.
    pub(super) fn used(&self, pool: u32) -> &Resources {
        let nodepool = &self.input.pools[pool as usize];
        self.pools[pool as usize].used.get_or_init(|| used(self.input, self.plan, nodepool))
    }

    /// Machines that are left of a reservation.
    pub(super) fn left_in(&self, reservation: &crate::model::Reservation) -> i64 {
        reservation.remaining - self.drawn.get(&reservation.id).copied().unwrap_or(0)
    }

    /// The domains of `key` that a place is in, or may end up in: several only for a planned node whose zone is open.
    pub(super) fn domains(&self, place: Place, key: &str) -> Vec<&'a Text> {
        match place {
            Place::Node(at) => node_label(&self.input.nodes[at as usize], key).into_iter().collect(),
            Place::Planned(at) => {
                let node = &self.plan.nodes[at as usize];
                match key {
                    HOSTNAME => vec![&node.name],
                    ZONE => node.zones.iter().collect(),
                    _ => node.labels.get(key).into_iter().collect(),
                }
            }
        }
    }

    /// The label `key` of a place; of a planned node, hostname, zone (where it is decided) and capacity type included.
    pub(super) fn label(&self, place: Place, key: &str) -> Option<&'a str> {
        let node = match place {
            Place::Node(at) => return self.input.nodes[at as usize].labels.get(key).map(AsRef::as_ref),
            Place::Planned(at) => &self.plan.nodes[at as usize],
        };
        match (key, node.zones.as_ref()) {
            (HOSTNAME, _) => Some(&node.name),
            (CAPACITY_TYPE, _) => Some(node.capacity_type.as_str()),
            (ZONE, [zone]) => Some(zone),
            _ => node.labels.get(key).map(AsRef::as_ref),
        }
    }

    /// Whether the labels of a place satisfy `requirement`.
    pub(super) fn satisfies(&self, place: Place, requirement: &Requirement) -> bool {
        let value = self.label(place, requirement.key());
        value.map_or(requirement.allows_absence(), |value| requirement.has(value))
    }
}

/// The value of `key` on a node; its name stands in for a missing hostname.
pub(super) fn node_label<'n>(node: &'n Node, key: &str) -> Option<&'n Text> {
    node.labels.get(key).or_else(|| (key == HOSTNAME).then_some(&node.name))
}

impl Load {
    fn take(&mut self, input: &PlanningInput, shape: u32, volumes: Option<u32>) {
        let shape: &PodShape = &input.shapes[shape as usize];
        self.requests.add(&shape.requests);
        self.ports.extend(shape.host_ports.iter().cloned());
        if let Some(volumes) = volumes {
            self.attached.extend(input.volume_sets[volumes as usize].attachments.iter().cloned());
        }
    }
}

/// Groups pods as they are counted.
#[derive(Default)]
struct Census {
    residents: Vec<Resident>,
    index: FxHashMap<(Text, u32, u32), usize>,
}

impl Census {
    fn count(&mut self, namespace: &Text, labels: u32, shape: u32, place: Place, who: impl Fn() -> String) {
        let residents = &mut self.residents;
        let at = *self.index.entry((namespace.clone(), labels, shape)).or_insert_with(|| {
            let namespace = namespace.clone();
            residents.push(Resident { namespace, labels, shape, example: who(), places: BTreeMap::new() });
            residents.len() - 1
        });
        *residents[at].places.entry(place).or_insert(0) += 1;
    }
}

fn view(pool: &NodePool) -> PoolView {
    PoolView {
        base: base(pool),
        used: OnceCell::new(),
        free: OnceCell::new(),
        offered: RefCell::default(),
        over: OnceCell::new(),
    }
}

/// What every node of `pool` satisfies: its requirements, its labels, its own name and its NodeClass.
pub(super) fn base(pool: &NodePool) -> Requirements {
    let mut base = pool.requirements.clone();
    base.add_all(&Requirements::from_labels(&pool.labels));
    base.add(Requirement::equals(NODEPOOL, pool.name.clone()));
    base.add(Requirement::equals(NODECLASS, pool.node_class.clone()));
    base
}

/// What the pool's nodes use of its limits. A planned node may turn out to be any of its options, so the largest counts.
fn used(input: &PlanningInput, plan: &Plan, pool: &NodePool) -> Resources {
    let mut used = Resources::new();
    for node in living(input, pool) {
        used.add(&node.capacity);
        used.add(&Resources::from_iter([(NODES, 1 - node.capacity.get(NODES))]));
    }
    let ours = |node: &&PlannedNode| input.pools[node.pool as usize].name == pool.name;
    // Machines that are alike share their options. The options live as long as the plan, so their address names them.
    let mut known: FxHashMap<*const u32, Resources> = FxHashMap::default();
    for node in plan.nodes.iter().chain(&plan.static_nodes).filter(ours) {
        let largest = known.entry(node.types.as_ptr()).or_insert_with(|| largest_of(pool, &node.types));
        used.add(largest);
    }
    used
}

/// One machine, as large in every resource as any of `options`.
fn largest_of(pool: &NodePool, options: &[u32]) -> Resources {
    let mut largest = Resources::new();
    for option in options {
        largest.raise_to(&pool.catalogue.types[*option as usize].capacity);
    }
    largest.set(NODES, 1);
    largest
}

/// Nodes of `pool` that are not on their way out.
pub(super) fn living<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    input.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting)
}
