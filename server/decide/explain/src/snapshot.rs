//! The finished plan as a snapshot to try pods against: free capacity per node, placed pods,
//! remaining limits.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, NODECLASS, NODEPOOL, ZONE};
use model::offering::SharedCatalogue;
use model::plan::{Plan, PlannedNode};
use model::resources::NODES;
use model::{
    Catalogue, HostPort, InstanceType, LabelSelector, Node, NodePool, PodShape, Requirement, Requirements, Resources,
    Stop, Text, Zone,
};

use verifier::kernel::{
    DaemonSets, Daemons, Drawn, KeyDomains, Launch, Launches, Outcome, PoolNodes, SpotUsage, volumes_on_node,
};

use super::catalogue::{TypeQuery, keys_of_types};
use super::daemons::{self, FreeCapacity};
use super::label_index::LabelIndex;
use super::open_offerings::OpenOfferings;
use super::placed_pods::{GroupCounter, NodeRef, PlacedGroup};

/// What the pods of one node use.
#[derive(Debug, Default)]
pub(super) struct Load<'a> {
    /// Sum of the requests of the pods that the plan places.
    pub requests: Resources,
    pub ports: Vec<&'a HostPort>,
    /// Attached volumes: (CSI driver, volume).
    pub attached: BTreeSet<&'a (Text, Text)>,
}

#[derive(Debug)]
pub(super) struct PoolView {
    /// Requirements that every node of the pool satisfies.
    pub base: Requirements,
    /// Usage of its limits, planned nodes counted by their largest option. Computed on first use,
    /// like the fields below.
    used: OnceCell<Resources>,
    /// Its nodes by capacity type.
    spot_usage: OnceCell<SpotUsage>,
    /// Capacity left to pods on each instance type.
    free: OnceCell<Rc<FreeCapacity>>,
    /// Possible values on nodes of the pool, per requested label.
    offered: RefCell<FxHashMap<Text, Rc<BTreeSet<Text>>>>,
    /// Per instance type: whether a node keeps the limits, and the sum of its excesses, each as a
    /// share of the limit in millionths.
    over: OnceCell<Vec<(bool, i128)>>,
}

/// Free capacity, shared by pools with the same catalogue and the same DaemonSets.
type FreeCapacities = Vec<(SharedCatalogue, daemons::DaemonAlternatives, Rc<FreeCapacity>)>;

/// Matching instance types by pool and requirements. Used for lookup only, never iterated.
type Matches = FxHashMap<(u32, Requirements), Rc<[u32]>>;

/// Matching instance types per catalogue, with the label keys that its types define; shared by
/// pools with the same catalogue. Used for lookup only, never iterated.
type SharedMatches = FxHashMap<*const Catalogue, (FxHashSet<Text>, FxHashMap<TypeQuery, Rc<[u32]>>)>;

/// Snapshot of the finished plan for trials.
#[derive(Debug)]
pub(super) struct PlanSnapshot<'a> {
    pub input: &'a PlanningInput,
    pub plan: &'a Plan,
    /// The DaemonSets, and the nodes of the input that they run on.
    pub daemons: DaemonSets<'a>,
    /// Loads of the nodes of the input, missing DaemonSet pods included.
    pub loads: Vec<Load<'a>>,
    /// Loads of planned nodes without DaemonSet pods, which depend on the instance type.
    pub planned: Vec<Load<'a>>,
    /// Cached views by pool index.
    pub pools: Vec<PoolView>,
    /// All placed pods that count for topology rules, grouped.
    pub groups: Vec<PlacedGroup>,
    /// The open offerings of the pools.
    pub open_offerings: OpenOfferings,
    free_on_nodes: OnceCell<Vec<Resources>>,
    launches: OnceCell<Launches<'a>>,
    drawn: OnceCell<Drawn<'a>>,
    launch_daemons: OnceCell<Daemons<'a>>,
    /// Free resources by launch and outcome, and per launch the maximum of each resource.
    free_on_launches: OnceCell<Vec<(Vec<Resources>, Resources)>>,
    most_free: OnceCell<Vec<Resources>>,
    matches: RefCell<Matches>,
    shared_matches: RefCell<SharedMatches>,
    free: RefCell<FreeCapacities>,
    amounts: RefCell<FxHashMap<Text, Rc<[i64]>>>,
    label_index: OnceCell<LabelIndex>,
    key_domains: RefCell<FxHashMap<Text, Rc<KeyDomains<'a>>>>,
    /// Whether anybody still needs what is explained by it.
    stop: Stop,
}

