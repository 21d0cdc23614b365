//! Cheaper machines for the pods of a running node.
//!
//! A replacement is of the NodePool and in the zone of the node, so that rules between pods that held on the
//! node hold on it. It is launched from one capacity type, spot before on-demand, and each of its launch
//! options costs less than a limit (Karpenter: consolidation, worst launch price).

use std::rc::Rc;
use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL, ZONE};
use model::plan::PlannedNode;
use model::resources::CPU;
use model::taints::first_untolerated;
use model::{
    CapacityType, Catalogue, Labels, MicroUsd, NodeName, NodePool, NodeSelectorTerm, PodShape, Requirements, Resources,
    Text, Toleration, Zone,
};
use rustc_hash::FxHashMap;
use verifier::daemon_requests;
use verifier::kernel::{most_cpu, surplus_credits};

use crate::retry::machines::{
    MachineTrials, alternatives, cheapest, is_offered, labels_of, matches_known_labels, meets_min_values, ordinary,
};

/// With fewer cheaper options than this, one spot node is not replaced by another (Karpenter:
/// spot-to-spot consolidation); with more, the cheapest so many are the options, and further ones where `minValues` needs
/// them.
const MIN_SPOT_OPTIONS: usize = 15;

/// The node to replace, as far as the choice of a machine depends on it.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// Index of its NodePool.
    pub pool: u32,
    /// Its zone.
    pub zone: Zone,
    /// Whether it is spot.
    pub is_spot: bool,
    /// Whether spot may replace spot.
    pub may_replace_spot_by_spot: bool,
    /// What every launch option must cost less than.
    pub below: MicroUsd,
    /// What a launch option may draw from the limits of the NodePool, for the resources that are limited.
    pub limits: Resources,
}

/// Why no machine replaces a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReplacement {
    /// No machine of the NodePool runs the pods.
    NoMachine,
    /// The cheapest machine costs this, which is not less than the limit.
    NotCheaper(MicroUsd),
    /// Cheaper machines do not meet the `minValues` of the NodePool.
    MinValues,
    /// Spot replaces spot only with enough cheaper options; there are so many.
    SpotFlexibility(usize),
}

/// An offering in one zone: price, type.
type Offered = (MicroUsd, u32);

/// The offerings in one zone by capacity type.
type OffersOfZone = Rc<[(CapacityType, Offers)]>;

/// Offerings by price, and for each the most of each resource that it or a cheaper one has.
struct Offers {
    offered: Vec<Offered>,
    most: Vec<Vec<i64>>,
}

impl Offers {
    /// The offerings from the first on that may be large enough: all before it have too little of a resource.
    fn large_enough(&self, requested: &[i64]) -> &[Offered] {
        let lacks = |most: &Vec<i64>| requested.iter().zip(most).any(|(wanted, has)| wanted > has);
        &self.offered[self.most.partition_point(lacks)..]
    }
}

/// Offerings of plain types, by price, that have more of some resource than cheaper ones.
struct PlainSizes {
    offered: Vec<Offered>,
    /// For each, the most of each resource that it or a cheaper one has.
    most: Vec<Vec<i64>>,
}

/// Which types of a pool may run pods of a shape, apart from resources; `None` if all may.
type CompatibleTypes = Option<Rc<[bool]>>;

/// A machine as far as it is known before its type: pool, zone, capacity type. Pods may require each of them.
type Place<'p> = (u32, &'p Zone, CapacityType);

/// The types that may run pods in one place.
#[derive(Default)]
struct CompatibleShapes<'i> {
    by_shape: FxHashMap<u32, CompatibleTypes>,
    /// By what shapes ask of nodes, which many have in common.
    by_needs: FxHashMap<SchedulingConstraints<'i>, CompatibleTypes>,
}

/// Finds replacements.
pub struct ReplacementMachines<'i> {
    input: &'i PlanningInput,
    trials: MachineTrials<'i>,
    /// By pool and zone.
    offers: FxHashMap<(u32, Zone), OffersOfZone>,
    /// By pool, the types that it may launch.
    launched: FxHashMap<u32, Rc<[u32]>>,
    amounts: Amounts,
    /// By pool and zone, the plain sizes for pods that any type may run.
    sizes: FxHashMap<(u32, Zone), Rc<PlainSizes>>,
    /// By pool, zone and capacity type.
    compatible: FxHashMap<(u32, Zone, CapacityType), CompatibleShapes<'i>>,
}

