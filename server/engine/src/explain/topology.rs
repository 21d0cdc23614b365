//! Spread, affinity and anti-affinity, counted over the finished plan as kube-scheduler would count it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::labels::HOSTNAME;
use crate::model::taints::first_barring;
use crate::model::{Labels, NodeStage, PodAffinityTerm, Requirements, SpreadConstraint, Text};

use super::ask::{Alternative, Ask, Waiver};
use super::world::{Place, Resident, World};

/// The labels of a machine that topology rules look at.
pub(super) type Site = BTreeMap<Text, Text>;

/// A hard spread constraint and its counts.
#[derive(Debug)]
pub(super) struct Spread {
    /// Which of the pod's constraints.
    pub index: usize,
    /// The label whose values are the domains.
    pub key: Text,
    /// Pods by domain, domains without pods included.
    pub counts: BTreeMap<Text, i64>,
    /// The global minimum, after `minDomains`.
    pub minimum: i64,
    /// 1 when the pod counts itself.
    pub own: i64,
    /// The constraint's `maxSkew`.
    pub max_skew: i64,
}

/// A required affinity or anti-affinity term and the domains where pods match.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// Which of the pod's terms.
    pub index: usize,
    /// The label whose values are the domains.
    pub key: Text,
    /// Domains with matching pods: how many, and one of them.
    pub domains: BTreeMap<Text, (i64, String)>,
}

/// Everything about one pod's topology rules that does not depend on the machine.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// The ways to satisfy the pod's node selector and affinity; spread counts the nodes that one of them admits.
    pub ways: Vec<Alternative>,
    /// Hard spread constraints.
    pub spread: Vec<Spread>,
    /// Required affinity.
    pub affinity: Vec<Neighbours>,
    /// No pod matches all affinity terms, but the pod itself does: it may be the first.
    pub first_of_its_kind: bool,
    /// Required anti-affinity.
    pub anti: Vec<Neighbours>,
    /// Domains that other pods' anti-affinity bars: (key, value) and one of those pods.
    pub foes: BTreeMap<(Text, Text), String>,
    /// Labels that the rules look at.
    pub keys: BTreeSet<Text>,
}

/// The rule that bars a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Barrier {
    /// The spread constraint at this place of [`Topology::spread`].
    Spread(usize),
    /// The affinity term at this place of [`Topology::affinity`].
    Affinity(usize),
    /// The anti-affinity term at this place of [`Topology::anti`].
    AntiAffinity(usize),
    /// Another pod's anti-affinity.
    Foe,
}

impl Topology {
    /// Counts for `ask`.
    pub(super) fn of(world: &World<'_>, ask: &Ask<'_>) -> Self {
        let mut topology = Self { ways: ask.alternatives(), ..Self::default() };
        for (index, constraint) in ask.shape.spread.iter().enumerate().filter(|(_, c)| c.hard) {
            let tally = tally(world, ask, &topology.ways, index, constraint);
            topology.spread.push(tally);
        }
        topology.count_affinity(world, ask);
        for (index, term) in ask.shape.pod_anti_affinity.iter().enumerate() {
            let matching = world.candidates(term.selector.as_ref()).filter(|r| selects(world, term, ask.namespace, r));
            topology.anti.push(neighbours(world, index, &term.topology_key, matching));
        }
        if !ask.waives(&Waiver::ForeignAntiAffinity) {
            topology.count_foes(world, ask);
        }
        topology.keys.extend(topology.spread.iter().map(|s| s.key.clone()));
        topology.keys.extend(topology.affinity.iter().chain(&topology.anti).map(|n| n.key.clone()));
        topology.keys.extend(topology.foes.keys().map(|(key, _)| key.clone()));
        topology
    }

    /// All terms must be met by one and the same set of pods (L48).
    fn count_affinity(&mut self, world: &World<'_>, ask: &Ask<'_>) {
        let terms = &ask.shape.pod_affinity;
        let all = |r: &&Resident| terms.iter().all(|term| selects(world, term, ask.namespace, r));
        // Only the residents that the first term selects can be selected by all; without terms, all are.
        let matching: Vec<&Resident> = match terms.first() {
            Some(first) => world.candidates(first.selector.as_ref()).filter(all).collect(),
            None => Vec::new(),
        };
        self.first_of_its_kind = matching.is_empty()
            && terms.iter().all(|term| selects_pod(world, term, ask.namespace, ask.namespace, ask.labels));
        for (index, term) in terms.iter().enumerate() {
            self.affinity.push(neighbours(world, index, &term.topology_key, matching.iter().copied()));
        }
    }

