//! Pods that planning cannot tell apart, and what they ask for.
//!
//! A class is a shape, split only by what live selectors see of the labels, by volumes and by opt-in waits. Ten thousand
//! replicas are one class with a count.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::axis::{Amounts, Axis};
use super::fits::{FitTable, NAME_FIELD, ReqId};
use super::subjects::{Namespaces, Predicate, SelectorIndex};
use super::topology::{GroupId, GroupSpec, KeyId, NodeFilter, Topology};
use crate::input::{PlanningInput, PreferencePolicy};
use crate::model::labels::ARCH;
use crate::model::{
    NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, Requirement, Requirements, SpreadConstraint, Text,
};

/// Alternatives of one pod beyond which further ones are not tried; a product of terms and volumes this large is a mistake
/// in the manifest, and each costs a compilation.
const MAX_ALTERNATIVES: usize = 64;

/// What a class asks of the domains of one group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// At most `max_skew` above the least domain. `selfish`: the pod counts itself.
    Spread { max_skew: u32, min_domains: u32, selfish: bool, honor_affinity: bool, honor_taints: bool },
    /// Some pod that the group means must be there. `bootstrap`: the first one may go anywhere.
    With { bootstrap: bool },
    /// No pod that the group means may be there. `selfish`: it refuses its own kind.
    Without { selfish: bool },
}

/// A rule of a class, hard or soft.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Owned {
    pub(super) group: GroupId,
    pub(super) key: KeyId,
    pub(super) rule: Rule,
    /// Index into [`Class::softs`] when the rule is a preference.
    pub(super) soft: Option<u8>,
}

impl Class {
    /// What a look at one place for it costs, in steps: one, and one for each constraint that is looked at there.
    pub(super) fn constraints(&self) -> usize {
        1 + self.owned.len() + self.softs.len()
    }
}

/// A preference: what dropping it costs, and what it adds to the node requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Soft {
    pub(super) weight: i32,
    /// Requirements that a preferred node affinity adds.
    pub(super) requirements: Option<Requirements>,
    /// Hostname preferences choose among machines and never buy one.
    pub(super) host: bool,
}

/// Pods that planning cannot tell apart.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) shape: u32,
    /// Indices of the pods, ascending.
    pub(super) pods: Vec<u32>,
    pub(super) request: Amounts,
    /// Node requirements of which one must hold; empty when nothing ever will.
    pub(super) alternatives: SmallVec<[ReqId; 1]>,
    pub(super) owned: Vec<Owned>,
    pub(super) softs: Vec<Soft>,
    /// Groups that mean these pods.
    pub(super) meant_by: Vec<GroupId>,
    /// Whether an architecture is asked for (see `safe-architectures`).
    pub(super) names_arch: bool,
    /// Pools (by index) whose spot wait is not over for these pods.
    pub(super) waits: Vec<u32>,
    /// Whether planning can place them at all.
    pub(super) possible: bool,
    /// The hostname group by which each wants a machine without others of its kind.
    pub(super) alone: Option<GroupId>,
}

#[derive(PartialEq, Eq, Hash)]
struct ClassKey {
    shape: u32,
    namespace: Option<Text>,
    volumes: Option<u32>,
    meant_by: Vec<GroupId>,
    waits: Vec<u32>,
    possible: bool,
}

