//! Machines for trials of an unschedulable pod: those of the plan with fewer launch options, and
//! new ones.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::input::PlanningInput;
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODECLASS, NODEPOOL, REGISTERED, ZONE};
use model::plan::{Plan, PlannedNode};
use model::resources::{CPU, NODES};
use model::taints::first_untolerated;
use model::{
    CapacityType, Catalogue, InstanceType, Labels, MicroUsd, NodeName, NodePool, NodeSelectorTerm, Offering, PodShape,
    Requirement, Requirements, Resources, Text, Zone,
};
use verifier::daemon_requests;
use verifier::kernel::{active_nodes, most_cpu, surplus_credits, unmet_min_values};

/// Maximum number of launch options of a machine.
const MAX_OPTIONS: usize = 60;
/// Up to this number of options each smaller number is tried; beyond it half, a quarter, and so on.
const FEW_OPTIONS: usize = 16;

/// Data about each pool's offerings that the trials use.
pub(crate) struct MachineTrials<'i> {
    input: &'i PlanningInput,
    /// For each pool, the maximum of each resource over its types.
    largest: Vec<Resources>,
    /// For each pool, whether its types meet its `minValues`.
    min_values_met: Vec<bool>,
    /// For each pool, the zones in which its types are offered; computed on demand.
    zones: Vec<OnceCell<BTreeSet<Zone>>>,
    /// Whether some DaemonSet may run on some launch options only.
    daemons_vary: bool,
}

impl<'i> MachineTrials<'i> {
    pub(crate) fn new(input: &'i PlanningInput) -> Self {
        // Pools with one catalogue share the result; the input keeps the catalogue alive, so its
        // address identifies it.
        let mut known: FxHashMap<*const Catalogue, Resources> = FxHashMap::default();
        let largest = |pool: &NodePool| {
            let found = known.entry(Arc::as_ptr(&pool.catalogue)).or_insert_with(|| {
                let mut most = Resources::new();
                pool.catalogue.types.iter().for_each(|kind| most.raise_to(&kind.allocatable));
                most
            });
            found.clone()
        };
        let chooses = |shape: &PodShape| !shape.node_selector.is_empty() || !shape.node_affinity.is_empty();
        let daemons_vary = input.daemons.iter().any(|daemon| chooses(&input.shapes[daemon.shape as usize]));
        Self {
            input,
            largest: input.pools.iter().map(largest).collect(),
            min_values_met: input
                .pools
                .iter()
                .map(|pool| meets_min_values(input, pool, pool.catalogue.types.iter()))
                .collect(),
            zones: input.pools.iter().map(|_| OnceCell::new()).collect(),
            daemons_vary,
        }
    }