    fn count_foes(&mut self, world: &World<'_>, ask: &Ask<'_>) {
        for resident in &world.residents {
            for term in &world.input.shapes[resident.shape as usize].pod_anti_affinity {
                if !selects_pod(world, term, &resident.namespace, ask.namespace, ask.labels) {
                    continue;
                }
                for value in resident.places.keys().flat_map(|&place| world.domains(place, &term.topology_key)) {
                    let domain = (term.topology_key.clone(), value.clone());
                    self.foes.entry(domain).or_insert_with(|| resident.example.clone());
                }
            }
        }
    }

    /// The first rule that bars the machine at `site`.
    pub(super) fn barrier(&self, site: &Site) -> Option<Barrier> {
        let spread = self.spread.iter().position(|rule| !rule.admits(site));
        let affinity = || {
            let met = |rule: &Neighbours| site.get(&rule.key).is_some_and(|value| rule.domains.contains_key(value));
            let first = |rule: &Neighbours| self.first_of_its_kind && site.contains_key(&rule.key);
            self.affinity.iter().position(|rule| !met(rule) && !first(rule))
        };
        let anti = || {
            let met = |rule: &Neighbours| site.get(&rule.key).is_some_and(|value| rule.domains.contains_key(value));
            self.anti.iter().position(met)
        };
        let foe = || site.iter().any(|(key, value)| self.foes.contains_key(&(key.clone(), value.clone())));
        spread
            .map(Barrier::Spread)
            .or_else(|| affinity().map(Barrier::Affinity))
            .or_else(|| anti().map(Barrier::AntiAffinity))
            .or_else(|| foe().then_some(Barrier::Foe))
    }

    /// The part of `labels` that the rules look at.
    pub(super) fn site(&self, mut value: impl FnMut(&Text) -> Option<Text>) -> Site {
        self.keys.iter().filter_map(|key| Some((key.clone(), value(key)?))).collect()
    }
}

impl Spread {
    fn admits(&self, site: &Site) -> bool {
        let Some(value) = site.get(&self.key) else { return false };
        self.count(value) + self.own - self.minimum <= self.max_skew
    }

    /// Pods in the domain `value`.
    pub(super) fn count(&self, value: &str) -> i64 {
        self.counts.get(value).copied().unwrap_or(0)
    }
}

fn neighbours<'r>(
    world: &World<'_>,
    index: usize,
    key: &Text,
    residents: impl Iterator<Item = &'r Resident>,
) -> Neighbours {
    let mut domains: BTreeMap<Text, (i64, String)> = BTreeMap::new();
    for resident in residents {
        for (&place, number) in &resident.places {
            for value in world.domains(place, key) {
                domains.entry(value.clone()).or_insert_with(|| (0, resident.example.clone())).0 += number;
            }
        }
    }
    Neighbours { index, key: key.clone(), domains }
}

/// Whether `term` of a pod in `owner`'s namespace selects the residents.
fn selects(world: &World<'_>, term: &PodAffinityTerm, owner: &Text, resident: &Resident) -> bool {
    let labels = &world.input.label_sets[resident.labels as usize];
    selects_pod(world, term, owner, &resident.namespace, labels)
}

/// Whether `term` of a pod in `owner`'s namespace selects a pod of that namespace with those labels.
pub(super) fn selects_pod(
    world: &World<'_>,
    term: &PodAffinityTerm,
    owner: &Text,
    namespace: &Text,
    labels: &Labels,
) -> bool {
    if !term.selector.as_ref().is_some_and(|selector| selector.matches(labels)) {
        return false;
    }
    let Some(by_label) = &term.namespace_selector else {
        return if term.namespaces.is_empty() { owner == namespace } else { term.namespaces.contains(namespace) };
    };
    let name_only = || Labels::from([("kubernetes.io/metadata.name".into(), namespace.clone())]);
    let selected = world
        .input
        .namespaces
        .get(namespace)
        .map_or_else(|| by_label.matches(&name_only()), |labels| by_label.matches(labels));
    selected || term.namespaces.contains(namespace)
}