/// What a shape asks of nodes, apart from resources: tolerations, node selector, node affinity.
type SchedulingConstraints<'i> = (&'i [Toleration], &'i Labels, &'i [NodeSelectorTerm]);

impl std::fmt::Debug for ReplacementMachines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplacementMachines").finish_non_exhaustive()
    }
}

impl<'i> ReplacementMachines<'i> {
    /// The machines of the pools of `input`.
    #[must_use]
    pub fn new(input: &'i PlanningInput) -> Self {
        let (trials, amounts) = (MachineTrials::new(input), Amounts::of(input));
        let (offers, launched, sizes) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { input, trials, offers, launched, amounts, sizes, compatible: FxHashMap::default() }
    }

    /// The cheapest machine that runs `pods` of the input instead of `replaced`. Its name is empty.
    ///
    /// # Errors
    /// Why there is none.
    pub fn cheapest(&mut self, replaced: &Replaced, pods: &[u32]) -> Result<PlannedNode, NoReplacement> {
        let pool = &self.input.pools[replaced.pool as usize];
        if pool.not_ready.is_some() || pool.replicas.is_some() {
            return Err(NoReplacement::NoMachine);
        }
        let offers = self.offers_in(replaced.pool, &replaced.zone);
        let requested = self.amounts.requested(self.input, pods);
        let allocatable = self.amounts.allocatable(replaced.pool, &pool.catalogue);
        let has_room = |kind: u32| {
            let capacity = &pool.catalogue.types[kind as usize].capacity;
            let within = |(name, left): (&Text, i64)| capacity.get(name) <= left;
            let has = &allocatable[kind as usize];
            requested.iter().zip(has).all(|(wanted, has)| wanted <= has) && replaced.limits.iter().all(within)
        };
        let mut dearest = None;
        for (capacity_type, offered) in offers.iter() {
            let compatible = self.compatible_with_all((replaced.pool, &replaced.zone, *capacity_type), pods);
            let runs = |(_, kind): &&Offered| has_room(*kind) && is_compatible(&compatible, *kind);
            let mut usable = offered.large_enough(&requested).iter().filter(runs).copied().peekable();
            let Some((price, _)) = usable.peek().copied() else { continue };
            let is_spot_for_spot = replaced.is_spot && *capacity_type == CapacityType::Spot;
            if is_spot_for_spot && !replaced.may_replace_spot_by_spot {
                return Err(NoReplacement::SpotFlexibility(0));
            }
            if price >= replaced.below {
                dearest = dearest.or(Some(price));
                continue;
            }
            // A burstable machine that is dearer with its surplus credits saves nothing.
            let cpu = most_cpu(self.input, pool, pods);
            let credits = |kind: u32| surplus_credits(pool, &pool.catalogue.types[kind as usize], cpu);
            let saves = |(price, kind): &Offered| price.0.saturating_add(credits(*kind).0) < replaced.below.0;
            let below = usable.take_while(|(price, _)| *price < replaced.below);
            let cheaper: Vec<u32> = below.filter(saves).map(|(_, kind)| kind).collect();
            if cheaper.is_empty() {
                dearest = dearest.or(Some(price));
                continue;
            }
            let machine = self.machine(replaced, *capacity_type, pods, cheaper);
            let machine = machine.ok_or(NoReplacement::NoMachine)?;
            return self.with_enough_options(machine, is_spot_for_spot);
        }
        Err(dearest.map_or(NoReplacement::NoMachine, NoReplacement::NotCheaper))
    }

