//! Relaxations: constraints are removed one by one, and the pod is tried again without each.

mod sentence;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use model::resources::{CPU, PODS};
use model::{HostPort, PodAffinityTerm, Text};

use super::existing::NodeTrial;
use super::launch::{Blocked, could_launch, launches, nearest_type};
use super::pod_requirements::{IgnoredRule, PodRequirements};
use super::snapshot::PlanSnapshot;
use super::topology::{Topology, TopologyConflict};
use super::wording::excludes_pods;

/// Maximum number of first candidates for which pairs are tried.
const MAX_PAIRED: usize = 8;
/// Maximum number of sentences per pod.
const MAX_SENTENCES: usize = 8;

/// One constraint that can be relaxed. Variants are in the order of the sentences: what the owner
/// of the pod can change comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relaxation {
    /// An entry of the node selector, by key.
    Selector(Text),
    /// The expressions of required node affinity on a label.
    Affinity(Text),
    /// The `matchFields` of required node affinity.
    Names,
    /// The missing tolerations for the taints of a pool.
    Tolerate(u32),
    /// The requested amount of a resource.
    Amount(Text),
    /// The node requirements of its volumes.
    VolumePlace,
    Attachments,
    Port(HostPort),
    /// A spread constraint, by its index in the shape.
    Spread(usize),
    PodAffinity(PodAffinityTerm),
    PodAntiAffinity(PodAffinityTerm),
    /// A rule outside the pod.
    Ignore(IgnoredRule),
}

/// Whether the pod fits on top of the finished plan.
pub(super) fn fits(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) -> bool {
    fits_by(snapshot, pod_reqs, &Topology::of(snapshot, pod_reqs))
}

/// Whether the pod fits, for given topology counts.
fn fits_by(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, topology: &Topology) -> bool {
    if pod_reqs.volumes.blocked.is_some() {
        return false;
    }
    let trial = NodeTrial::new(snapshot, pod_reqs, topology);
    let mut planned = 0..u32::try_from(snapshot.plan.nodes.len()).unwrap_or(u32::MAX);
    snapshot.open_pools().any(|(pool, _)| could_launch(snapshot, pod_reqs, topology, pool))
        || trial.fits_some_node()
        || planned.any(|at| trial.fits_planned(at))
}

/// Nodes that fit the pod without a relaxation: results that stay valid when only one pool changes.
#[derive(Debug)]
struct Baseline {
    /// Pools that could launch a node for the pod.
    pools: Vec<u32>,
    /// Whether an existing node fits the pod.
    node: bool,
    /// Pools with a planned node that fits the pod.
    planned: BTreeSet<u32>,
}

impl Baseline {
    fn of(
        snapshot: &PlanSnapshot<'_>,
        pod_reqs: &PodRequirements<'_>,
        topology: &Topology,
        obstacles: &[(u32, Blocked)],
    ) -> Self {
        let free = |pool: &u32| !obstacles.iter().any(|(of, _)| of == pool);
        let trial = NodeTrial::new(snapshot, pod_reqs, topology);
        let mut planned = BTreeSet::new();
        for (at, node) in (0_u32..).zip(&snapshot.plan.nodes) {
            if !planned.contains(&node.pool) && trial.fits_planned(at) {
                planned.insert(node.pool);
            }
        }
        Self {
            pools: snapshot.open_pools().map(|(pool, _)| pool).filter(free).collect(),
            node: trial.fits_some_node(),
            planned,
        }
    }

    /// Whether `relaxed` fits, given that it differs only in ignored rules of `pool`.
    fn fits_with(
        &self,
        snapshot: &PlanSnapshot<'_>,
        relaxed: &PodRequirements<'_>,
        topology: &Topology,
        pool: u32,
    ) -> bool {
        let trial = NodeTrial::new(snapshot, relaxed, topology);
        let mut planned = (0_u32..).zip(&snapshot.plan.nodes).filter(|(_, node)| node.pool == pool);
        self.node
            || self.pools.iter().any(|of| *of != pool)
            || self.planned.iter().any(|of| *of != pool)
            || could_launch(snapshot, relaxed, topology, pool)
            || planned.any(|(at, _)| trial.fits_planned(at))
    }
}

