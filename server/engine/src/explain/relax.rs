//! What would have to give way: constraints are taken out one by one, and the pod is really tried again without them.

use std::collections::BTreeSet;

use crate::model::resources::{ATTACHABLE_VOLUMES_PREFIX, NODES, PODS};
use crate::model::taints::first_barring;
use crate::model::{HostPort, NotReady, PodAffinityTerm, Requirement, Text};

use super::ask::{Ask, Waiver};
use super::launch::{Blocked, Launch, launches, nearest_type};
use super::reason::over;
use super::standing::{node_refuses, planned_rooms};
use super::topology::{Barrier, Topology};
use super::wording::{amount, and, bars, duration, needed, selector, taint};
use super::world::World;

/// Pairs are tried only as long as there are no more candidates than this; 66 trials at most.
const MOST_IN_PAIRS: usize = 12;
/// Sentences that are told for one pod.
const MOST_SENTENCES: usize = 8;

/// One thing that could give way. The order is that of the sentences: what the pod's owner can change comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relaxation {
    /// An entry of the node selector.
    Selector(Text),
    /// What required node affinity says about a label.
    Affinity(Text),
    /// `matchFields`.
    Names,
    /// Tolerate the taints of a pool.
    Tolerate(u32),
    /// Less of a resource.
    Amount(Text),
    /// Where volumes are.
    VolumePlace,
    /// How many volumes.
    Attachments,
    /// A host port.
    Port(HostPort),
    /// A spread constraint, by its place in the shape.
    Spread(usize),
    /// A required affinity term.
    PodAffinity(PodAffinityTerm),
    /// A required anti-affinity term.
    PodAntiAffinity(PodAffinityTerm),
    /// A rule that is not the pod's own.
    Waive(Waiver),
}

/// Whether `ask` would find a place on top of the finished plan.
pub(super) fn fits(world: &World<'_>, ask: &Ask<'_>) -> bool {
    if ask.volumes.blocked.is_some() {
        return false;
    }
    let topology = Topology::of(world, ask);
    let mut nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let mut planned = 0..u32::try_from(world.plan.nodes.len()).unwrap_or(u32::MAX);
    let requests = &ask.shape.requests;
    world.open_pools().any(|(pool, _)| launches(world, ask, &topology, pool).is_ok())
        || nodes.any(|at| requests.fits(world.room(at)) && node_refuses(world, ask, &topology, at).is_none())
        || planned.any(|at| {
            requests.fits(world.most_room(at))
                && planned_rooms(world, ask, &topology, at).iter().any(|room| requests.fits(room))
        })
}

/// The smallest relaxations that make `ask` fit, as sentences; none when neither one nor two of them suffice.
pub(super) fn fits_if(world: &World<'_>, ask: &Ask<'_>) -> Vec<String> {
    let singles = candidates(world, ask);
    let mut sentences = Vec::new();
    for one in &singles {
        let Some(relaxed) = one.apply(world, ask) else { continue };
        if fits(world, &relaxed) {
            sentences.extend(one.sentence(world, ask).map(|what| format!("fits if {what}")));
        }
    }
    if sentences.is_empty() && singles.len() <= MOST_IN_PAIRS {
        sentences = pairs(world, ask, &singles);
    }
    sentences.truncate(MOST_SENTENCES);
    sentences
}

/// What stands behind the first obstacle is known only once that is out of the way, so the second candidate is looked for
/// with the first one applied.
fn pairs(world: &World<'_>, ask: &Ask<'_>, singles: &BTreeSet<Relaxation>) -> Vec<String> {
    let mut tried = BTreeSet::new();
    let mut sentences = Vec::new();
    for one in singles {
        let Some(without_one) = one.apply(world, ask) else { continue };
        for other in candidates(world, &without_one) {
            let pair = if *one < other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
            if tried.len() >= MOST_IN_PAIRS * MOST_IN_PAIRS || !tried.insert(pair.clone()) {
                continue;
            }
            let Some(without_both) = other.apply(world, &without_one) else { continue };
            if !fits(world, &without_both) {
                continue;
            }
            let Some(without_second) = pair.1.apply(world, ask) else { continue };
            let Some(without_first) = pair.0.apply(world, ask) else { continue };
            let said = [pair.0.sentence(world, &without_second), pair.1.sentence(world, &without_first)];
            if let [Some(first), Some(second)] = said {
                sentences.push(format!("fits if {first} and {second}"));
            }
        }
        if sentences.len() >= MOST_SENTENCES {
            break;
        }
    }
    sentences
}