    /// The cheapest two machines that run `pods`, large ones first, instead of `replaced`: whichever of their launch
    /// options launch, they cost less than the limit together. `None` where pods must stay on one host, or limits
    /// would have to be divided.
    pub fn cheapest_two(&mut self, replaced: &Replaced, pods: &[u32]) -> Option<[PlannedNode; 2]> {
        let pool = &self.input.pools[replaced.pool as usize];
        let shape = |pod: &u32| &self.input.shapes[self.input.pods[*pod as usize].shape as usize];
        if !pool.limits.is_empty() || pods.iter().any(|pod| !shape(pod).pod_affinity.is_empty()) {
            return None;
        }
        let sizes = self.plain_sizes(replaced, pods)?;
        let PlainSizes { offered: sizes, most } = &*sizes;
        let allocatable = self.amounts.allocatable(replaced.pool, &pool.catalogue);
        let requested = self.amounts.requested(self.input, pods);
        // The first machine is filled with the largest pods, and the second is the cheapest for the others: of all
        // first ones, that with the least sum.
        let mut best: Option<(MicroUsd, MicroUsd, Vec<u32>, Vec<u32>)> = None;
        for (first, kind) in sizes {
            let least = best.as_ref().map_or(replaced.below.0, |(first, second, _, _)| first.0 + second.0);
            let seconds = &sizes[..sizes.partition_point(|(second, _)| first.0 + second.0 < least)];
            let Some(most) = seconds.len().checked_sub(1).map(|last| &most[last]) else { break };
            let has = &allocatable[*kind as usize];
            // Most pairs are too small for the pods, however these are divided.
            if requested.iter().zip(has).zip(most).any(|((wanted, first), second)| *wanted > first + second) {
                continue;
            }
            let (on_first, others) = self.amounts.fill(self.input, has, pods);
            if on_first.is_empty() || others.is_empty() {
                continue;
            }
            let requested = self.amounts.requested(self.input, &others);
            let runs = |kind: u32| requested.iter().zip(&allocatable[kind as usize]).all(|(wanted, has)| wanted <= has);
            if let Some((second, _)) = seconds.iter().find(|(_, kind)| runs(*kind)) {
                best = Some((*first, *second, on_first, others));
            }
        }
        let (first, second, on_first, others) = best?;
        let slack = ((replaced.below.0 - first.0 - second.0) / 2).max(1);
        let part = |price: MicroUsd| Replaced { below: MicroUsd(price.0 + slack), ..replaced.clone() };
        Some([self.cheapest(&part(first), &on_first).ok()?, self.cheapest(&part(second), &others).ok()?])
    }

    /// What the pool offers for `pods` in the zone of `replaced`, from the first capacity type that has any.
    fn plain_sizes(&mut self, replaced: &Replaced, pods: &[u32]) -> Option<Rc<PlainSizes>> {
        let pool = &self.input.pools[replaced.pool as usize];
        let offers = self.offers_in(replaced.pool, &replaced.zone);
        let mut compatible_with =
            |capacity_type| self.compatible_with_all((replaced.pool, &replaced.zone, capacity_type), pods);
        let compatible: Vec<_> = offers.iter().map(|(capacity_type, _)| compatible_with(*capacity_type)).collect();
        let is_any_compatible = compatible.iter().all(Vec::is_empty);
        let place = (replaced.pool, replaced.zone.clone());
        if let Some(known) = self.sizes.get(&place).filter(|_| is_any_compatible) {
            return Some(known.clone());
        }
        let allocatable = self.amounts.allocatable(replaced.pool, &pool.catalogue);
        let mut by_type = offers.iter().zip(&compatible).map(|((_, offers), compatible)| {
            let may_run = |(_, kind): &&Offered| is_plain(pool, *kind) && is_compatible(compatible, *kind);
            offers.offered.iter().filter(may_run).copied().collect::<Vec<Offered>>()
        });
        let offered = by_type.find(|offered| !offered.is_empty())?;
        let offered = undominated(offered.into_iter(), &allocatable);
        let sizes = Rc::new(PlainSizes { most: largest_up_to(&offered, &allocatable), offered });
        if is_any_compatible {
            self.sizes.insert(place, sizes.clone());
        }
        Some(sizes)
    }