    /// The zones in which types of pool `at` are offered.
    pub(crate) fn zones_of(&self, at: u32) -> impl Iterator<Item = &Zone> {
        let pool = &self.input.pools[at as usize];
        let allowed = |zone: &&Zone| pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(zone));
        let zones = || {
            let offerings = pool.catalogue.types.iter().flat_map(|kind| &kind.offerings);
            let zones: BTreeSet<&Zone> = offerings.map(|offering| &offering.zone).collect();
            zones.into_iter().filter(allowed).cloned().collect()
        };
        self.zones[at as usize].get_or_init(zones).iter()
    }

    /// Options and zones that `node` may be narrowed to, each option large enough for its pods: all
    /// of them, and those of each zone; or, with `narrow`, the cheapest few of each zone, and each
    /// one alone. Widest first.
    pub(crate) fn narrowings(&self, node: &PlannedNode, narrow: bool) -> Vec<(Vec<u32>, Vec<Zone>)> {
        let pool = &self.input.pools[node.pool as usize];
        let requested = self.requests_of(node);
        let holds =
            |kind: &u32| pool.catalogue.types.get(*kind as usize).is_some_and(|kind| requested.fits(&kind.allocatable));
        let roomy: Vec<u32> = node.types.iter().copied().filter(holds).collect();
        if roomy.is_empty() {
            return Vec::new();
        }
        let offered_in = |zone: &Zone| -> Vec<u32> {
            let offered = |kind: &u32| cheapest(pool, *kind, node, std::slice::from_ref(zone)).is_some();
            let offered = roomy.iter().copied().filter(offered).collect();
            ordinary(pool, self.with_capacity_for_daemons(node, &requested, zone, offered))
        };
        let zones: Vec<(&Zone, Vec<u32>)> = node.zones.iter().map(|zone| (zone, offered_in(zone))).collect();
        let roomy: Vec<u32> =
            roomy.iter().copied().filter(|kind| zones.iter().any(|(_, here)| here.contains(kind))).collect();
        let roomy = ordinary(pool, roomy);
        // Widest first: it leaves the launch the most options.
        if !narrow {
            let each =
                zones.iter().filter(|_| zones.len() > 1).map(|(zone, here)| (here.clone(), vec![(*zone).clone()]));
            return [(roomy, node.zones.to_vec())].into_iter().chain(each).collect();
        }
        let mut ways = Vec::new();
        for (zone, here) in &zones {
            let counts = fewer_than(here.len()).into_iter();
            ways.extend(counts.map(|count| (here[..count].to_vec(), vec![(*zone).clone()])));
        }
        for (zone, here) in &zones {
            ways.extend(here.iter().skip(1).take(FEW_OPTIONS).map(|kind| (vec![*kind], vec![(*zone).clone()])));
        }
        ways
    }

    /// Those of `kinds` that hold, in `zone`, `requested` and the requests of DaemonSets.
    pub(crate) fn with_capacity_for_daemons(
        &self,
        node: &PlannedNode,
        requested: &Resources,
        zone: &Zone,
        kinds: Vec<u32>,
    ) -> Vec<u32> {
        if !self.daemons_vary {
            return kinds;
        }
        let pool = &self.input.pools[node.pool as usize];
        let zones: Arc<[Zone]> = [zone.clone()].into();
        let single = |kind: &u32| PlannedNode { types: [*kind].into(), zones: zones.clone(), ..node.clone() };
        let daemons = daemon_requests(self.input, kinds.iter().map(single).collect());
        let holds = |(kind, daemons): &(u32, Resources)| {
            let mut all = requested.clone();
            all.add(daemons);
            all.fits(&pool.catalogue.types[*kind as usize].allocatable)
        };
        kinds.into_iter().zip(daemons).filter(holds).map(|(kind, _)| kind).collect()
    }

    /// Whether the first launch option of `node` holds its pods and DaemonSets, each does if they run on all
    /// options, and the options meet the `minValues` of its pool.
    pub(crate) fn may_launch(&self, node: &PlannedNode) -> bool {
        let pool = &self.input.pools[node.pool as usize];
        let options = || node.types.iter().filter_map(|kind| pool.catalogue.types.get(*kind as usize));
        let mut alike = options().take(if self.daemons_vary { 1 } else { node.types.len() });
        alike.all(|kind| node.requests.fits(&kind.allocatable)) && meets_min_values(self.input, pool, options())
    }

    /// Requests of the pods of `node`.
    pub(crate) fn requests_of(&self, node: &PlannedNode) -> Resources {
        let mut requested = Resources::new();
        for pod in &node.pods {
            requested.add(&self.input.shapes[self.input.pods[*pod as usize].shape as usize].requests);
        }
        requested
    }

    /// `node` with these options from the one of least cost on, by price, in those of `zones` that offer them; `None` when
    /// none does.
    pub(crate) fn narrow(&self, node: &PlannedNode, types: &[u32], zones: &[Zone]) -> Option<PlannedNode> {
        let pool = &self.input.pools[node.pool as usize];
        let priced = |kind: &u32| cheapest(pool, *kind, node, zones).map(|(price, zone)| (price, *kind, zone));
        let mut ranked: Vec<(MicroUsd, u32, Zone)> = types.iter().filter_map(priced).collect();
        ranked.sort();
        let cpu = most_cpu(self.input, pool, &node.pods);
        let cost = |(price, kind, _): &(MicroUsd, u32, Zone)| {
            price.0.saturating_add(surplus_credits(pool, &pool.catalogue.types[*kind as usize], cpu).0)
        };
        // The first has the least price and credits; EC2 would prefer an option of a lower price.
        let first = ranked.iter().enumerate().min_by_key(|(place, option)| (cost(option), *place))?.0;
        ranked.drain(..first);
        ranked.truncate(MAX_OPTIONS);
        let (price, _, first) = ranked.first()?.clone();
        let offered = |zone: &&Zone| {
            ranked.iter().any(|(_, kind, _)| cheapest(pool, *kind, node, std::slice::from_ref(zone)).is_some())
        };
        let mut others: Vec<Zone> = zones.iter().filter(|zone| **zone != first).filter(offered).cloned().collect();
        others.sort();
        let zones: Arc<[Zone]> = [first].into_iter().chain(others).collect();
        let machines: Vec<&InstanceType> =
            ranked.iter().map(|(_, kind, _)| &pool.catalogue.types[*kind as usize]).collect();
        let mut labels = (*node.labels).clone();
        if let [only] = &*zones {
            labels.insert(ZONE.into(), only.as_text().clone());
        }
        labels.extend(common_labels(&machines));
        let types = ranked.iter().map(|(_, kind, _)| *kind).collect();
        let mut narrowed = PlannedNode { zones, types, price, labels: Arc::new(labels), ..node.clone() };
        narrowed.requests = self.requests_of(node);
        daemon_requests(self.input, vec![narrowed.clone()]).iter().for_each(|daemons| narrowed.requests.add(daemons));
        narrowed.credits = surplus_credits(pool, machines.first()?, narrowed.requests.get(CPU));
        Some(narrowed)
    }

    /// Pools that may launch machines for pods of `shape`, by index, in order; and the number of
    /// types and nodes that a trial then evaluates.
    pub(crate) fn pools_for(&self, shape: &PodShape) -> Vec<(u32, usize)> {
        let wanted = alternatives(shape);
        let usable = |at: usize, pool: &NodePool| {
            pool.not_ready.is_none()
                && pool.replicas.is_none()
                && self.min_values_met[at]
                && shape.requests.fits(&self.largest[at])
                && first_untolerated(&pool.taints, &shape.tolerations).is_none()
                && matches_known_labels(shape, &pool.labels)
                && self.defines_requested_labels(pool, shape)
                && self.offers_in_allowed_zone(at, &wanted)
        };
        let looks = |pool: &NodePool| {
            let nodes = if pool.limits.is_empty() { 0 } else { self.input.nodes.len() };
            pool.catalogue.types.len() + nodes
        };
        let pools = self.input.pools.iter().enumerate().filter(|(at, pool)| usable(*at, pool));
        let mut ranked: Vec<_> = pools.map(|(at, pool)| ((pool.unhealthy, -pool.weight, at), looks(pool))).collect();
        ranked.sort_unstable();
        ranked.into_iter().filter_map(|((_, _, at), looks)| Some((u32::try_from(at).ok()?, looks))).collect()
    }

    /// Whether the pool, or one of its types, defines each well-known label that the pod requires,
    /// and the other labels of its node selector. The check accepts well-known labels that nothing
    /// defines, because a Node may turn out to have them; no machine is launched for that.
    pub(crate) fn defines_requested_labels(&self, pool: &NodePool, shape: &PodShape) -> bool {
        let has = |key: &Text| {
            [ZONE, CAPACITY_TYPE, NODEPOOL, NODECLASS].contains(&key.as_ref())
                || pool.labels.contains_key(key)
                || pool.requirements.get(key).is_some()
                || pool.catalogue.offering_keys.contains(key)
                || pool.catalogue.types.iter().any(|kind| kind.labels.get(key).is_some())
        };
        let known = &self.input.policy.well_known_labels;
        let expressions = shape.node_affinity.iter().flat_map(|term| term.expressions.iter());
        let requested = expressions.filter(|expression| !expression.allows_absence()).map(Requirement::key);
        let of_machines = |key: &Text| [HOSTNAME, REGISTERED, INITIALIZED, ARCH, INSTANCE_TYPE].contains(&key.as_ref());
        shape.node_selector.keys().all(|key| (of_machines(key) && !known.contains(key)) || has(key))
            && requested.filter(|key| known.contains(*key)).all(has)
    }

    /// Whether pool `at` has an offering in a zone that one of the alternatives `wanted` allows.
    fn offers_in_allowed_zone(&self, at: usize, wanted: &[Requirements]) -> bool {
        let allows = |zones: Option<&Requirement>| {
            let Some((zones, at)) = zones.zip(u32::try_from(at).ok()) else { return true };
            self.zones_of(at).any(|zone| zones.has(zone))
        };
        wanted.iter().any(|wanted| allows(wanted.get(ZONE)))
    }

    /// One new machine of pool `at` for `pod` alone per purchase option, in order, with all the
    /// options that could carry it and hold `requests`.
    pub(crate) fn new_machines(&self, plan: &Plan, at: u32, pod: u32, requests: &Resources) -> Vec<PlannedNode> {
        let pool = &self.input.pools[at as usize];
        let shape = &self.input.shapes[self.input.pods[pod as usize].shape as usize];
        let left = self.limits_left(plan, at, pool);
        let wanted = alternatives(shape);
        let is_suitable = |kind: &InstanceType| {
            requests.fits(&kind.allocatable)
                && left
                    .iter()
                    .all(|(name, left)| (if name.as_ref() == NODES { 1 } else { kind.capacity.get(name) }) <= left)
                && kind.labels.first_conflict(&pool.requirements).is_none()
                && pool.rules.max_node_vcpu.is_none_or(|most| kind.capacity.get(CPU) <= most.saturating_mul(1000))
                && wanted.iter().any(|wanted| kind.labels.first_conflict(wanted).is_none())
        };
        let kinds: Vec<u32> =
            (0..).zip(&pool.catalogue.types).filter(|(_, kind)| is_suitable(kind)).map(|(at, _)| at).collect();
        let held = kinds.iter().map(|kind| &pool.catalogue.types[*kind as usize]);
        if kinds.is_empty() || !meets_min_values(self.input, pool, held) {
            return Vec::new();
        }
        let offerings = || {
            kinds.iter().flat_map(|kind| {
                let kind = &pool.catalogue.types[*kind as usize];
                kind.offerings.iter().filter(move |offering| is_offered(pool, kind, offering))
            })
        };
        // A launch uses one capacity type and one reservation: one machine for each of them.
        let ways: BTreeSet<(CapacityType, Option<Text>)> = offerings().map(purchase_option).collect();
        let zones: BTreeSet<&Zone> = offerings().map(|offering| &offering.zone).collect();
        let name = next_name(self.input, plan, (at, pool));
        let machine = |(capacity_type, reservation): (CapacityType, Option<Text>)| {
            let mut machine = PlannedNode {
                name: name.clone(),
                pool: at,
                capacity_type,
                zones: zones.iter().map(|zone| (*zone).clone()).collect(),
                types: Arc::default(),
                price: MicroUsd(0),
                credits: MicroUsd(0),
                reservation,
                pods: vec![pod],
                labels: Arc::new(labels_of(pool, shape, capacity_type)),
                taints: pool.taints.clone().into(),
                requests: Resources::new(),
            };
            let price = |kind: &u32| cheapest(pool, *kind, &machine, &machine.zones).map(|(price, _)| (price, *kind));
            let mut ranked: Vec<(MicroUsd, u32)> = kinds.iter().filter_map(price).collect();
            ranked.sort_unstable();
            machine.types = ranked.into_iter().map(|(_, kind)| kind).collect();
            machine
        };
        ways.into_iter().map(machine).filter(|machine| !machine.types.is_empty()).collect()
    }

    /// The limits of `pool` left for one more machine.
    fn limits_left(&self, plan: &Plan, at: u32, pool: &NodePool) -> Resources {
        let mut left = pool.limits.clone();
        if left.is_empty() {
            return left;
        }
        let one = Resources::from_iter([(NODES, 1)]);
        let mut take = |amounts: &dyn Fn(&str) -> i64| {
            let taken = pool.limits.iter().map(|(name, _)| (name.clone(), amounts(name) + one.get(name)));
            left.subtract(&taken.collect());
        };
        active_nodes(self.input, pool).for_each(|node| take(&|name| node.capacity.get(name)));
        for node in plan.nodes.iter().filter(|node| node.pool == at) {
            let kinds = || node.types.iter().filter_map(|kind| pool.catalogue.types.get(*kind as usize));
            take(&|name| kinds().map(|kind| kind.capacity.get(name)).max().unwrap_or(0));
        }
        left
    }
}