/// What could be relaxed, judged by what bars the pod from each pool.
fn candidates(world: &World<'_>, ask: &Ask<'_>) -> BTreeSet<Relaxation> {
    let topology = Topology::of(world, ask);
    let mut all = BTreeSet::new();
    for (pool, _) in world.open_pools() {
        if let Err(blocked) = launches(world, ask, &topology, pool) {
            suited(world, ask, &topology, pool, &blocked, &mut all);
        }
    }
    // Without a pool, room on existing nodes is all there is.
    if world.open_pools().next().is_none() {
        own_labels(ask, &mut all);
        let amounts = ask.shape.requests.iter().filter(|(name, amount)| name.as_ref() != PODS && *amount > 0);
        all.extend(amounts.map(|(name, _)| Relaxation::Amount(name.clone())));
        let hard = |at: &usize| ask.shape.spread[*at].hard;
        all.extend((0..ask.shape.spread.len()).filter(hard).map(Relaxation::Spread));
        all.extend(ask.shape.pod_affinity.iter().cloned().map(Relaxation::PodAffinity));
        all.extend(ask.shape.pod_anti_affinity.iter().cloned().map(Relaxation::PodAntiAffinity));
    }
    all
}

fn own_labels(ask: &Ask<'_>, into: &mut BTreeSet<Relaxation>) {
    into.extend(ask.shape.node_selector.keys().cloned().map(Relaxation::Selector));
    let terms = &ask.shape.node_affinity;
    into.extend(terms.iter().flat_map(|term| &term.expressions).map(|e| Relaxation::Affinity(e.key().clone())));
    if terms.iter().any(|term| !term.names.is_empty()) {
        into.insert(Relaxation::Names);
    }
    if !ask.volumes.any_of.is_empty() {
        into.insert(Relaxation::VolumePlace);
    }
}

fn suited(
    world: &World<'_>,
    ask: &Ask<'_>,
    topology: &Topology,
    pool: u32,
    blocked: &Blocked,
    into: &mut BTreeSet<Relaxation>,
) {
    let waive = Relaxation::Waive;
    match blocked {
        Blocked::NotReady(_) => drop(into.insert(waive(Waiver::Ready(pool)))),
        Blocked::Taint(_) => drop(into.insert(Relaxation::Tolerate(pool))),
        Blocked::Label(wanted) => {
            own_labels(ask, into);
            into.insert(waive(Waiver::Label(pool, wanted.key().clone())));
        }
        Blocked::NoTerm | Blocked::Contradiction(_) | Blocked::Named(_) => own_labels(ask, into),
        Blocked::Types(merged) => {
            own_labels(ask, into);
            let base = &world.pools[pool as usize].base;
            let narrowed = merged.iter().filter(|r| base.get(r.key()).is_some_and(|ours| ours != *r));
            into.extend(narrowed.map(|r| waive(Waiver::Label(pool, r.key().clone()))));
        }
        Blocked::Volume(_) => own_labels(ask, into),
        Blocked::Attach(_) => drop(into.insert(Relaxation::Attachments)),
        Blocked::Room { types, capped } => {
            own_labels(ask, into);
            let short = nearest_type(world, ask, pool, types).map(|(_, short)| short).unwrap_or_default();
            into.extend(short.into_iter().map(|(name, _)| Relaxation::Amount(name)));
            if *capped {
                into.insert(waive(Waiver::Ceilings(pool)));
            }
        }
        Blocked::Port(..) => into.extend(ask.shape.host_ports.iter().cloned().map(Relaxation::Port)),
        Blocked::Offering { .. } => {
            own_labels(ask, into);
            let rules = [Waiver::Ceilings(pool), Waiver::SpotWait(pool), Waiver::Stock(pool)];
            into.extend(rules.map(waive));
        }
        Blocked::SpotShare => {
            own_labels(ask, into);
            into.insert(waive(Waiver::SpotShare(pool)));
        }
        Blocked::MinValues { .. } => {
            own_labels(ask, into);
            into.insert(waive(Waiver::MinValues(pool)));
        }
        Blocked::NodeLimit => drop(into.insert(waive(Waiver::Limits(pool)))),
        Blocked::Limits(_) => {
            into.insert(waive(Waiver::Limits(pool)));
            let amounts = ask.shape.requests.iter().filter(|(name, amount)| name.as_ref() != PODS && *amount > 0);
            into.extend(amounts.map(|(name, _)| Relaxation::Amount(name.clone())));
        }
        Blocked::Topology(barrier, _) => {
            own_labels(ask, into);
            into.insert(match barrier {
                Barrier::Spread(at) => Relaxation::Spread(topology.spread[*at].index),
                Barrier::Affinity(at) => {
                    Relaxation::PodAffinity(ask.shape.pod_affinity[topology.affinity[*at].index].clone())
                }
                Barrier::AntiAffinity(at) => {
                    Relaxation::PodAntiAffinity(ask.shape.pod_anti_affinity[topology.anti[*at].index].clone())
                }
                Barrier::Foe => waive(Waiver::ForeignAntiAffinity),
            });
        }
    }
}