    /// The machine with the options of `cheaper` that run its DaemonSet pods too.
    fn machine(
        &self,
        replaced: &Replaced,
        capacity_type: CapacityType,
        pods: &[u32],
        cheaper: Vec<u32>,
    ) -> Option<PlannedNode> {
        let pool = &self.input.pools[replaced.pool as usize];
        let shape = &self.input.shapes[self.input.pods[*pods.first()? as usize].shape as usize];
        let zones = [replaced.zone.clone()];
        let mut machine = PlannedNode {
            name: NodeName::default(),
            pool: replaced.pool,
            capacity_type,
            zones: zones.clone().into(),
            types: cheaper.clone().into(),
            price: MicroUsd(0),
            credits: MicroUsd(0),
            reservation: None,
            pods: pods.to_vec(),
            labels: Arc::new(labels_of(pool, shape, capacity_type)),
            taints: pool.taints.clone().into(),
            requests: Resources::new(),
        };
        machine.pods.sort_unstable();
        let mut all = self.trials.requests_of(&machine);
        let mut options = self.trials.with_capacity_for_daemons(&machine, &all, &replaced.zone, cheaper);
        machine.types = options.clone().into();
        daemon_requests(self.input, vec![machine.clone()]).iter().for_each(|daemons| all.add(daemons));
        options.retain(|kind| all.fits(&pool.catalogue.types[*kind as usize].allocatable));
        let options = ordinary(pool, options);
        self.trials.narrow(&machine, &options, &zones)
    }

    fn with_enough_options(&self, machine: PlannedNode, is_spot_for_spot: bool) -> Result<PlannedNode, NoReplacement> {
        let pool = &self.input.pools[machine.pool as usize];
        if is_spot_for_spot && machine.types.len() < MIN_SPOT_OPTIONS {
            return Err(NoReplacement::SpotFlexibility(machine.types.len()));
        }
        let suffices = |count: usize| {
            let options = machine.types.iter().take(count);
            meets_min_values(self.input, pool, options.filter_map(|kind| pool.catalogue.types.get(*kind as usize)))
        };
        if !suffices(machine.types.len()) {
            return Err(NoReplacement::MinValues);
        }
        if !is_spot_for_spot {
            return Ok(machine);
        }
        let count = (MIN_SPOT_OPTIONS..machine.types.len()).find(|count| suffices(*count));
        let options = &machine.types[..count.unwrap_or(machine.types.len())];
        let zones = machine.zones.to_vec();
        self.trials.narrow(&machine, options, &zones).ok_or(NoReplacement::NoMachine)
    }

    /// `machine` for other pods of the input, with those of its launch options that run them.
    #[must_use]
    pub fn with_pods(&self, machine: &PlannedNode, pods: Vec<u32>) -> PlannedNode {
        let zones = machine.zones.to_vec();
        let types = machine.types.to_vec();
        let mut machine = PlannedNode { pods, ..machine.clone() };
        let Some(wide) = self.trials.narrow(&machine, &types, &zones) else { return machine };
        let pool = &self.input.pools[wide.pool as usize];
        let runs = |kind: &u32| wide.requests.fits(&pool.catalogue.types[*kind as usize].allocatable);
        let options: Vec<u32> = types.iter().copied().filter(runs).collect();
        if let Some(narrow) = self.trials.narrow(&wide, &options, &zones) {
            machine = narrow;
        }
        machine
    }

    /// `machine` with those of its launch options that cost less than `most`, and the first; `None` if they do not meet
    /// the `minValues` of the NodePool.
    #[must_use]
    pub fn cheaper_than(&self, machine: &PlannedNode, most: MicroUsd) -> Option<PlannedNode> {
        let (pool, zones) = (&self.input.pools[machine.pool as usize], machine.zones.to_vec());
        let dearest = |kind: u32| zones.iter().filter_map(|zone| price_in(pool, kind, machine, zone)).max();
        let others =
            machine.types.iter().copied().skip(1).filter(|kind| dearest(*kind).is_some_and(|price| price < most));
        let options: Vec<u32> = machine.types.iter().copied().take(1).chain(others).collect();
        if options.len() == machine.types.len() {
            return Some(machine.clone());
        }
        let kinds = options.iter().filter_map(|kind| pool.catalogue.types.get(*kind as usize));
        let machine = meets_min_values(self.input, pool, kinds).then_some(machine)?;
        Some(self.trials.narrow(machine, &options, &zones).unwrap_or_else(|| machine.clone()))
    }

    /// What limits the types for `pods` in a place, apart from resources; nothing if all types may run them.
    fn compatible_with_all(&mut self, (at, zone, capacity_type): Place<'_>, pods: &[u32]) -> Vec<Rc<[bool]>> {
        let (input, trials) = (self.input, &self.trials);
        let pool = &input.pools[at as usize];
        let known = self.compatible.entry((at, zone.clone(), capacity_type)).or_default();
        let mut all: Vec<Rc<[bool]>> = Vec::new();
        for pod in pods {
            let number = input.pods[*pod as usize].shape;
            let shape = &input.shapes[number as usize];
            let types = known.types(number, shape, || compatible_types(trials, pool, (zone, capacity_type), shape));
            if let Some(types) = types.filter(|types| !all.iter().any(|known| Rc::ptr_eq(known, types))) {
                all.push(types);
            }
        }
        all
    }