/// Whether `kinds` meet the `minValues` of `pool`.
pub(crate) fn meets_min_values<'k>(
    input: &PlanningInput,
    pool: &NodePool,
    kinds: impl Iterator<Item = &'k InstanceType> + Clone,
) -> bool {
    unmet_min_values(input.policy.min_values, &pool.requirements, kinds).next().is_none()
}

/// `kinds` without exotic types, unless there are no others or `minValues` may need them.
pub(crate) fn ordinary(pool: &NodePool, mut kinds: Vec<u32>) -> Vec<u32> {
    let exotic = |kind: &u32| pool.catalogue.types.get(*kind as usize).is_none_or(|kind| kind.exotic);
    let flexible = pool.requirements.iter().any(|requirement| requirement.min_values().is_some());
    if !flexible && !kinds.iter().all(exotic) {
        kinds.retain(|kind| !exotic(kind));
    }
    kinds
}

/// Numbers of options below `count`, largest first: each of them, or successive halves where there
/// are many.
fn fewer_than(count: usize) -> Vec<usize> {
    if count <= FEW_OPTIONS {
        return (1..count).rev().collect();
    }
    std::iter::successors(Some(count / 2), |count| Some(count / 2)).take_while(|count| *count > 0).collect()
}

fn purchase_option(offering: &Offering) -> (CapacityType, Option<Text>) {
    (offering.capacity_type, offering.reservation.as_ref().map(|reservation| reservation.id.clone()))
}

