//! Why pods have no place. Pods that look alike share one explanation, so ten thousand failed replicas cost one.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::input::PlanningInput;
use crate::model::{NodePool, Pod, PodAffinityTerm, Text, Timestamp};
use crate::plan::{Plan, Reason, ReasonCode, Unschedulable};

use super::ask::Ask;
use super::catalogue::{distance, shortage};
use super::launch::Blocked;
use super::reason::{Speaker, code, contradiction, no_term};
use super::relax::{fits_if, obstacles};
use super::standing::{bars_whatever_the_room, topology_refuses};
use super::topology::{Topology, selects_pod};
use super::wording::{amount, and, needed, selector, some};
use super::world::{Resident, World};

/// Kinds of failed pods for which relaxations are tried; trials cost a search of all pools each, and beyond this many kinds
/// nobody reads them one by one. Reasons are given for every kind.
const MOST_RELAXED: usize = 100;
/// A node is worth naming when it misses at most this share of what the pod asks for, in millionths.
const NEAR_MISS: i64 = 500_000;

/// What tells pods apart as far as reasons go. Of their labels only what the rules between pods see of them.
type Kind<'i> = (u32, Rc<[bool]>, Option<u32>, &'i Text, Option<Timestamp>, Option<&'i Text>);

/// Why each pod of `plan.unschedulable` has no place, by pod: one reason for each pool that could be thought of (static
/// pools cannot), or reasons without a pool where no pool could change anything; and what would make it fit.
#[must_use]
pub fn unschedulable(input: &PlanningInput, plan: &Plan) -> Vec<Unschedulable> {
    unschedulable_among(input, plan, plan.unschedulable.iter().copied().collect())
}

/// The same for these of them.
#[must_use]
pub fn unschedulable_among(input: &PlanningInput, plan: &Plan, pods: BTreeSet<u32>) -> Vec<Unschedulable> {
    if pods.is_empty() {
        return Vec::new();
    }
    let world = World::new(input, plan);
    let mut known: FxHashMap<Kind<'_>, usize> = FxHashMap::default();
    let mut explained: Vec<Unschedulable> = Vec::new();
    let mut looks = Looks::of(&world);
    for pod in pods {
        let kind = kind(input, &input.pods[pod as usize], &mut looks);
        let kinds = known.len();
        let like = *known.entry(kind).or_insert(explained.len());
        let (reasons, fits_if) = match explained.get(like) {
            Some(like) => (like.reasons.clone(), like.fits_if.clone()),
            None => explain(&world, &input.pods[pod as usize], kinds < MOST_RELAXED),
        };
        explained.push(Unschedulable { pod, reasons, fits_if });
    }
    explained
}

/// Creation counts only where a pool waits for spot.
fn kind<'i>(input: &'i PlanningInput, pod: &'i Pod, looks: &mut Looks<'_>) -> Kind<'i> {
    let waits = input.pools.iter().any(|pool| pool.rules.spot_fallback_after_ms.is_some());
    let created = pod.created.filter(|_| waits);
    (pod.shape, looks.at(pod), pod.volumes, &pod.namespace, created, pod.invalid.as_ref())
}

/// What rules between pods see of a pod's labels: its own hard ones, and the required anti-affinity of pods that have a
/// place.
struct Looks<'w> {
    world: &'w World<'w>,
    /// Namespace and term of those who refuse others.
    refusals: BTreeSet<(&'w Text, &'w PodAffinityTerm)>,
    known: FxHashMap<(u32, u32, Text), Rc<[bool]>>,
}

impl<'w> Looks<'w> {
    fn of(world: &'w World<'w>) -> Self {
        let terms = |resident: &'w Resident| {
            let terms = &world.input.shapes[resident.shape as usize].pod_anti_affinity;
            terms.iter().map(move |term| (&resident.namespace, term))
        };
        Self { world, refusals: world.residents.iter().flat_map(terms).collect(), known: FxHashMap::default() }
    }

    /// Which rules mean `pod`, in a fixed order.
    fn at(&mut self, pod: &Pod) -> Rc<[bool]> {
        let key = (pod.shape, pod.labels, pod.namespace.clone());
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let (world, labels) = (self.world, &self.world.input.label_sets[pod.labels as usize]);
        let shape = &world.input.shapes[pod.shape as usize];
        let meant = |owner: &Text, term: &PodAffinityTerm| selects_pod(world, term, owner, &pod.namespace, labels);
        let spread = shape.spread.iter().map(|own| own.selector.as_ref().is_some_and(|it| it.matches(labels)));
        let affinity = shape.pod_affinity.iter().map(|term| meant(&pod.namespace, term));
        let refusals = self.refusals.iter().map(|(owner, term)| meant(owner, term));
        let seen: Rc<[bool]> = spread.chain(affinity).chain(refusals).collect();
        self.known.insert(key, Rc::clone(&seen));
        seen
    }
}