    /// What the pool may launch in `zone`, spot before on-demand. Reservations are left to plans, which count
    /// them together.
    fn offers_in(&mut self, at: u32, zone: &Zone) -> OffersOfZone {
        if let Some(known) = self.offers.get(&(at, zone.clone())) {
            return known.clone();
        }
        let pool = &self.input.pools[at as usize];
        let types = self.launched_by(at);
        let allocatable = self.amounts.allocatable(at, &pool.catalogue);
        let of_type = |capacity_type: CapacityType| {
            let offered = types.iter().flat_map(|at| {
                let kind = &pool.catalogue.types[*at as usize];
                let here = kind.offerings.iter().filter(move |offering| {
                    offering.zone == *zone
                        && offering.capacity_type == capacity_type
                        && is_offered(pool, kind, offering)
                });
                here.map(|offering| offering.price).min().map(|price| (price, *at))
            });
            let mut offered: Vec<Offered> = offered.collect();
            offered.sort_unstable();
            (capacity_type, Offers { most: largest_up_to(&offered, &allocatable), offered })
        };
        let in_order = [CapacityType::Spot, CapacityType::OnDemand].map(of_type);
        let offers: OffersOfZone = Rc::new(in_order);
        self.offers.insert((at, zone.clone()), offers.clone());
        offers
    }

    /// The types that the pool may launch.
    fn launched_by(&mut self, at: u32) -> Rc<[u32]> {
        let pool = &self.input.pools[at as usize];
        let within_size = |kind: &model::InstanceType| {
            pool.rules.max_node_vcpu.is_none_or(|most| kind.capacity.get(CPU) <= most.saturating_mul(1000))
        };
        let types = || {
            let types = (0..).zip(&pool.catalogue.types);
            let may = |kind: &model::InstanceType| {
                kind.labels.first_conflict(&pool.requirements).is_none() && within_size(kind)
            };
            types.filter(|(_, kind)| may(kind)).map(|(at, _)| at).collect()
        };
        self.launched.entry(at).or_insert_with(types).clone()
    }
}

impl<'i> CompatibleShapes<'i> {
    /// The types for pods of the shape with this number, which `find` finds.
    fn types(&mut self, number: u32, shape: &'i PodShape, find: impl FnOnce() -> CompatibleTypes) -> CompatibleTypes {
        let Self { by_shape, by_needs } = self;
        let of_needs = || {
            let PodShape { tolerations, node_selector, node_affinity, .. } = shape;
            let needs = (tolerations.as_slice(), node_selector, node_affinity.as_slice());
            by_needs.entry(needs).or_insert_with(find).clone()
        };
        by_shape.entry(number).or_insert_with(of_needs).clone()
    }
}

/// The types of `pool` that may run pods of `shape` in this zone and with this capacity type, apart from resources.
fn compatible_types(
    trials: &MachineTrials<'_>,
    pool: &NodePool,
    (zone, capacity_type): (&Zone, CapacityType),
    shape: &PodShape,
) -> CompatibleTypes {
    let may_run = first_untolerated(&pool.taints, &shape.tolerations).is_none()
        && matches_known_labels(shape, &pool.labels)
        && trials.defines_requested_labels(pool, shape);
    let allows = |wanted: &Requirements, key: &str, value: &str| {
        wanted.get(key).is_none_or(|requirement| requirement.has(value))
    };
    // Node affinity may pair types with zones or capacity types: an alternative that names others is none here.
    let is_met = |wanted: &Requirements| {
        allows(wanted, ZONE, zone)
            && allows(wanted, CAPACITY_TYPE, capacity_type.as_str())
            && allows(wanted, NODEPOOL, &pool.name)
            && allows(wanted, NODECLASS, &pool.node_class)
            && pool.labels.iter().all(|(key, value)| allows(wanted, key, value))
    };
    let wanted: Vec<Requirements> = alternatives(shape).into_iter().filter(is_met).collect();
    let runs = |kind: &model::InstanceType| {
        may_run && wanted.iter().any(|wanted| kind.labels.first_conflict(wanted).is_none())
    };
    let types: Rc<[bool]> = pool.catalogue.types.iter().map(runs).collect();
    types.contains(&false).then_some(types)
}