/// Splits the pods of `input` into classes, in the order of their first pods.
pub(super) fn split(
    input: &PlanningInput,
    axis: &Axis,
    subjects: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> Vec<Class> {
    let owned = register_rules(input, subjects, topology, fits);
    let mut by_key: FxHashMap<ClassKey, usize> = FxHashMap::default();
    let mut by_pod: FxHashMap<(u32, &str, u32, Option<u32>), usize> = FxHashMap::default();
    let waiting = input.pools.iter().any(|pool| pool.rules.spot_fallback_after_ms.is_some());
    let mut classes: Vec<Class> = Vec::new();
    for (index, pod) in (0_u32..).zip(&input.pods) {
        let quick = (pod.shape, pod.namespace.as_ref(), pod.labels, pod.volumes);
        let plain = !waiting && pod.invalid.is_none();
        let at = match by_pod.get(&quick) {
            Some(at) if plain => *at,
            _ => {
                let key = key_of(input, pod, subjects, topology);
                *by_key.entry(key).or_insert_with_key(|key| {
                    let rules = &owned[&(pod.shape, pod.namespace.clone())];
                    classes.push(class_of(input, pod, key, axis, rules, fits, subjects, topology));
                    classes.len() - 1
                })
            }
        };
        if plain {
            by_pod.insert(quick, at);
        }
        classes[at].pods.push(index);
    }
    classes
}

fn key_of(input: &PlanningInput, pod: &Pod, subjects: &SelectorIndex<'_>, topology: &Topology) -> ClassKey {
    let shape = &input.shapes[pod.shape as usize];
    let between_pods = !shape.pod_affinity.is_empty()
        || !shape.preferred_pod_affinity.is_empty()
        || !shape.pod_anti_affinity.is_empty()
        || !shape.preferred_pod_anti_affinity.is_empty()
        || !shape.spread.is_empty();
    let blocked = pod.volumes.is_some_and(|at| input.volume_sets[at as usize].blocked.is_some());
    ClassKey {
        shape: pod.shape,
        namespace: between_pods.then(|| pod.namespace.clone()),
        volumes: pod.volumes,
        meant_by: topology.meant_by(subjects.id(&pod.namespace, pod.labels)).to_vec(),
        waits: waits_of(input, pod),
        possible: pod.invalid.is_none() && !blocked,
    }
}

/// Pools that make this pod wait before it may fall back from spot (plan contract §4).
fn waits_of(input: &PlanningInput, pod: &Pod) -> Vec<u32> {
    let waits = |after: i64| pod.created.is_some_and(|created| input.now.millis_since(created) < after);
    (0_u32..)
        .zip(&input.pools)
        .filter(|(_, pool)| pool.rules.spot_fallback_after_ms.is_some_and(waits))
        .map(|(at, _)| at)
        .collect()
}

type Rules = FxHashMap<(u32, Text), (Vec<Owned>, Vec<Soft>)>;

/// Registers every rule of every pod, so that all groups are known before pods are split by them.
fn register_rules(
    input: &PlanningInput,
    subjects: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> Rules {
    let mut rules = Rules::default();
    let mut seen: FxHashMap<(u32, &str), ()> = FxHashMap::default();
    for pod in &input.pods {
        if seen.insert((pod.shape, &pod.namespace), ()).is_none() {
            let shape = &input.shapes[pod.shape as usize];
            let made = rules_of(input, shape, &pod.namespace, subjects, topology, fits);
            rules.insert((pod.shape, pod.namespace.clone()), made);
        }
    }
    rules
}

fn rules_of(
    input: &PlanningInput,
    shape: &PodShape,
    namespace: &Text,
    subjects: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> (Vec<Owned>, Vec<Soft>) {
    let mut maker = RuleMaker { shape, namespace, subjects, topology, fits, owned: Vec::new(), softs: Vec::new() };
    for constraint in shape.spread.iter().filter(|constraint| constraint.hard) {
        maker.spread(constraint, None);
    }
    maker.affinity(&shape.pod_affinity);
    for term in &shape.pod_anti_affinity {
        maker.anti_affinity(term, None);
    }
    if input.policy.preferences == PreferencePolicy::Respect {
        maker.preferences(input.policy.preferred_terms_most());
    }
    (maker.owned, maker.softs)
}

struct RuleMaker<'m, 'i> {
    shape: &'m PodShape,
    namespace: &'m Text,
    subjects: &'m SelectorIndex<'i>,
    topology: &'m mut Topology,
    fits: &'m mut FitTable,
    owned: Vec<Owned>,
    softs: Vec<Soft>,
}

impl RuleMaker<'_, '_> {
    fn push(&mut self, spec: GroupSpec, rule: Rule, soft: Option<u8>) {
        let key = spec.key;
        let group = self.topology.group(spec, self.subjects);
        if soft.is_none() {
            self.topology.harden(group);
        }
        self.owned.push(Owned { group, key, rule, soft });
    }

    fn soft(&mut self, weight: i32, requirements: Option<Requirements>, host: bool) -> Option<u8> {
        self.softs.push(Soft { weight, requirements, host });
        u8::try_from(self.softs.len() - 1).ok()
    }

    fn spread(&mut self, constraint: &SpreadConstraint, soft: Option<u8>) {
        let key = self.topology.key(&constraint.topology_key);
        let own = Namespaces::These([self.namespace.clone()].into());
        let any_of = constraint.honor_node_affinity.then(|| node_alternatives(self.shape, None, self.fits).to_vec());
        let unconstrained =
            any_of.as_ref().is_some_and(|ids| ids.iter().any(|id| self.fits.requirements(*id).is_empty()));
        let filter = NodeFilter {
            any_of: any_of.filter(|_| !unconstrained),
            tolerations: constraint.honor_node_taints.then(|| self.shape.tolerations.clone()),
            keys: if soft.is_none() { self.other_keys(key) } else { Vec::new() },
        };
        let rule = Rule::Spread {
            max_skew: u32::try_from(constraint.max_skew).unwrap_or(1),
            min_domains: constraint.min_domains.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            selfish: false,
            honor_affinity: constraint.honor_node_affinity,
            honor_taints: constraint.honor_node_taints,
        };
        let predicate = vec![(own, constraint.selector.clone())];
        self.push(GroupSpec { key, predicate, filter, anti: false }, rule, soft);
    }

    /// The keys of the hard spread constraints, apart from `own` and the hostname, which every node has.
    fn other_keys(&mut self, own: KeyId) -> Vec<KeyId> {
        let hard = self.shape.spread.iter().filter(|constraint| constraint.hard);
        let mut keys: Vec<KeyId> = hard.map(|constraint| self.topology.key(&constraint.topology_key)).collect();
        keys.retain(|key| *key != own && *key != Topology::HOST);
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// All terms must be met by one and the same pod, as kube-scheduler wants it (L48): one predicate, a group per key.
    fn affinity(&mut self, terms: &[PodAffinityTerm]) {
        let predicate: Predicate = terms.iter().map(|term| self.pair(term)).collect();
        let mut keys: Vec<KeyId> = terms.iter().map(|term| self.topology.key(&term.topology_key)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let spec = GroupSpec { key, predicate: predicate.clone(), filter: NodeFilter::default(), anti: false };
            self.push(spec, Rule::With { bootstrap: false }, None);
        }
    }

    fn pair(&self, term: &PodAffinityTerm) -> (Namespaces, Option<crate::model::LabelSelector>) {
        (self.subjects.namespaces_of(term, self.namespace), term.selector.clone())
    }

    fn anti_affinity(&mut self, term: &PodAffinityTerm, soft: Option<u8>) {
        let key = self.topology.key(&term.topology_key);
        let spec =
            GroupSpec { key, predicate: vec![self.pair(term)], filter: NodeFilter::default(), anti: soft.is_none() };
        self.push(spec, Rule::Without { selfish: false }, soft);
    }

    /// The preferences, as many as may be looked at: the heaviest, and of equal ones those that are stated first.
    fn preferences(&mut self, most: usize) {
        let host = |key: &str| key == crate::model::labels::HOSTNAME;
        let shape = self.shape;
        let soft_spreads = || shape.spread.iter().filter(|constraint| !constraint.hard);
        let nodes = shape.preferred_node_affinity.iter().map(|preferred| preferred.weight);
        let near = shape.preferred_pod_affinity.iter().map(|preferred| preferred.weight);
        let apart = shape.preferred_pod_anti_affinity.iter().map(|preferred| preferred.weight);
        let weights: Vec<i32> = nodes.chain(near).chain(apart).chain(soft_spreads().map(|_| 1)).collect();
        let mut kept = heaviest(&weights, most).into_iter();
        let mut keeps = || kept.next().unwrap_or(false);
        for preferred in shape.preferred_node_affinity.iter().filter(|_| keeps()) {
            let requirements: Requirements = preferred.term.expressions.iter().cloned().collect();
            self.soft(preferred.weight, Some(requirements), false);
        }
        for preferred in shape.preferred_pod_affinity.iter().filter(|_| keeps()) {
            let soft = self.soft(preferred.weight, None, host(&preferred.term.topology_key));
            let key = self.topology.key(&preferred.term.topology_key);
            let predicate = vec![self.pair(&preferred.term)];
            let spec = GroupSpec { key, predicate, filter: NodeFilter::default(), anti: false };
            self.push(spec, Rule::With { bootstrap: false }, soft);
        }
        for preferred in shape.preferred_pod_anti_affinity.iter().filter(|_| keeps()) {
            let soft = self.soft(preferred.weight, None, host(&preferred.term.topology_key));
            self.anti_affinity(&preferred.term, soft);
        }
        for constraint in soft_spreads().filter(|_| keeps()) {
            let soft = self.soft(1, None, host(&constraint.topology_key));
            self.spread(constraint, soft);
        }
    }
}

/// Which of these weights are among the `most` heaviest.
fn heaviest(weights: &[i32], most: usize) -> Vec<bool> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(weights[*at]));
    let mut kept = vec![false; weights.len()];
    order.into_iter().take(most).for_each(|at| kept[at] = true);
    kept
}

#[expect(clippy::too_many_arguments, reason = "the tables that a class is made from, each read or filled once")]
fn class_of(
    input: &PlanningInput,
    pod: &Pod,
    key: &ClassKey,
    axis: &Axis,
    (owned, softs): &(Vec<Owned>, Vec<Soft>),
    fits: &mut FitTable,
    subjects: &SelectorIndex<'_>,
    topology: &Topology,
) -> Class {
    let shape = &input.shapes[pod.shape as usize];
    let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize]);
    let mut request = axis.demand(&shape.requests);
    if let Some(volumes) = volumes {
        axis.add_attachments(&mut request, &volumes.attachments);
    }
    let subject = subjects.id(&pod.namespace, pod.labels);
    let owned: Vec<Owned> = owned.iter().map(|rule| about_itself(rule, topology.means(rule.group, subject))).collect();
    let refuses_itself = |rule: &&Owned| {
        rule.soft.is_none()
            && rule.key == Topology::HOST
            && matches!(rule.rule, Rule::Without { selfish: true } | Rule::Spread { selfish: true, .. })
    };
    let arch = |requirement: &Requirement| requirement.key().as_ref() == ARCH;
    Class {
        shape: pod.shape,
        pods: Vec::new(),
        request,
        alternatives: node_alternatives(shape, volumes.map(|volumes| volumes.any_of.as_slice()), fits),
        softs: softs.clone(),
        meant_by: key.meant_by.clone(),
        names_arch: shape.node_selector.keys().any(|key| crate::model::labels::canonical_key(key) == ARCH)
            || shape.node_affinity.iter().any(|term| term.expressions.iter().any(arch)),
        waits: key.waits.clone(),
        possible: key.possible,
        alone: owned.iter().find(refuses_itself).map(|rule| rule.group),
        owned,
    }
}