impl Relaxation {
    /// `ask` without it; `None` when nothing would change.
    fn apply<'a>(&self, world: &World<'_>, ask: &Ask<'a>) -> Option<Ask<'a>> {
        let mut relaxed = ask.clone();
        let shape = &mut relaxed.shape;
        match self {
            Self::Selector(key) => drop(shape.node_selector.remove(key)?),
            Self::Affinity(key) => {
                for term in &mut shape.node_affinity {
                    term.expressions.retain(|expression| expression.key() != key);
                }
                // A term that has nothing left to ask for is met by every node.
                if shape.node_affinity.iter().any(|term| term.expressions.is_empty() && term.names.is_empty()) {
                    shape.node_affinity.clear();
                }
            }
            Self::Names => {
                shape.node_affinity.iter_mut().for_each(|term| term.names.clear());
                if shape.node_affinity.iter().any(|term| term.expressions.is_empty()) {
                    shape.node_affinity.clear();
                }
            }
            Self::Tolerate(pool) => {
                let taints = &world.input.pools[*pool as usize].taints;
                taints.iter().filter(|taint| bars(taint.effect)).for_each(|taint| relaxed.tolerate(taint));
            }
            Self::Amount(name) => shape.requests.set(name.clone(), 0),
            Self::VolumePlace => relaxed.volumes.any_of.clear(),
            Self::Attachments => relaxed.volumes.attachments.clear(),
            Self::Port(port) => shape.host_ports.retain(|own| own != port),
            Self::Spread(at) => shape.spread.get_mut(*at)?.hard = false,
            Self::PodAffinity(term) => shape.pod_affinity.retain(|own| own != term),
            Self::PodAntiAffinity(term) => shape.pod_anti_affinity.retain(|own| own != term),
            Self::Waive(waiver) => drop(relaxed.waived.insert(waiver.clone())),
        }
        (relaxed.waived != ask.waived || relaxed.shape != ask.shape || relaxed.volumes != ask.volumes)
            .then_some(relaxed)
    }

    /// What has to change, exactly, for `ask` to fit; everything else that gives way is applied to `ask` already.
    fn sentence(&self, world: &World<'_>, ask: &Ask<'_>) -> Option<String> {
        let shape = &ask.shape;
        Some(match self {
            Self::Selector(key) => format!("nodeSelector {key}={} is dropped", shape.node_selector.get(key)?),
            Self::Affinity(key) => format!("required node affinity on {key} is dropped"),
            Self::Names => "required node affinity on metadata.name is dropped".to_owned(),
            Self::Tolerate(pool) => tolerate(world, ask, *pool),
            Self::Amount(name) => less(world, ask, name)?,
            Self::VolumePlace => "its volumes are not bound to their zone or node".to_owned(),
            Self::Attachments => fewer_volumes(world, ask)?,
            Self::Port(port) => format!("host port {}/{} is dropped", port.port, port.protocol),
            Self::Spread(at) => wider(world, ask, *at)?,
            Self::PodAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod affinity with {pods} per {} is dropped", term.topology_key)
            }
            Self::PodAntiAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod anti-affinity against {pods} per {} is dropped", term.topology_key)
            }
            Self::Waive(waiver) => waived(world, ask, waiver)?,
        })
    }
}