impl<'a> PlanSnapshot<'a> {
    /// The snapshot after `plan`, for a pod without a place in it.
    pub(super) fn new(input: &'a PlanningInput, plan: &'a Plan) -> Self {
        Self::without(input, plan, None)
    }

    /// The snapshot after `plan` without the placement of the pod `except`.
    pub(super) fn without(input: &'a PlanningInput, plan: &'a Plan, except: Option<u32>) -> Self {
        let mut snapshot = Self {
            input,
            plan,
            daemons: DaemonSets::of(input),
            loads: input.nodes.iter().map(|_| Load::default()).collect(),
            planned: plan.nodes.iter().map(|_| Load::default()).collect(),
            pools: input.pools.iter().map(view).collect(),
            groups: Vec::new(),
            open_offerings: OpenOfferings::default(),
            free_on_nodes: OnceCell::new(),
            launches: OnceCell::new(),
            drawn: OnceCell::new(),
            launch_daemons: OnceCell::new(),
            free_on_launches: OnceCell::new(),
            most_free: OnceCell::new(),
            matches: RefCell::default(),
            shared_matches: RefCell::default(),
            free: RefCell::default(),
            amounts: RefCell::default(),
            label_index: OnceCell::new(),
            key_domains: RefCell::default(),
            stop: Stop::never(),
        };
        snapshot.place_pods(except);
        snapshot
    }

    /// The snapshot, whose [`PlanSnapshot::open_pools`] end once `stop` is due.
    pub(super) fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Adds existing, missing DaemonSet and planned pods to the loads and groups.
    fn place_pods(&mut self, except: Option<u32>) {
        let mut counter = GroupCounter::default();
        let input = self.input;
        // Bound pods first, then planned ones, as the plan places them. Terminating pods use
        // capacity and are counted by no rule.
        for (at, node) in (0_u32..).zip(&input.nodes) {
            let load = &mut self.loads[at as usize];
            load.ports.extend(self.daemons.ports_on_node(node));
            load.attached.extend(volumes_on_node(input, node));
            for pod in node.pods.iter().filter(|pod| !pod.leaving && !pod.terminating) {
                let name = || format!("{}/{}", pod.namespace, pod.name);
                counter.add(&pod.namespace, pod.labels, pod.shape, NodeRef::Existing(at), name);
            }
        }
        let placed = self.plan.placements.iter().map(|&(pod, node)| (pod, NodeRef::Existing(node)));
        let on = |(at, node): (u32, &'a PlannedNode)| node.pods.iter().map(move |&pod| (pod, NodeRef::Planned(at)));
        for (pod, node_ref) in placed.chain((0_u32..).zip(&self.plan.nodes).flat_map(on)) {
            if Some(pod) == except {
                continue;
            }
            let pod = &input.pods[pod as usize];
            let load = match node_ref {
                NodeRef::Existing(node) => &mut self.loads[node as usize],
                NodeRef::Planned(node) => &mut self.planned[node as usize],
            };
            load.add_pod(input, pod.shape, pod.volumes);
            counter.add(&pod.namespace, pod.labels, pod.shape, node_ref, || format!("{}/{}", pod.namespace, pod.name));
        }
        self.groups = counter.groups;
    }

    /// Pools for pending pods: all but the static ones.
    pub(super) fn open_pools(&self) -> impl Iterator<Item = (u32, &'a NodePool)> {
        let pools = (0_u32..).zip(&self.input.pools).filter(|(_, pool)| pool.replicas.is_none());
        // What is explained of a pod is a walk over the pools, or several.
        pools.take_while(|_| !self.stop.is_due())
    }

    /// A superset of the groups that `selector` selects, in order. A missing selector selects
    /// nothing.
    pub(super) fn candidates(&self, selector: Option<&LabelSelector>) -> impl Iterator<Item = &PlacedGroup> {
        let label_index = self.label_index.get_or_init(|| LabelIndex::of(self.input, &self.groups));
        let some = label_index.candidates(selector);
        let all = if some.is_none() { self.groups.as_slice() } else { &[] };
        some.into_iter().flatten().map(|at| &self.groups[at]).chain(all)
    }

    /// Free capacity of an existing node.
    pub(super) fn free_on_node(&self, node: u32) -> &Resources {
        let free = |(node, load): (&Node, &Load<'_>)| {
            let mut free = self.daemons.free_on_node(node);
            free.subtract(&load.requests);
            free
        };
        &self.free_on_nodes.get_or_init(|| self.input.nodes.iter().zip(&self.loads).map(free).collect())[node as usize]
    }

    pub(super) fn launches(&self) -> &Launches<'a> {
        self.launches.get_or_init(|| Launches::of(self.input, self.plan))
    }