fn tally(
    world: &World<'_>,
    ask: &Ask<'_>,
    ways: &[Alternative],
    index: usize,
    constraint: &SpreadConstraint,
) -> Spread {
    let key = &constraint.topology_key;
    let selects = |labels: &Labels| constraint.selector.as_ref().is_some_and(|s| s.matches(labels));
    let mut counts: BTreeMap<Text, i64> = BTreeMap::new();
    let places = eligible_places(world, ask, ways, constraint);
    for value in places.iter().filter_map(|&place| domain(world, place, key)) {
        counts.entry(value.clone()).or_insert(0);
    }
    if key.as_ref() != HOSTNAME {
        for value in buyable_domains(world, ask, ways, constraint) {
            counts.entry(value).or_insert(0);
        }
    }
    for resident in world.candidates(constraint.selector.as_ref()).filter(|r| r.namespace == *ask.namespace) {
        if !selects(&world.input.label_sets[resident.labels as usize]) {
            continue;
        }
        for (&place, number) in resident.places.iter().filter(|(place, _)| places.binary_search(place).is_ok()) {
            if let Some(value) = domain(world, place, key) {
                *counts.entry(value.clone()).or_insert(0) += number;
            }
        }
    }
    let own = i64::from(selects(ask.labels));
    let minimum = minimum(constraint, &counts);
    Spread { index, key: key.clone(), counts, minimum, own, max_skew: i64::from(constraint.max_skew) }
}

/// The global minimum. A further machine is always possible, so for hostnames it is zero.
fn minimum(constraint: &SpreadConstraint, counts: &BTreeMap<Text, i64>) -> i64 {
    let too_few =
        constraint.min_domains.is_some_and(|least| i64::try_from(counts.len()).unwrap_or(i64::MAX) < i64::from(least));
    if too_few || constraint.topology_key.as_ref() == HOSTNAME {
        return 0;
    }
    counts.values().copied().min().unwrap_or(0)
}

/// The domain of a place, when it is decided.
fn domain<'w>(world: &World<'w>, place: Place, key: &str) -> Option<&'w Text> {
    match world.domains(place, key).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

/// Places whose pods count, ascending: those that the pod's own constraints and tolerations admit, as the constraint asks.
fn eligible_places(
    world: &World<'_>,
    ask: &Ask<'_>,
    ways: &[Alternative],
    constraint: &SpreadConstraint,
) -> Vec<Place> {
    let mut places = Vec::new();
    let admits = |place: Place, name: &Text| {
        let way = |way: &Alternative| {
            way.contradiction.is_none()
                && way.requirements.iter().all(|r| world.satisfies(place, r))
                && way.names.iter().all(|names| names.has(name))
        };
        !constraint.honor_node_affinity || ways.iter().any(way)
    };
    let tolerates =
        |taints: &[_]| !constraint.honor_node_taints || first_barring(taints, &ask.shape.tolerations).is_none();
    for (at, node) in (0_u32..).zip(&world.input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting) {
        if admits(Place::Node(at), &node.name) && tolerates(&node.taints) {
            places.push(Place::Node(at));
        }
    }
    for (at, node) in (0_u32..).zip(&world.plan.nodes) {
        if admits(Place::Planned(at), &node.name) && tolerates(&node.taints) {
            places.push(Place::Planned(at));
        }
    }
    places
}

/// Domains that a machine could be bought in.
fn buyable_domains(
    world: &World<'_>,
    ask: &Ask<'_>,
    ways: &[Alternative],
    constraint: &SpreadConstraint,
) -> BTreeSet<Text> {
    let key = constraint.topology_key.as_ref();
    let mut domains = BTreeSet::new();
    for (at, pool) in world.open_pools().filter(|(_, pool)| pool.not_ready.is_none()) {
        let base = &world.pools[at as usize].base;
        if constraint.honor_node_taints && first_barring(&pool.taints, &ask.shape.tolerations).is_some() {
            continue;
        }
        let allowed = |value: &Text| {
            let way = |requirements: &Requirements| requirements.get(key).is_none_or(|r| r.has(value));
            base.get(key).is_none_or(|r| r.has(value))
                && (!constraint.honor_node_affinity || ways.iter().any(|alternative| way(&alternative.requirements)))
        };
        domains.extend(world.offered(at, &constraint.topology_key).iter().filter(|value| allowed(value)).cloned());
    }
    domains
}