fn tolerate(world: &World<'_>, ask: &Ask<'_>, pool: u32) -> String {
    let pool = &world.input.pools[pool as usize];
    let barring = |t: &&crate::model::Taint| first_barring(std::slice::from_ref(*t), &ask.shape.tolerations).is_some();
    let taints: Vec<String> = pool.taints.iter().filter(barring).map(taint).collect();
    let noun = if taints.len() == 1 { "taint" } else { "taints" };
    format!("it tolerates {noun} {} of NodePool {}", and(&taints), pool.name)
}

/// The most of `name` that finds room somewhere: a smaller request fits wherever a larger one does, so it can be bisected.
fn less(world: &World<'_>, ask: &Ask<'_>, name: &Text) -> Option<String> {
    let asked = ask.shape.requests.get(name);
    let mut amounts: BTreeSet<i64> = BTreeSet::from([0]);
    for (pool, _) in world.open_pools() {
        amounts.extend(world.freed(pool).iter().map(|freed| freed.room.get(name)));
    }
    amounts.extend((0_u32..).zip(&world.input.nodes).map(|(at, _)| world.room(at).get(name)));
    amounts.extend((0_u32..).zip(&world.plan.nodes).map(|(at, _)| world.most_room(at).get(name)));
    let amounts: Vec<i64> = amounts.into_iter().filter(|amount| (0..asked).contains(amount)).collect();
    let with = |amount: i64| {
        let mut smaller = ask.clone();
        smaller.shape.requests.set(name.clone(), amount);
        fits(world, &smaller)
    };
    let (mut low, mut high) = (0, amounts.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(amounts[middle]) { low = middle } else { high = middle }
    }
    let most = *amounts.get(low)?;
    if most == 0 {
        return with(0).then(|| format!("it asks for no {name}"));
    }
    Some(format!("{name} is at most {}", amount(name, most)))
}

fn fewer_volumes(world: &World<'_>, ask: &Ask<'_>) -> Option<String> {
    let of_types = |name: &str| {
        let types = world.open_pools().flat_map(|(_, pool)| &pool.catalogue.types);
        types.map(|t| t.allocatable.get(name)).max()
    };
    let drivers = ask.drivers();
    let driver = drivers.first()?;
    let most = of_types(&format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}"))?;
    Some(format!("it attaches at most {most} volumes of {driver}"))
}

/// The least `maxSkew` that would do.
fn wider(world: &World<'_>, ask: &Ask<'_>, at: usize) -> Option<String> {
    let constraint = ask.shape.spread.get(at)?;
    let key = &constraint.topology_key;
    let with = |skew: i32| {
        let mut wider = ask.clone();
        wider.shape.spread[at].max_skew = skew;
        fits(world, &wider)
    };
    // More than all pods there are is as good as no constraint.
    let pods = world.input.pods.len() + world.input.nodes.iter().map(|node| node.pods.len()).sum::<usize>();
    let (mut low, mut high) = (constraint.max_skew, i32::try_from(pods).unwrap_or(i32::MAX - 1) + 1);
    if high <= low || !with(high) {
        return Some(format!("its spread over {key} is ScheduleAnyway"));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(middle) { high = middle } else { low = middle }
    }
    Some(format!("maxSkew of its spread over {key} is raised from {} to {high}", constraint.max_skew))
}

