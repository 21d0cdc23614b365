//! What would have to give way: constraints are taken out one by one, and the pod is really tried again without them.

mod sentence;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::model::resources::PODS;
use crate::model::{HostPort, PodAffinityTerm, Text};

use super::ask::{Ask, Waiver};
use super::launch::{Blocked, could_launch, launches, nearest_type};
use super::standing::{node_refuses, planned_takes};
use super::topology::{Barrier, Topology};
use super::wording::bars;
use super::world::World;

/// Pairs are tried only as long as there are no more candidates than this for the first of the two.
const MOST_IN_PAIRS: usize = 8;
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
    fits_by(world, ask, &Topology::of(world, ask))
}

/// The same for counts that are made already.
fn fits_by(world: &World<'_>, ask: &Ask<'_>, topology: &Topology) -> bool {
    if ask.volumes.blocked.is_some() {
        return false;
    }
    let mut nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let mut planned = 0..u32::try_from(world.plan.nodes.len()).unwrap_or(u32::MAX);
    let requests = &ask.shape.requests;
    world.open_pools().any(|(pool, _)| could_launch(world, ask, topology, pool))
        || nodes.any(|at| requests.fits(world.room(at)) && node_refuses(world, ask, topology, at).is_none())
        || planned.any(|at| joins_planned(world, ask, topology, at))
}

/// Where `ask` finds a place as it is: what need not be asked again when one pool alone changes.
#[derive(Debug)]
struct Before {
    /// Pools that would launch for it.
    pools: Vec<u32>,
    /// Whether an existing node takes it.
    node: bool,
    /// Pools of which a planned node takes it.
    planned: BTreeSet<u32>,
}

impl Before {
    fn of(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, obstacles: &[(u32, Blocked)]) -> Self {
        let free = |pool: &u32| !obstacles.iter().any(|(of, _)| of == pool);
        let mut nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
        let requests = &ask.shape.requests;
        let mut planned = BTreeSet::new();
        for (at, node) in (0_u32..).zip(&world.plan.nodes) {
            if !planned.contains(&node.pool) && joins_planned(world, ask, topology, at) {
                planned.insert(node.pool);
            }
        }
        Self {
            pools: world.open_pools().map(|(pool, _)| pool).filter(free).collect(),
            node: nodes.any(|at| requests.fits(world.room(at)) && node_refuses(world, ask, topology, at).is_none()),
            planned,
        }
    }

    /// Whether `relaxed`, which differs from the ask in what it waives of `pool` alone, finds a place.
    fn fits_with(&self, world: &World<'_>, relaxed: &Ask<'_>, topology: &Topology, pool: u32) -> bool {
        let mut planned = (0_u32..).zip(&world.plan.nodes).filter(|(_, node)| node.pool == pool);
        self.node
            || self.pools.iter().any(|of| *of != pool)
            || self.planned.iter().any(|of| *of != pool)
            || could_launch(world, relaxed, topology, pool)
            || planned.any(|(at, _)| joins_planned(world, relaxed, topology, at))
    }
}

fn joins_planned(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, at: u32) -> bool {
    ask.shape.requests.fits(world.most_room(at)) && planned_takes(world, ask, topology, at)
}

/// What bars `ask` from each pool that would not launch for it.
pub(super) fn obstacles(world: &World<'_>, ask: &Ask<'_>, topology: &Topology) -> Vec<(u32, Blocked)> {
    let blocked = |pool| Some((pool, launches(world, ask, topology, pool).err()?));
    world.open_pools().filter_map(|(pool, _)| blocked(pool)).collect()
}

/// The smallest relaxations that make `ask` fit, as sentences; none when neither one nor two of them suffice.
pub(super) fn fits_if(
    world: &World<'_>,
    ask: &Ask<'_>,
    topology: &Topology,
    obstacles: &[(u32, Blocked)],
) -> Vec<String> {
    let singles = candidates(world, ask, topology, obstacles);
    let before = OnceCell::new();
    let mut sentences = Vec::new();
    for one in &singles {
        if sentences.len() == MOST_SENTENCES {
            break;
        }
        let Some(relaxed) = one.apply(world, ask) else { continue };
        let fits = match one.only_pool() {
            Some(pool) => before
                .get_or_init(|| Before::of(world, ask, topology, obstacles))
                .fits_with(world, &relaxed, topology, pool),
            None => fits(world, &relaxed),
        };
        if fits {
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
        let topology = Topology::of(world, &without_one);
        let obstacles = obstacles(world, &without_one, &topology);
        let before = OnceCell::new();
        for other in candidates(world, &without_one, &topology, &obstacles) {
            let pair = if *one < other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
            if tried.len() >= MOST_IN_PAIRS * MOST_IN_PAIRS || !tried.insert(pair.clone()) {
                continue;
            }
            let Some(without_both) = other.apply(world, &without_one) else { continue };
            let fits =
                match other.only_pool() {
                    Some(pool) => before
                        .get_or_init(|| Before::of(world, &without_one, &topology, &obstacles))
                        .fits_with(world, &without_both, &topology, pool),
                    None => fits(world, &without_both),
                };
            if !fits {
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
fn candidates(
    world: &World<'_>,
    ask: &Ask<'_>,
    topology: &Topology,
    obstacles: &[(u32, Blocked)],
) -> BTreeSet<Relaxation> {
    let mut all = BTreeSet::new();
    for (pool, blocked) in obstacles {
        suited(world, ask, topology, *pool, blocked, &mut all);
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
    /// The pool that it changes, where it changes nothing else: no count of a topology rule, no other pool, no existing
    /// node.
    fn only_pool(&self) -> Option<u32> {
        match self {
            Self::Waive(
                Waiver::Ready(pool)
                | Waiver::Limits(pool)
                | Waiver::MinValues(pool)
                | Waiver::Ceilings(pool)
                | Waiver::SpotWait(pool)
                | Waiver::SpotShare(pool)
                | Waiver::Stock(pool)
                | Waiver::Label(pool, _),
            ) => Some(*pool),
            _ => None,
        }
    }

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
}