    /// The DaemonSets on the launches of the plan.
    pub(super) fn launch_daemons(&self) -> &Daemons<'a> {
        self.launch_daemons.get_or_init(|| Daemons::new(self.input, self.launches()))
    }

    /// Capacity of one outcome of a launch that is left to pods, DaemonSets subtracted.
    pub(super) fn free_on_outcome(&self, launch: usize, outcome: usize) -> &Resources {
        &self.free_on_launches()[launch].0[outcome]
    }

    fn free_on_launches(&self) -> &[(Vec<Resources>, Resources)] {
        let of_launch = |(number, launch): (usize, &Launch<'_>)| {
            let free = |(at, outcome): (usize, &Outcome<'_>)| {
                let mut free = outcome.machine.allocatable.clone();
                free.subtract(&self.launch_daemons().requests(number, at));
                free
            };
            let free: Vec<Resources> = launch.outcomes.iter().enumerate().map(free).collect();
            let mut most = Resources::new();
            free.iter().for_each(|free| most.raise_to(free));
            (free, most)
        };
        self.free_on_launches.get_or_init(|| self.launches().list.iter().enumerate().map(of_launch).collect())
    }

    /// Maximum free amount of each resource over the outcomes of a planned node; a cheap upper
    /// bound.
    pub(super) fn most_free(&self, planned: u32) -> &Resources {
        let most = |(number, load): (&Option<u32>, &Load<'_>)| {
            let mut most = number.map(|number| self.free_on_launches()[number as usize].1.clone()).unwrap_or_default();
            most.subtract(&load.requests);
            most
        };
        let all = || self.launches().of_node.iter().zip(&self.planned).map(most).collect();
        &self.most_free.get_or_init(all)[planned as usize]
    }

    /// Capacity of each instance type left to pods of `pool`, DaemonSets subtracted.
    pub(super) fn type_capacities(&self, pool: u32) -> &[daemons::TypeCapacity] {
        &self.free_capacity(pool).types
    }

    /// Capacity of each instance type left to pods of `pool`, in comparable form.
    pub(super) fn free_capacity(&self, pool: u32) -> &Rc<FreeCapacity> {
        self.pools[pool as usize].free.get_or_init(|| self.compute_free_capacity(pool))
    }

    fn compute_free_capacity(&self, at: u32) -> Rc<FreeCapacity> {
        let pool = &self.input.pools[at as usize];
        let alternatives = daemons::alternatives_for_pool(self.input, pool, &self.pools[at as usize].base);
        let mut known = self.free.borrow_mut();
        let mut alike = known.iter().filter(|(of, by, _)| Arc::ptr_eq(of, &pool.catalogue) && *by == alternatives);
        if let Some((_, _, free)) = alike.next() {
            return Rc::clone(free);
        }
        let free = Rc::new(daemons::capacity_without_daemons(self.input, &pool.catalogue, &alternatives));
        known.push((Arc::clone(&pool.catalogue), alternatives, Rc::clone(&free)));
        free
    }

    /// All distinct free amounts of `name` on types, nodes and planned nodes, and 0; ascending.
    pub(super) fn free_amounts(&self, name: &Text) -> Rc<[i64]> {
        if let Some(known) = self.amounts.borrow().get(name) {
            return Rc::clone(known);
        }
        // Pools that share their free capacity are visited once.
        let mut seen: Vec<*const FreeCapacity> = Vec::new();
        let mut amounts: BTreeSet<i64> = BTreeSet::from([0]);
        for free in self.open_pools().map(|(pool, _)| self.free_capacity(pool)) {
            if !seen.contains(&Rc::as_ptr(free)) {
                seen.push(Rc::as_ptr(free));
                amounts.extend(free.types.iter().map(|capacity| capacity.free.get(name)));
            }
        }
        amounts.extend((0_u32..).zip(&self.input.nodes).map(|(at, _)| self.free_on_node(at).get(name)));
        amounts.extend((0_u32..).zip(&self.plan.nodes).map(|(at, _)| self.most_free(at).get(name)));
        let amounts: Rc<[i64]> = amounts.into_iter().collect();
        self.amounts.borrow_mut().insert(name.clone(), Rc::clone(&amounts));
        amounts
    }

    /// Sum of the amounts by which a node of type `t` exceeds the limits of `pool`, each as a share
    /// of the limit in millionths.
    pub(super) fn over(&self, pool: u32, t: u32) -> i128 {
        self.excesses(pool)[t as usize].1
    }

    /// Whether a node of type `t` keeps the limits of `pool`.
    pub(super) fn keeps_limits(&self, pool: u32, t: u32) -> bool {
        self.excesses(pool)[t as usize].0
    }

    fn excesses(&self, pool: u32) -> &[(bool, i128)] {
        self.pools[pool as usize].over.get_or_init(|| self.compute_excesses(pool))
    }

    fn compute_excesses(&self, at: u32) -> Vec<(bool, i128)> {
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

    /// Instance types of `pool` that match `merged`, offerings not considered.
    pub(super) fn types(&self, pool: u32, merged: &Requirements) -> Rc<[u32]> {
        if let Some(known) = self.matches.borrow().get(&(pool, merged.clone())) {
            return Rc::clone(known);
        }
        let (of, base) = (&self.input.pools[pool as usize], &self.pools[pool as usize].base);
        let mut shared = self.shared_matches.borrow_mut();
        // The catalogue outlives the cache, so its address identifies it.
        let (keys, known) = shared
            .entry(Arc::as_ptr(&of.catalogue))
            .or_insert_with(|| (keys_of_types(&of.catalogue), FxHashMap::default()));
        let query = TypeQuery::new(of, keys, base, merged);
        let found = Rc::clone(known.entry(query).or_insert_with_key(|query| query.matching(&of.catalogue).into()));
        self.matches.borrow_mut().insert((pool, merged.clone()), Rc::clone(&found));
        found
    }

    /// The possible values of `key` on nodes of `pool`: zones with an available offering, or the
    /// values defined by types and pool.
    pub(super) fn offered(&self, at: u32, key: &Text) -> Rc<BTreeSet<Text>> {
        let (pool, view) = (&self.input.pools[at as usize], &self.pools[at as usize]);
        if let Some(known) = view.offered.borrow().get(key) {
            return Rc::clone(known);
        }
        let types = self.types(at, &view.base);
        let types = types.iter().map(|&at| &pool.catalogue.types[at as usize]);
        let values: BTreeSet<&Text> = if key.as_ref() == ZONE {
            let open = types.flat_map(|t| &t.offerings).filter(|offering| offering.available);
            open.map(|offering| offering.zone.as_text()).collect()
        } else {
            let of_types = types.filter_map(|t| t.labels.get(key)?.finite_values()).flatten();
            of_types.chain(view.base.get(key).and_then(|r| r.finite_values()).into_iter().flatten()).collect()
        };
        let values: Rc<BTreeSet<Text>> = Rc::new(values.into_iter().cloned().collect());
        view.offered.borrow_mut().insert(key.clone(), Rc::clone(&values));
        values
    }

    /// Remaining amount of the limit `resource` of `pool`; `None` without such a limit.
    pub(super) fn left(&self, pool: u32, resource: &str) -> Option<i64> {
        let limits = &self.input.pools[pool as usize].limits;
        limits.contains(resource).then(|| limits.get(resource) - self.used(pool).get(resource))
    }

    /// What the nodes of `pool` use of its limits, planned ones by their largest option.
    pub(super) fn used(&self, pool: u32) -> &Resources {
        let limits = &self.input.pools[pool as usize].limits;
        self.pools[pool as usize].used.get_or_init(|| self.nodes_of(pool).used(limits))
    }

    /// The nodes of `pool` by capacity type; not counted if no rule of the pool depends on them.
    pub(super) fn spot_usage(&self, pool: u32) -> SpotUsage {
        let rules = &self.input.pools[pool as usize].rules;
        if rules.spot_max_percent.is_none() && rules.on_demand_min_nodes.is_none() {
            return SpotUsage::default();
        }
        *self.pools[pool as usize].spot_usage.get_or_init(|| SpotUsage::of(&self.nodes_of(pool)))
    }

    fn nodes_of(&self, pool: u32) -> PoolNodes<'_, '_> {
        PoolNodes::of(self.input, self.launches(), pool as usize)
    }

    pub(super) fn left_in(&self, reservation: &model::Reservation) -> i64 {
        self.drawn.get_or_init(|| Drawn::of(self.launches())).left_in(reservation)
    }

    /// The domains of `key` that a node is in, or may be in; several only for a planned node with
    /// an undecided zone.
    pub(super) fn domains(&self, node_ref: NodeRef, key: &str) -> Vec<&'a Text> {
        match node_ref {
            NodeRef::Existing(at) => node_label(&self.input.nodes[at as usize], key).into_iter().collect(),
            NodeRef::Planned(at) => {
                let node = &self.plan.nodes[at as usize];
                match key {
                    HOSTNAME => vec![&node.name],
                    ZONE => node.zones.iter().map(Zone::as_text).collect(),
                    _ => node.labels.get(key).into_iter().collect(),
                }
            }
        }
    }

    /// The verifier's number of a node: nodes of the input come first.
    pub(super) fn host(&self, node_ref: NodeRef) -> u32 {
        match node_ref {
            NodeRef::Existing(at) => at,
            NodeRef::Planned(at) => u32::try_from(self.input.nodes.len()).unwrap_or(u32::MAX).saturating_add(at),
        }
    }

    /// The domains of all nodes for the topology key.
    pub(super) fn key_domains(&self, key: &Text) -> Rc<KeyDomains<'a>> {
        if let Some(known) = self.key_domains.borrow().get(key) {
            return Rc::clone(known);
        }
        let domains = Rc::new(KeyDomains::of(self.input, self.plan, self.launches(), key));
        self.key_domains.borrow_mut().insert(key.clone(), Rc::clone(&domains));
        domains
    }

    /// The label `key` of a node. For a planned node this includes hostname, capacity type and a
    /// decided zone.
    pub(super) fn label(&self, node_ref: NodeRef, key: &str) -> Option<&'a str> {
        let node = match node_ref {
            NodeRef::Existing(at) => return self.input.nodes[at as usize].labels.get(key).map(AsRef::as_ref),
            NodeRef::Planned(at) => &self.plan.nodes[at as usize],
        };
        match (key, node.zones.as_ref()) {
            (HOSTNAME, _) => Some(&node.name),
            (CAPACITY_TYPE, _) => Some(node.capacity_type.as_str()),
            (ZONE, [zone]) => Some(zone),
            _ => node.labels.get(key).map(AsRef::as_ref),
        }
    }

    /// Whether the labels of a node satisfy `requirement`.
    pub(super) fn satisfies(&self, node_ref: NodeRef, requirement: &Requirement) -> bool {
        let value = self.label(node_ref, requirement.key());
        value.map_or(requirement.allows_absence(), |value| requirement.has(value))
    }
}