fn waived(world: &World<'_>, ask: &Ask<'_>, waiver: &Waiver) -> Option<String> {
    let pool_of = |at: u32| &world.input.pools[at as usize];
    let relaxed = Relaxation::Waive(waiver.clone()).apply(world, ask)?;
    let topology = Topology::of(world, ask);
    let found = |pool: u32| launches(world, &relaxed, &topology, pool).ok();
    let why_not = |pool: u32| launches(world, ask, &topology, pool).err();
    Some(match waiver {
        Waiver::Ready(pool) => match pool_of(*pool).not_ready.as_ref()? {
            NotReady::NodeClass(_) => format!("EC2NodeClass {} becomes ready", pool_of(*pool).node_class),
            NotReady::NodePool(_) => format!("NodePool {} becomes ready", pool_of(*pool).name),
        },
        Waiver::Limits(pool) => raised_limits(world, *pool, &found(*pool)?)?,
        Waiver::MinValues(pool) => {
            let Some(Blocked::MinValues { key, wanted, found }) = why_not(*pool) else { return None };
            format!("minValues of {key} in NodePool {} is lowered from {wanted} to {found}", pool_of(*pool).name)
        }
        Waiver::Ceilings(pool) => higher_ceilings(world, *pool, found(*pool)?.first()?)?,
        Waiver::SpotWait(pool) => {
            let left = super::catalogue::time_left(world, ask, *pool)?;
            format!("it has waited another {} for spot in NodePool {}", duration(left), pool_of(*pool).name)
        }
        Waiver::SpotShare(pool) => {
            format!(
                "NodePool {} may run a larger share on spot (spot-max-percent, on-demand-min-nodes)",
                pool_of(*pool).name
            )
        }
        Waiver::Stock(pool) => {
            let launch = *found(*pool)?.first()?;
            let instance = &pool_of(*pool).catalogue.types[launch.instance as usize];
            let offering = &instance.offerings[launch.offering as usize];
            let kind = offering.capacity_type.as_str();
            format!("{} can be launched in {} ({kind}) again", instance.name, offering.zone)
        }
        Waiver::Label(pool, key) => {
            let wanted: Requirement = ask.alternatives().iter().find_map(|way| way.requirements.get(key).cloned())?;
            format!("NodePool {} has {wanted}", pool_of(*pool).name)
        }
        Waiver::ForeignAntiAffinity => {
            let pod = topology.foes.values().next()?;
            format!("{pod} and its like drop their required pod anti-affinity against it")
        }
    })
}

/// By how much the limits must be raised for the machine that needs least.
fn raised_limits(world: &World<'_>, pool: u32, launches: &[Launch]) -> Option<String> {
    let nodepool = &world.input.pools[pool as usize];
    let cheapest = launches.iter().min_by_key(|launch| (over(world, pool, launch.instance), **launch))?;
    let capacity = &nodepool.catalogue.types[cheapest.instance as usize].capacity;
    let used = &world.pools[pool as usize].used;
    let mut raised = Vec::new();
    if world.left(pool, NODES).is_some_and(|left| left < 1) {
        raised.push(format!("nodes is raised from {} to at least {}", nodepool.limits.get(NODES), used.get(NODES) + 1));
    }
    for (name, _) in super::launch::excess(world, pool, cheapest.instance) {
        let least = used.get(&name) + capacity.get(&name);
        let limit = nodepool.limits.get(&name);
        raised.push(format!("{name} is raised from {} to at least {}", amount(&name, limit), needed(&name, least)));
    }
    (!raised.is_empty()).then(|| format!("NodePool {}'s limit {}", nodepool.name, raised.join(" and its limit ")))
}

fn higher_ceilings(world: &World<'_>, pool: u32, launch: &Launch) -> Option<String> {
    let nodepool = &world.input.pools[pool as usize];
    let rules = &nodepool.rules;
    let millicores = nodepool.catalogue.types[launch.instance as usize].capacity.get(crate::model::resources::CPU);
    let mut raised = Vec::new();
    if rules.max_node_price.is_some_and(|most| launch.price > most) {
        raised.push(format!("max-node-price is raised to at least {}", launch.price));
    }
    let per_vcpu = (launch.price.0 * 1000 + millicores - 1).checked_div(millicores)?;
    if rules.max_price_per_vcpu.is_some_and(|most| per_vcpu > most.0) {
        raised.push(format!("max-price-per-vcpu is raised to at least {}", crate::model::MicroUsd(per_vcpu)));
    }
    let vcpus = (millicores + 999) / 1000;
    if rules.max_node_vcpu.is_some_and(|most| vcpus > most) {
        raised.push(format!("max-node-vcpu is raised to at least {vcpus}"));
    }
    (!raised.is_empty())
        .then(|| format!("fleetwright.dev/{} on NodePool {}", raised.join(" and fleetwright.dev/"), nodepool.name))
}