/// Reasons and relaxations for one pod.
pub(super) fn explain(world: &World<'_>, pod: &Pod, relax: bool) -> (Vec<Reason>, Vec<String>) {
    if let Some(why) = &pod.invalid {
        return (vec![without_pool(ReasonCode::InvalidPod, why.to_string())], Vec::new());
    }
    let ask = Ask::of(world.input, pod);
    if let Some(why) = &ask.volumes.blocked {
        return (vec![without_pool(ReasonCode::Volumes, why.to_string())], Vec::new());
    }
    let topology = Topology::of(world, &ask);
    let obstacles = obstacles(world, &ask, &topology);
    let mut reasons = match beyond_pools(world, &ask, &topology) {
        Some(reason) => vec![reason],
        None => by_pool(world, &ask, &topology, &obstacles),
    };
    reasons.extend(near_miss(world, &ask, &topology));
    let fits_if = if relax { fits_if(world, &ask, &topology, &obstacles) } else { Vec::new() };
    (reasons, fits_if)
}

fn without_pool(code: ReasonCode, message: String) -> Reason {
    Reason { pool: None, code, message }
}

/// The reason that no pool could change.
fn beyond_pools(world: &World<'_>, ask: &Ask<'_>, topology: &Topology) -> Option<Reason> {
    let ways = ask.alternatives();
    if ways.is_empty() {
        return Some(without_pool(ReasonCode::Requirements, no_term().to_owned()));
    }
    if ways.iter().all(|way| way.contradiction.is_some()) {
        let key = ways.first()?.contradiction.as_ref()?;
        return Some(without_pool(ReasonCode::Requirements, contradiction(key)));
    }
    lonely(world, ask, topology).or_else(|| no_pool(world))
}

/// Required affinity to pods that have no place anywhere.
fn lonely(world: &World<'_>, ask: &Ask<'_>, topology: &Topology) -> Option<Reason> {
    let nobody = topology.affinity.iter().all(|rule| rule.domains.is_empty());
    if topology.affinity.is_empty() || !nobody || topology.first_of_its_kind {
        return None;
    }
    let terms = &ask.shape.pod_affinity;
    let wanted: Vec<String> = terms.iter().map(|term| selector(term.selector.as_ref())).collect();
    let waiting = world.plan.unschedulable.iter().map(|&pod| &world.input.pods[pod as usize]).filter(|pod| {
        let labels = &world.input.label_sets[pod.labels as usize];
        terms.iter().all(|term| selects_pod(world, term, ask.namespace, &pod.namespace, labels))
    });
    let waiting: Vec<String> = waiting.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let others = match waiting.len() {
        0 => String::new(),
        _ => format!(
            "; {} would match but {} no place either",
            some(&waiting, 3),
            if waiting.len() == 1 { "has" } else { "have" }
        ),
    };
    let message = format!(
        "its required pod affinity needs a pod with {} in the same {}, and no such pod runs or is planned{others}",
        and(&wanted),
        and(&terms.iter().map(|term| term.topology_key.as_ref()).collect::<Vec<&str>>()),
    );
    Some(without_pool(ReasonCode::PodAffinity, message))
}

fn no_pool(world: &World<'_>) -> Option<Reason> {
    if world.open_pools().next().is_some() {
        return None;
    }
    let message = match world.input.pools.len() {
        0 => "there is no NodePool, and no existing node takes it".to_owned(),
        n => format!(
            "{} static (spec.replicas), which pending pods do not grow, and no existing node takes it",
            if n == 1 { "the only NodePool is".to_owned() } else { format!("all {n} NodePools are") }
        ),
    };
    Some(without_pool(ReasonCode::NoNodePool, message))
}

fn by_pool(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, obstacles: &[(u32, Blocked)]) -> Vec<Reason> {
    let reason = |(at, pool): (u32, &NodePool)| match obstacles.iter().find(|(of, _)| *of == at) {
        Some((_, blocked)) => {
            let speaker = Speaker { world, ask, topology, pool: at };
            Reason { pool: Some(pool.name.clone()), code: code(blocked), message: speaker.say(blocked) }
        }
        // Rules that look at the whole plan (zone balance, order of launches) may bar what each machine alone would carry.
        None => Reason {
            pool: Some(pool.name.clone()),
            code: ReasonCode::NoOffering,
            message: "no single constraint bars it; planning again on top of this plan may find it a place".to_owned(),
        },
    };
    world.open_pools().map(reason).collect()
}

/// The existing node that misses least, when room is all that it misses and not much of it.
fn near_miss(world: &World<'_>, ask: &Ask<'_>, topology: &Topology) -> Option<Reason> {
    let asked = &ask.shape.requests;
    let nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let near = |at: &u32| (1..=NEAR_MISS).contains(&distance(asked, world.room(*at)));
    let allowed = |at: &u32| {
        bars_whatever_the_room(world, ask, topology, *at).is_none()
            && topology_refuses(topology, &world.input.nodes[*at as usize]).is_none()
    };
    let nearest = nodes.filter(near).filter(allowed).min_by_key(|&at| (distance(asked, world.room(at)), at))?;
    let room = world.room(nearest);
    let short: Vec<String> = shortage(asked, room)
        .iter()
        .map(|(name, by)| format!("{} {name} ({} left)", needed(name, *by), amount(name, room.get(name).max(0))))
        .collect();
    let name = &world.input.nodes[nearest as usize].name;
    Some(without_pool(ReasonCode::Resources, format!("the nearest existing node, {name}, misses only {}", and(&short))))
}