/// `rule`, knowing whether the pod that owns it is meant by it.
fn about_itself(rule: &Owned, means_itself: bool) -> Owned {
    let mut rule = rule.clone();
    match &mut rule.rule {
        Rule::Spread { selfish, .. } | Rule::Without { selfish } => *selfish = means_itself,
        Rule::With { bootstrap } => *bootstrap = means_itself,
    }
    rule
}

/// The node requirements of a pod as alternatives: node selector with each node affinity term and each volume alternative.
pub(super) fn node_alternatives(
    shape: &PodShape,
    volumes: Option<&[Requirements]>,
    fits: &mut FitTable,
) -> SmallVec<[ReqId; 1]> {
    let selector: Requirements =
        shape.node_selector.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect();
    let terms: Vec<Requirements> = match shape.node_affinity.as_slice() {
        [] => vec![Requirements::new()],
        terms => terms.iter().filter_map(requirements_of_term).collect(),
    };
    let unconstrained = [Requirements::new()];
    let volumes = volumes.filter(|alternatives| !alternatives.is_empty()).unwrap_or(&unconstrained);
    let mut ids = SmallVec::new();
    for (term, volume) in terms.iter().flat_map(|term| volumes.iter().map(move |volume| (term, volume))) {
        let mut all = selector.clone();
        all.add_all(term);
        all.add_all(volume);
        if !all.is_impossible() && ids.len() < MAX_ALTERNATIVES {
            let id = fits.intern_requirements(all);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    ids
}

/// One node affinity term as requirements; a term without expressions matches nothing.
fn requirements_of_term(term: &NodeSelectorTerm) -> Option<Requirements> {
    if term.expressions.is_empty() && term.names.is_empty() {
        return None;
    }
    let mut all: Requirements = term.expressions.iter().cloned().collect();
    for names in &term.names {
        let values = names.finite_values().into_iter().flatten().chain(names.excluded_values()).cloned();
        let operator =
            if names.finite_values().is_some() { crate::model::Operator::In } else { crate::model::Operator::NotIn };
        all.add(Requirement::new(NAME_FIELD, operator, values));
    }
    Some(all)
}