/// The least price of type `kind` in `zones` under the purchase option of `like`, and its zone.
pub(crate) fn cheapest(pool: &NodePool, kind: u32, like: &PlannedNode, zones: &[Zone]) -> Option<(MicroUsd, Zone)> {
    let kind = pool.catalogue.types.get(kind as usize)?;
    let same = |offering: &&Offering| {
        purchase_option(offering) == (like.capacity_type, like.reservation.clone())
            && zones.contains(&offering.zone)
            && is_offered(pool, kind, offering)
    };
    kind.offerings.iter().filter(same).map(|offering| (offering.price, offering.zone.clone())).min()
}

pub(crate) fn is_offered(pool: &NodePool, kind: &InstanceType, offering: &Offering) -> bool {
    let allows = |key: &str, value: &str| pool.requirements.get(key).is_none_or(|requirement| requirement.has(value));
    let (price, millicores) = (i128::from(offering.price.0), i128::from(kind.capacity.get(CPU)));
    offering.available
        && allows(ZONE, &offering.zone)
        && allows(CAPACITY_TYPE, offering.capacity_type.as_str())
        && pool.rules.max_node_price.is_none_or(|most| price <= i128::from(most.0))
        && pool.rules.max_price_per_vcpu.is_none_or(|most| price * 1000 <= i128::from(most.0) * millicores)
}

