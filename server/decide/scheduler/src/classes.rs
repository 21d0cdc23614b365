//! Pod classes: pods that planning cannot distinguish, and their constraints.
//!
//! A class is a shape, split only by the labels that live selectors look at, by volumes and by
//! opt-in waits. Ten thousand replicas are one class with a count.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::fits::{FitTable, NAME_FIELD, RequirementsId};
use super::resource_vector::{Amounts, ResourceOrder};
use super::selector_index::{Namespaces, Predicate, SelectorIndex};
use super::topology::{GroupId, GroupSpec, KeyId, NodeFilter, Topology};
use model::input::{PlanningInput, PreferencePolicy};
use model::labels::ARCH;
use model::{
    Millis, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, Requirement, Requirements, SpreadConstraint, Text,
};

/// Alternatives of one pod beyond which further ones are not tried. A product of terms and volumes
/// this large is a mistake in the manifest, and each alternative costs a compilation.
const MAX_ALTERNATIVES: usize = 64;

/// What a class requires of the domains of one group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RuleKind {
    /// At most `max_skew` above the least filled domain. `selects_self`: the selector matches the
    /// pod itself.
    Spread { max_skew: u32, min_domains: u32, selects_self: bool, honor_affinity: bool, honor_taints: bool },
    /// A pod that the group selects must be in the domain. `bootstrap`: the first one may go
    /// anywhere.
    Affinity { bootstrap: bool },
    /// No pod that the group selects may be in the domain. `selects_self`: the term selects the
    /// pod's own class.
    AntiAffinity { selects_self: bool },
}

/// A rule of a class, required or preferred.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClassRule {
    pub(super) group: GroupId,
    pub(super) key: KeyId,
    pub(super) kind: RuleKind,
    /// Index into [`Class::preferences`] when the rule is a preference.
    pub(super) preference: Option<u8>,
}

impl Class {
    /// Steps that one placement attempt costs: one, and one for each constraint evaluated there.
    pub(super) fn constraints(&self) -> usize {
        1 + self.rules.len() + self.preferences.len()
    }
}

/// A preference: its weight, and what it adds to the node requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Preference {
    pub(super) weight: i32,
    /// Requirements added by a preferred node affinity.
    pub(super) requirements: Option<Requirements>,
    /// Whether it is over the hostname: such preferences choose among machines and never launch
    /// one.
    pub(super) host: bool,
    /// Whether it is a `ScheduleAnyway` spread: it outweighs preferred affinities (Karpenter: relaxation).
    pub(super) spread: bool,
}

/// A set of a class's preferences, by index; those beyond 64 are never in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct PreferenceSet(u64);