/// The value of `key` on a node; the node name replaces a missing hostname label.
pub(super) fn node_label<'n>(node: &'n Node, key: &str) -> Option<&'n Text> {
    node.labels.get(key).or_else(|| (key == HOSTNAME).then_some(&node.name))
}

impl<'a> Load<'a> {
    fn add_pod(&mut self, input: &'a PlanningInput, shape: u32, volumes: Option<u32>) {
        let shape: &PodShape = &input.shapes[shape as usize];
        self.requests.add(&shape.requests);
        self.ports.extend(&shape.host_ports);
        if let Some(volumes) = volumes {
            self.attached.extend(&input.volume_sets[volumes as usize].attachments);
        }
    }
}

fn view(pool: &NodePool) -> PoolView {
    PoolView {
        base: base(pool),
        used: OnceCell::new(),
        spot_usage: OnceCell::new(),
        free: OnceCell::new(),
        offered: RefCell::default(),
        over: OnceCell::new(),
    }
}

/// Requirements that every node of `pool` satisfies: pool requirements, labels, pool name and
/// NodeClass.
pub(super) fn base(pool: &NodePool) -> Requirements {
    let mut base = pool.requirements.clone();
    base.add_all(&Requirements::from_labels(&pool.labels));
    base.add(Requirement::equals(NODEPOOL, pool.name.clone()));
    base.add(Requirement::equals(NODECLASS, pool.node_class.clone()));
    base
}