/// Whether no label of `labels` contradicts the pod's node selector.
pub(crate) fn matches_known_labels(shape: &PodShape, labels: &Labels) -> bool {
    shape.node_selector.iter().all(|(key, value)| labels.get(key).is_none_or(|known| known == value))
}

/// The node selector of a pod as requirements.
fn selected(shape: &PodShape) -> Requirements {
    shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect()
}

/// The node selector of a pod with each term of its required node affinity, contradictions left
/// out.
pub(crate) fn alternatives(shape: &PodShape) -> Vec<Requirements> {
    let selected = selected(shape);
    if shape.node_affinity.is_empty() {
        return vec![selected];
    }
    let with = |term: &NodeSelectorTerm| {
        let mut wanted = selected.clone();
        term.expressions.iter().for_each(|expression| wanted.add(expression.clone()));
        wanted
    };
    shape.node_affinity.iter().map(with).filter(|wanted| !wanted.is_impossible()).collect()
}

/// Labels of every machine of `pool`, with the pod's values for those that the pool leaves open.
pub(crate) fn labels_of(pool: &NodePool, shape: &PodShape, capacity_type: CapacityType) -> Labels {
    let mut labels = pool.labels.clone();
    labels.insert(NODEPOOL.into(), pool.name.as_text().clone());
    labels.insert(NODECLASS.into(), pool.node_class.clone());
    labels.insert(CAPACITY_TYPE.into(), capacity_type.as_str().into());
    let mut wanted = selected(shape);
    if let Some(term) = shape.node_affinity.first() {
        term.expressions.iter().for_each(|expression| wanted.add(expression.clone()));
    }
    let defined = |key: &Text| {
        key.as_ref() == ZONE
            || pool.catalogue.offering_keys.contains(key)
            || pool.catalogue.types.iter().any(|kind| kind.labels.get(key).is_some())
    };
    for open in pool.requirements.iter().filter(|open| !open.allows_absence() && !defined(open.key())) {
        let both = wanted.get(open.key()).map_or_else(|| open.clone(), |wanted| open.intersection(wanted));
        if let Some(value) = both.representative() {
            labels.entry(open.key().clone()).or_insert(value);
        }
    }
    labels
}

/// Single-valued labels common to all these types.
fn common_labels(kinds: &[&InstanceType]) -> Labels {
    let Some((first, others)) = kinds.split_first() else { return Labels::new() };
    let single = |known: &Requirement| {
        let values = known.finite_values().filter(|values| values.len() == 1)?;
        let shared =
            others.iter().all(|kind| kind.labels.get(known.key()).and_then(Requirement::finite_values) == Some(values));
        values.first().filter(|_| shared).map(|value| (known.key().clone(), value.clone()))
    };
    first.labels.iter().filter_map(single).collect()
}

/// The first machine name for `pool` that neither the input nor the plan uses.
fn next_name(input: &PlanningInput, plan: &Plan, (at, pool): (u32, &NodePool)) -> NodeName {
    let planned = plan.nodes.iter().chain(&plan.static_nodes).map(|node| &node.name);
    let taken: BTreeSet<&NodeName> = planned.chain(input.nodes.iter().map(|node| &node.name)).collect();
    let first = 1 + plan.nodes.iter().filter(|node| node.pool == at).count();
    let names = (first..).map(|number| NodeName::from(format!("{}-{number}", pool.name)));
    names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}