/// The obstacle of the pod in each pool that cannot launch a node for it.
pub(super) fn obstacles(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
) -> Vec<(u32, Blocked)> {
    let blocked = |pool| Some((pool, launches(snapshot, pod_reqs, topology, pool).err()?));
    snapshot.open_pools().filter_map(|(pool, _)| blocked(pool)).collect()
}

/// The smallest relaxations that make the pod fit, as sentences; empty if neither one nor two
/// suffice.
pub(super) fn fits_if(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    obstacles: &[(u32, Blocked)],
) -> Vec<String> {
    let singles = candidates(snapshot, pod_reqs, topology, obstacles);
    let baseline = OnceCell::new();
    let mut sentences = Vec::new();
    for one in &singles {
        if sentences.len() == MAX_SENTENCES {
            break;
        }
        let Some(relaxed) = one.apply(snapshot, pod_reqs) else { continue };
        let fits = match one.only_pool() {
            Some(pool) => baseline
                .get_or_init(|| Baseline::of(snapshot, pod_reqs, topology, obstacles))
                .fits_with(snapshot, &relaxed, topology, pool),
            None => fits(snapshot, &relaxed),
        };
        if fits {
            sentences.extend(one.describe(snapshot, pod_reqs).map(|what| format!("fits if {what}")));
        }
    }
    if sentences.is_empty() && singles.len() <= MAX_PAIRED {
        sentences = pairs(snapshot, pod_reqs, &singles);
    }
    sentences.truncate(MAX_SENTENCES);
    sentences
}

/// Pairs of relaxations. The second obstacle becomes visible only after the first is removed, so
/// second candidates are computed with the first relaxation applied.
fn pairs(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, singles: &BTreeSet<Relaxation>) -> Vec<String> {
    // A pair is tried once, in whichever order its members appear; its sentences have the order of
    // the variants.
    let mut tried = BTreeSet::new();
    let mut sentences = Vec::new();
    for one in singles {
        let Some(without_one) = one.apply(snapshot, pod_reqs) else { continue };
        let topology = Topology::of(snapshot, &without_one);
        let obstacles = obstacles(snapshot, &without_one, &topology);
        let baseline = OnceCell::new();
        for other in candidates(snapshot, &without_one, &topology, &obstacles) {
            let pair = if *one < other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
            if tried.len() >= MAX_PAIRED * MAX_PAIRED || !tried.insert(pair.clone()) {
                continue;
            }
            let Some(without_both) = other.apply(snapshot, &without_one) else { continue };
            let fits = match other.only_pool() {
                Some(pool) => baseline
                    .get_or_init(|| Baseline::of(snapshot, &without_one, &topology, &obstacles))
                    .fits_with(snapshot, &without_both, &topology, pool),
                None => fits(snapshot, &without_both),
            };
            if !fits {
                continue;
            }
            let Some(without_second) = pair.1.apply(snapshot, pod_reqs) else { continue };
            let Some(without_first) = pair.0.apply(snapshot, pod_reqs) else { continue };
            let sentences_of_both =
                [pair.0.describe(snapshot, &without_second), pair.1.describe(snapshot, &without_first)];
            if let [Some(first), Some(second)] = sentences_of_both {
                sentences.push(format!("fits if {first} and {second}"));
            }
        }
        if sentences.len() >= MAX_SENTENCES {
            break;
        }
    }
    sentences
}

/// Candidate relaxations for the obstacles in each pool.
fn candidates(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    obstacles: &[(u32, Blocked)],
) -> BTreeSet<Relaxation> {
    let mut all = BTreeSet::new();
    for (pool, blocked) in obstacles {
        relaxations_for(snapshot, pod_reqs, topology, *pool, blocked, &mut all);
    }
    // Without a pool, only existing nodes offer capacity.
    if snapshot.open_pools().next().is_none() {
        own_labels(pod_reqs, &mut all);
        let amounts = pod_reqs.shape.requests.iter().filter(|(name, amount)| name.as_ref() != PODS && *amount > 0);
        all.extend(amounts.map(|(name, _)| Relaxation::Amount(name.clone())));
        let hard = |at: &usize| pod_reqs.shape.spread[*at].hard;
        all.extend((0..pod_reqs.shape.spread.len()).filter(hard).map(Relaxation::Spread));
        all.extend(pod_reqs.shape.pod_affinity.iter().cloned().map(Relaxation::PodAffinity));
        all.extend(pod_reqs.shape.pod_anti_affinity.iter().cloned().map(Relaxation::PodAntiAffinity));
    }
    all
}