impl PreferenceSet {
    pub(super) fn has(self, at: usize) -> bool {
        at < 64 && self.0 & (1 << at) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn with(self, at: usize) -> Self {
        if at < 64 { Self(self.0 | 1 << at) } else { self }
    }

    pub(super) fn without(self, at: usize) -> Self {
        if at < 64 { Self(self.0 & !(1 << at)) } else { self }
    }
}

/// Whether a rule is in force under `preferences`: required rules always are.
pub(super) fn in_force(preference: Option<u8>, preferences: PreferenceSet) -> bool {
    preference.is_none_or(|at| preferences.has(usize::from(at)))
}

#[derive(Debug)]
pub(super) struct Class {
    pub(super) shape: u32,
    /// Indices of the pods, ascending.
    pub(super) pods: Vec<u32>,
    pub(super) request: Amounts,
    /// Node requirements, one of which must hold; empty when none can.
    pub(super) alternatives: SmallVec<[RequirementsId; 1]>,
    pub(super) rules: Vec<ClassRule>,
    pub(super) preferences: Vec<Preference>,
    /// Groups whose predicate selects these pods.
    pub(super) selected_by: Vec<GroupId>,
    /// Whether the pods require an architecture (see `safe-architectures`).
    pub(super) requires_arch: bool,
    /// Pools (by index) whose spot wait has not elapsed for these pods.
    pub(super) spot_wait_pools: Vec<u32>,
    /// Whether planning can place the pods at all.
    pub(super) possible: bool,
    /// The hostname group that allows at most one pod of this class per machine.
    pub(super) self_exclusive: Option<GroupId>,
    /// Claims that one pod of the cluster may use; with any, one pod of the class can be placed.
    pub(super) exclusive_claims: Vec<Text>,
}

#[derive(PartialEq, Eq, Hash)]
struct ClassKey {
    shape: u32,
    namespace: Option<Text>,
    volumes: Option<u32>,
    selected_by: Vec<GroupId>,
    spot_wait_pools: Vec<u32>,
    possible: bool,
}

/// Splits the pods of `input` into classes, in the order of their first pods.
pub(super) fn split_into_classes(
    input: &PlanningInput,
    resources: &ResourceOrder,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> Vec<Class> {
    let rules = register_rules(input, selector_index, topology, fits);
    let mut by_key: FxHashMap<ClassKey, usize> = FxHashMap::default();
    let mut by_pod: FxHashMap<(u32, &str, u32, Option<u32>), usize> = FxHashMap::default();
    let waiting = input.pools.iter().any(|pool| pool.rules.spot_fallback_after.is_some());
    let mut classes: Vec<Class> = Vec::new();
    // `by_pod` avoids computing the key of a pod whose class depends on its indices alone.
    for (index, pod) in (0_u32..).zip(&input.pods) {
        let quick = (pod.shape, pod.namespace.as_ref(), pod.labels, pod.volumes);
        let plain = !waiting && pod.invalid.is_none();
        let at = match by_pod.get(&quick) {
            Some(at) if plain => *at,
            _ => {
                let key = key_of(input, pod, selector_index, topology);
                *by_key.entry(key).or_insert_with_key(|key| {
                    let rules = &rules[&(pod.shape, pod.namespace.clone())];
                    classes.push(class_of(input, pod, key, resources, rules, fits, selector_index, topology));
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

fn key_of(input: &PlanningInput, pod: &Pod, selector_index: &SelectorIndex<'_>, topology: &Topology) -> ClassKey {
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
        selected_by: topology.selected_by(selector_index.id(&pod.namespace, pod.labels)).to_vec(),
        spot_wait_pools: spot_wait_pools(input, pod),
        possible: pod.invalid.is_none() && !blocked,
    }
}

/// Pools whose spot wait has not elapsed for this pod (plan contract §4).
fn spot_wait_pools(input: &PlanningInput, pod: &Pod) -> Vec<u32> {
    let waits = |after: Millis| pod.created.is_some_and(|created| input.now.duration_since(created) < after);
    (0_u32..)
        .zip(&input.pools)
        .filter(|(_, pool)| pool.rules.spot_fallback_after.is_some_and(waits))
        .map(|(at, _)| at)
        .collect()
}

type Rules = FxHashMap<(u32, Text), (Vec<ClassRule>, Vec<Preference>)>;

/// Registers the rules of all pods before pods are split into classes: the split depends on all
/// groups.
fn register_rules(
    input: &PlanningInput,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> Rules {
    let mut rules = Rules::default();
    let mut seen: FxHashMap<(u32, &str), ()> = FxHashMap::default();
    for pod in &input.pods {
        if seen.insert((pod.shape, &pod.namespace), ()).is_none() {
            let shape = &input.shapes[pod.shape as usize];
            let made = rules_of(input, shape, &pod.namespace, selector_index, topology, fits);
            rules.insert((pod.shape, pod.namespace.clone()), made);
        }
    }
    rules
}

fn rules_of(
    input: &PlanningInput,
    shape: &PodShape,
    namespace: &Text,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &mut FitTable,
) -> (Vec<ClassRule>, Vec<Preference>) {
    let mut builder =
        RuleBuilder { shape, namespace, selector_index, topology, fits, rules: Vec::new(), preferences: Vec::new() };
    for constraint in shape.spread.iter().filter(|constraint| constraint.hard) {
        builder.add_spread(constraint, None);
    }
    builder.add_affinity(&shape.pod_affinity);
    for term in &shape.pod_anti_affinity {
        builder.add_anti_affinity(term, None);
    }
    if input.policy.preferences == PreferencePolicy::Respect {
        builder.add_preferences(input.policy.max_preferred_terms());
    }
    (builder.rules, builder.preferences)
}

struct RuleBuilder<'m, 'i> {
    shape: &'m PodShape,
    namespace: &'m Text,
    selector_index: &'m SelectorIndex<'i>,
    topology: &'m mut Topology,
    fits: &'m mut FitTable,
    rules: Vec<ClassRule>,
    preferences: Vec<Preference>,
}

impl RuleBuilder<'_, '_> {
    fn add_rule(&mut self, spec: GroupSpec, kind: RuleKind, preference: Option<u8>) {
        let key = spec.key;
        let group = self.topology.group_id(spec, self.selector_index);
        if preference.is_none() {
            self.topology.mark_hard(group);
        }
        self.rules.push(ClassRule { group, key, kind, preference });
    }

    fn add_preference(&mut self, weight: i32, requirements: Option<Requirements>, host: bool) -> Option<u8> {
        self.preferences.push(Preference { weight, requirements, host, spread: false });
        u8::try_from(self.preferences.len() - 1).ok()
    }

    fn add_spread(&mut self, constraint: &SpreadConstraint, preference: Option<u8>) {
        let key = self.topology.key_id(&constraint.topology_key);
        let own = Namespaces::These([self.namespace.clone()].into());
        let any_of = constraint.honor_node_affinity.then(|| node_alternatives(self.shape, None, self.fits).to_vec());
        let unconstrained =
            any_of.as_ref().is_some_and(|ids| ids.iter().any(|id| self.fits.requirements(*id).is_empty()));
        let filter = NodeFilter {
            any_of: any_of.filter(|_| !unconstrained),
            tolerations: constraint.honor_node_taints.then(|| self.shape.tolerations.clone()),
            keys: if preference.is_none() { self.other_keys(key) } else { Vec::new() },
        };
        let rule = RuleKind::Spread {
            max_skew: u32::try_from(constraint.max_skew).unwrap_or(1),
            min_domains: constraint.min_domains.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            selects_self: false,
            honor_affinity: constraint.honor_node_affinity,
            honor_taints: constraint.honor_node_taints,
        };
        let predicate = vec![(own, constraint.selector.clone())];
        self.add_rule(GroupSpec { key, predicate, filter, anti: false }, rule, preference);
    }

    /// The keys of the hard spread constraints, apart from `own` and the hostname, which every node
    /// has.
    fn other_keys(&mut self, own: KeyId) -> Vec<KeyId> {
        let hard = self.shape.spread.iter().filter(|constraint| constraint.hard);
        let mut keys: Vec<KeyId> = hard.map(|constraint| self.topology.key_id(&constraint.topology_key)).collect();
        keys.retain(|key| *key != own && *key != Topology::HOST);
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// One pod must match all terms, as in kube-scheduler (L48): one predicate, and a group per
    /// key.
    fn add_affinity(&mut self, terms: &[PodAffinityTerm]) {
        let predicate: Predicate = terms.iter().map(|term| self.pair(term)).collect();
        let mut keys: Vec<KeyId> = terms.iter().map(|term| self.topology.key_id(&term.topology_key)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let spec = GroupSpec { key, predicate: predicate.clone(), filter: NodeFilter::default(), anti: false };
            self.add_rule(spec, RuleKind::Affinity { bootstrap: false }, None);
        }
    }

    fn pair(&self, term: &PodAffinityTerm) -> (Namespaces, Option<model::LabelSelector>) {
        (self.selector_index.namespaces_of(term, self.namespace), term.selector.clone())
    }

    fn add_anti_affinity(&mut self, term: &PodAffinityTerm, preference: Option<u8>) {
        let key = self.topology.key_id(&term.topology_key);
        let spec = GroupSpec {
            key,
            predicate: vec![self.pair(term)],
            filter: NodeFilter::default(),
            anti: preference.is_none(),
        };
        self.add_rule(spec, RuleKind::AntiAffinity { selects_self: false }, preference);
    }

    /// Adds the heaviest `most` preferences; of equal weights, those stated first.
    fn add_preferences(&mut self, most: usize) {
        let host = |key: &str| key == model::labels::HOSTNAME;
        let shape = self.shape;
        let soft_spreads = || shape.spread.iter().filter(|constraint| !constraint.hard);
        let nodes = shape.preferred_node_affinity.iter().map(|preferred| preferred.weight);
        let near = shape.preferred_pod_affinity.iter().map(|preferred| preferred.weight);
        let separate = shape.preferred_pod_anti_affinity.iter().map(|preferred| preferred.weight);
        let weights: Vec<i32> = nodes.chain(near).chain(separate).chain(soft_spreads().map(|_| 1)).collect();
        let mut kept = heaviest(&weights, most).into_iter();
        let mut keeps = || kept.next().unwrap_or(false);
        for preferred in shape.preferred_node_affinity.iter().filter(|_| keeps()) {
            let requirements: Requirements = preferred.term.expressions.iter().cloned().collect();
            self.add_preference(preferred.weight, Some(requirements), false);
        }
        for preferred in shape.preferred_pod_affinity.iter().filter(|_| keeps()) {
            let preference = self.add_preference(preferred.weight, None, host(&preferred.term.topology_key));
            let key = self.topology.key_id(&preferred.term.topology_key);
            let predicate = vec![self.pair(&preferred.term)];
            let spec = GroupSpec { key, predicate, filter: NodeFilter::default(), anti: false };
            self.add_rule(spec, RuleKind::Affinity { bootstrap: false }, preference);
        }
        for preferred in shape.preferred_pod_anti_affinity.iter().filter(|_| keeps()) {
            let preference = self.add_preference(preferred.weight, None, host(&preferred.term.topology_key));
            self.add_anti_affinity(&preferred.term, preference);
        }
        for constraint in soft_spreads().filter(|_| keeps()) {
            let preference = self.add_preference(1, None, host(&constraint.topology_key));
            self.preferences.iter_mut().last().into_iter().for_each(|added| added.spread = true);
            self.add_spread(constraint, preference);
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
    resources: &ResourceOrder,
    (rules, preferences): &(Vec<ClassRule>, Vec<Preference>),
    fits: &mut FitTable,
    selector_index: &SelectorIndex<'_>,
    topology: &Topology,
) -> Class {
    let shape = &input.shapes[pod.shape as usize];
    let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize]);
    let mut request = resources.demand(&shape.requests);
    if let Some(volumes) = volumes {
        resources.add_attachments(&mut request, &volumes.attachments);
    }
    let pod_labels = selector_index.id(&pod.namespace, pod.labels);
    // Whether a rule selects its own pod depends on the labels, so it is set per class.
    let rules: Vec<ClassRule> =
        rules.iter().map(|rule| with_self_selection(rule, topology.selects(rule.group, pod_labels))).collect();
    let refuses_itself = |rule: &&ClassRule| {
        rule.preference.is_none()
            && rule.key == Topology::HOST
            && matches!(
                rule.kind,
                RuleKind::AntiAffinity { selects_self: true } | RuleKind::Spread { selects_self: true, .. }
            )
    };
    let arch = |requirement: &Requirement| requirement.key().as_ref() == ARCH;
    Class {
        shape: pod.shape,
        pods: Vec::new(),
        request,
        alternatives: node_alternatives(shape, volumes.map(|volumes| volumes.any_of.as_slice()), fits),
        preferences: preferences.clone(),
        selected_by: key.selected_by.clone(),
        requires_arch: shape.node_selector.keys().any(|key| model::labels::canonical_key(key) == ARCH)
            || shape.node_affinity.iter().any(|term| term.expressions.iter().any(arch)),
        spot_wait_pools: key.spot_wait_pools.clone(),
        possible: key.possible,
        self_exclusive: rules.iter().find(refuses_itself).map(|rule| rule.group),
        exclusive_claims: volumes.map(|volumes| volumes.exclusive_claims.clone()).unwrap_or_default(),
        rules,
    }
}

/// `rule`, with whether its group selects the pod that carries it.
fn with_self_selection(rule: &ClassRule, selects_itself: bool) -> ClassRule {
    let mut rule = rule.clone();
    match &mut rule.kind {
        RuleKind::Spread { selects_self, .. } | RuleKind::AntiAffinity { selects_self } => {
            *selects_self = selects_itself
        }
        RuleKind::Affinity { bootstrap } => *bootstrap = selects_itself,
    }
    rule
}

/// The node requirements of a pod as alternatives: the node selector with each node affinity term
/// and each volume alternative.
pub(super) fn node_alternatives(
    shape: &PodShape,
    volumes: Option<&[Requirements]>,
    fits: &mut FitTable,
) -> SmallVec<[RequirementsId; 1]> {
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
        let operator = if names.finite_values().is_some() { model::Operator::In } else { model::Operator::NotIn };
        all.add(Requirement::new(NAME_FIELD, operator, values));
    }
    Some(all)
}