/// Requests and allocatable resources as arrays over the resources that pods request.
struct Amounts {
    names: Vec<Text>,
    /// By shape.
    requests: Vec<Vec<i64>>,
    /// By pool and type; computed on demand.
    allocatable: FxHashMap<u32, Rc<[Vec<i64>]>>,
}

impl Amounts {
    fn of(input: &PlanningInput) -> Self {
        let mut names: Vec<Text> = Vec::new();
        for (name, _) in input.shapes.iter().flat_map(|shape| shape.requests.iter()).filter(|(_, amount)| *amount > 0) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let amounts = |resources: &Resources| names.iter().map(|name| resources.get(name)).collect();
        let requests = input.shapes.iter().map(|shape| amounts(&shape.requests)).collect();
        Self { names, requests, allocatable: FxHashMap::default() }
    }

    fn requested(&self, input: &PlanningInput, pods: &[u32]) -> Vec<i64> {
        let mut sum = vec![0; self.names.len()];
        for pod in pods {
            let requests = &self.requests[input.pods[*pod as usize].shape as usize];
            sum.iter_mut().zip(requests).for_each(|(sum, amount)| *sum += amount);
        }
        sum
    }

    /// Those of `pods` that a machine of this size has room for, in their order, and the others.
    fn fill(&self, input: &PlanningInput, allocatable: &[i64], pods: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut left = allocatable.to_vec();
        pods.iter().partition(|pod| {
            let requests = &self.requests[input.pods[**pod as usize].shape as usize];
            let fits = requests.iter().zip(&left).all(|(wanted, left)| wanted <= left);
            if fits {
                left.iter_mut().zip(requests).for_each(|(left, wanted)| *left -= wanted);
            }
            fits
        })
    }

    fn allocatable(&mut self, pool: u32, catalogue: &Catalogue) -> Rc<[Vec<i64>]> {
        let amounts = |resources: &Resources| self.names.iter().map(|name| resources.get(name)).collect();
        let of_types = || catalogue.types.iter().map(|kind| amounts(&kind.allocatable)).collect();
        self.allocatable.entry(pool).or_insert_with(of_types).clone()
    }
}

/// Whether the type is one of all `compatible` ones.
fn is_compatible(compatible: &[Rc<[bool]>], kind: u32) -> bool {
    compatible.iter().all(|types| types[kind as usize])
}

fn price_in(pool: &NodePool, kind: u32, machine: &PlannedNode, zone: &Zone) -> Option<MicroUsd> {
    cheapest(pool, kind, machine, std::slice::from_ref(zone)).map(|(price, _)| price)
}

/// Whether a machine of the type costs its price whatever it runs, and is no exotic one.
fn is_plain(pool: &NodePool, kind: u32) -> bool {
    let kind = &pool.catalogue.types[kind as usize];
    !kind.exotic && (kind.burstable.is_none() || pool.rules.ignores_credits)
}

/// For each of `sizes`, the most of each resource that it or one before it has.
fn largest_up_to(sizes: &[Offered], allocatable: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let mut most: Vec<i64> = Vec::new();
    let mut up_to = |(_, kind): &Offered| {
        let has = &allocatable[*kind as usize];
        most.resize(has.len(), 0);
        most.iter_mut().zip(has).for_each(|(most, has)| *most = (*most).max(*has));
        most.clone()
    };
    sizes.iter().map(&mut up_to).collect()
}

/// Of `offered`, which are sorted by price, those that have more of some resource than every cheaper one.
fn undominated(offered: impl Iterator<Item = Offered>, sizes: &[Vec<i64>]) -> Vec<Offered> {
    let mut kept: Vec<Offered> = Vec::new();
    for (price, kind) in offered {
        let size = &sizes[kind as usize];
        let covers = |(_, other): &Offered| sizes[*other as usize].iter().zip(size).all(|(other, own)| other >= own);
        if !kept.iter().any(covers) {
            kept.push((price, kind));
        }
    }
    kept
}