fn own_labels(pod_reqs: &PodRequirements<'_>, into: &mut BTreeSet<Relaxation>) {
    into.extend(pod_reqs.shape.node_selector.keys().cloned().map(Relaxation::Selector));
    let terms = &pod_reqs.shape.node_affinity;
    into.extend(terms.iter().flat_map(|term| &term.expressions).map(|e| Relaxation::Affinity(e.key().clone())));
    if terms.iter().any(|term| !term.names.is_empty()) {
        into.insert(Relaxation::Names);
    }
    if !pod_reqs.volumes.any_of.is_empty() {
        into.insert(Relaxation::VolumePlace);
    }
}

fn relaxations_for(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    pool: u32,
    blocked: &Blocked,
    into: &mut BTreeSet<Relaxation>,
) {
    // Only relaxations that act on this obstacle are added; the label relaxations may act on any
    // obstacle that depends on the chosen types.
    let ignore = Relaxation::Ignore;
    match blocked {
        Blocked::NotReady(_) => drop(into.insert(ignore(IgnoredRule::Ready(pool)))),
        Blocked::Taint(_) => drop(into.insert(Relaxation::Tolerate(pool))),
        Blocked::Label(wanted) => {
            own_labels(pod_reqs, into);
            into.insert(ignore(IgnoredRule::Label(pool, wanted.key().clone())));
        }
        Blocked::NoTerm | Blocked::Contradiction(_) | Blocked::Named(_) => own_labels(pod_reqs, into),
        Blocked::Types(merged) => {
            own_labels(pod_reqs, into);
            let base = &snapshot.pools[pool as usize].base;
            let narrowed = merged.iter().filter(|r| base.get(r.key()).is_some_and(|ours| ours != *r));
            into.extend(narrowed.map(|r| ignore(IgnoredRule::Label(pool, r.key().clone()))));
        }
        Blocked::Volume(_) => own_labels(pod_reqs, into),
        Blocked::Attach(_) => drop(into.insert(Relaxation::Attachments)),
        Blocked::Resources { types, capped } => {
            own_labels(pod_reqs, into);
            let short = nearest_type(snapshot, pod_reqs, pool, types).map(|(_, short)| short).unwrap_or_default();
            into.extend(short.into_iter().map(|(name, _)| Relaxation::Amount(name)));
            if *capped {
                into.insert(ignore(IgnoredRule::Ceilings(pool)));
            }
            into.extend(value_of_larger(snapshot, pod_reqs, pool).map(ignore));
        }
        Blocked::Port(..) => into.extend(pod_reqs.shape.host_ports.iter().cloned().map(Relaxation::Port)),
        Blocked::Offering { .. } => {
            own_labels(pod_reqs, into);
            let rules = [IgnoredRule::Ceilings(pool), IgnoredRule::SpotWait(pool), IgnoredRule::Availability(pool)];
            into.extend(rules.map(ignore));
        }
        Blocked::SpotShare => {
            own_labels(pod_reqs, into);
            into.insert(ignore(IgnoredRule::SpotShare(pool)));
        }
        Blocked::MinValues { .. } => {
            own_labels(pod_reqs, into);
            into.insert(ignore(IgnoredRule::MinValues(pool)));
        }
        Blocked::NodeLimit => drop(into.insert(ignore(IgnoredRule::Limits(pool)))),
        Blocked::Limits(_) => {
            into.insert(ignore(IgnoredRule::Limits(pool)));
            let amounts = pod_reqs.shape.requests.iter().filter(|(name, amount)| name.as_ref() != PODS && *amount > 0);
            into.extend(amounts.map(|(name, _)| Relaxation::Amount(name.clone())));
        }
        Blocked::Topology(conflict, _) => {
            own_labels(pod_reqs, into);
            into.insert(without_topology_rule(pod_reqs, topology, conflict));
        }
    }
}

fn without_topology_rule(
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    conflict: &TopologyConflict,
) -> Relaxation {
    let shape = &pod_reqs.shape;
    match conflict {
        TopologyConflict::Spread(at) => Relaxation::Spread(topology.spread[*at].index),
        TopologyConflict::Affinity(at) => {
            Relaxation::PodAffinity(shape.pod_affinity[topology.affinity[*at].index].clone())
        }
        TopologyConflict::AntiAffinity(at) => {
            Relaxation::PodAntiAffinity(shape.pod_anti_affinity[topology.anti[*at].index].clone())
        }
        TopologyConflict::OtherPod => Relaxation::Ignore(IgnoredRule::OtherPodsAntiAffinity),
    }
}

/// The value that the pool would have to allow for the smallest type that is large enough, if a
/// single requirement of the pool excludes that type.
fn value_of_larger(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, pool: u32) -> Option<IgnoredRule> {
    let nodepool = &snapshot.input.pools[pool as usize];
    let requested = snapshot.free_capacity(pool).request_columns(&pod_reqs.shape.requests);
    let large = (0_u32..).zip(&nodepool.catalogue.types).filter(|(t, _)| requested.fits(*t));
    let refused = large.filter_map(|(_, instance)| {
        let mut refusing = nodepool.requirements.iter().filter_map(|own| {
            let value = instance.labels.get(own.key())?.finite_values().filter(|values| values.len() == 1)?.first()?;
            (!own.has(value)).then(|| (own.key().clone(), value.clone()))
        });
        let (only, second) = (refusing.next()?, refusing.next());
        second.is_none().then_some((instance.capacity.get(CPU), only))
    });
    let (_, (key, value)) = refused.min_by_key(|(cpu, _)| *cpu)?;
    Some(IgnoredRule::OtherValue(pool, key, value))
}

impl Relaxation {
    /// The only pool affected, if the relaxation changes no topology count, no other pool and no
    /// existing node.
    fn only_pool(&self) -> Option<u32> {
        match self {
            Self::Ignore(
                IgnoredRule::Ready(pool)
                | IgnoredRule::Limits(pool)
                | IgnoredRule::MinValues(pool)
                | IgnoredRule::Ceilings(pool)
                | IgnoredRule::SpotWait(pool)
                | IgnoredRule::SpotShare(pool)
                | IgnoredRule::Availability(pool)
                | IgnoredRule::Label(pool, _)
                | IgnoredRule::OtherValue(pool, ..),
            ) => Some(*pool),
            _ => None,
        }
    }

    /// The pod requirements without this constraint; `None` if nothing would change.
    fn apply<'a>(&self, snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'a>) -> Option<PodRequirements<'a>> {
        let mut relaxed = pod_reqs.clone();
        let shape = &mut relaxed.shape;
        match self {
            Self::Selector(key) => drop(shape.node_selector.remove(key)?),
            Self::Affinity(key) => {
                for term in &mut shape.node_affinity {
                    term.expressions.retain(|expression| expression.key() != key);
                }
                // A term without remaining expressions matches every node.
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
                let taints = &snapshot.input.pools[*pool as usize].taints;
                taints
                    .iter()
                    .filter(|taint| excludes_pods(taint.effect))
                    .for_each(|taint| relaxed.add_toleration(taint));
            }
            Self::Amount(name) => shape.requests.set(name.clone(), 0),
            Self::VolumePlace => relaxed.volumes.any_of.clear(),
            Self::Attachments => relaxed.volumes.attachments.clear(),
            Self::Port(port) => shape.host_ports.retain(|own| own != port),
            Self::Spread(at) => shape.spread.get_mut(*at)?.hard = false,
            Self::PodAffinity(term) => shape.pod_affinity.retain(|own| own != term),
            Self::PodAntiAffinity(term) => shape.pod_anti_affinity.retain(|own| own != term),
            Self::Ignore(ignored_rule) => drop(relaxed.ignored_rules.insert(ignored_rule.clone())),
        }
        (relaxed.ignored_rules != pod_reqs.ignored_rules
            || relaxed.shape != pod_reqs.shape
            || relaxed.volumes != pod_reqs.volumes)
            .then_some(relaxed)
    }
}
