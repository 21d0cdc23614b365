//! Notes about violated preferences.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::launch::could_launch;
use crate::placed_pods::NodeRef;
use crate::pod_requirements::{Alternative, PodRequirements, alternatives};
use crate::snapshot::PlanSnapshot;
use crate::topology::{Topology, selects_pod};
use model::input::{PlanningInput, PreferencePolicy};
use model::taints::{first_untolerated, has_untolerated_soft_taint};
use model::{Effect, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, SpreadConstraint, Text, Toleration};

use super::placed_workloads::{Name, Workloads, add_note, named};

/// Whether some placed pod has a preference, or some node a `PreferNoSchedule` taint.
pub(super) fn any_stated(input: &PlanningInput, workloads: &Workloads<'_>) -> bool {
    let soft_taint = |taints: &[model::Taint]| taints.iter().any(|t| t.effect == Effect::PreferNoSchedule);
    let prefers = |(pod, _): &(u32, NodeRef)| states_any(&input.shapes[input.pods[*pod as usize].shape as usize]);
    input.policy.preferences == PreferencePolicy::Respect
        && (input.pools.iter().any(|pool| soft_taint(&pool.taints))
            || input.nodes.iter().any(|node| soft_taint(&node.taints))
            || workloads.values().flatten().any(prefers))
}

/// Adds a note about pods with more preferences than scheduling evaluates.
pub(super) fn add_preference_limit_note(input: &PlanningInput, notes: &mut BTreeSet<String>) {
    let most = input.policy.max_preferred_terms();
    let beyond = |pod: &&Pod| input.shapes[pod.shape as usize].preferences() > most;
    let first = input.pods.iter().find(beyond);
    if let Some(first) = first.filter(|_| input.policy.preferences == PreferencePolicy::Respect) {
        let pods = input.pods.iter().filter(beyond).count();
        notes.insert(format!(
            "{pods} pods state more than {most} preferences, {}/{} among them: only their {most} heaviest are looked at",
            first.namespace, first.name
        ));
    }
}

fn states_any(shape: &PodShape) -> bool {
    !shape.preferred_node_affinity.is_empty()
        || !shape.preferred_pod_affinity.is_empty()
        || !shape.preferred_pod_anti_affinity.is_empty()
        || shape.spread.iter().any(|constraint| !constraint.hard)
}

/// Adds one note per kind of violated preference.
pub(super) fn add_notes<'w>(snapshot: &'w PlanSnapshot<'w>, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    if snapshot.input.policy.preferences == PreferencePolicy::Ignore {
        return;
    }
    for (subject, broken) in violations(snapshot, workloads) {
        let named = broken.iter().map(|(name, number, all)| named(*name, *number, &format!(" of {all}")));
        add_note(&subject, &named.collect::<Vec<String>>(), "", notes);
    }
}

/// Number of violated preferences of placed pods.
pub(super) fn count_violations<'w>(snapshot: &'w PlanSnapshot<'w>, workloads: &Workloads<'_>) -> usize {
    let kinds = violations(snapshot, workloads);
    kinds.iter().flat_map(|(_, broken)| broken).map(|(_, number, _)| number).sum()
}

/// The workloads with pods that violate a preference, by kind of preference: such pods, and all of the workload.
fn violations<'w, 'n>(snapshot: &'w PlanSnapshot<'w>, workloads: &Workloads<'n>) -> Vec<(String, Violations<'n>)> {
    let mut checker = PreferenceChecker {
        snapshot,
        counts: BTreeMap::new(),
        spreads: BTreeMap::new(),
        eligible_nodes: BTreeMap::new(),
        lighter_pools: BTreeMap::new(),
    };
    // One checker serves all kinds, so that counts are computed once.
    let kinds: [(&'static str, PreferenceCheck<'w>); 5] = [
        ("preferred node affinity could not be kept", PreferenceChecker::breaks_node_affinity_whatever_the_weight),
        ("preferred pod affinity could not be kept", PreferenceChecker::breaks_affinity),
        ("preferred pod anti-affinity could not be kept", PreferenceChecker::breaks_anti_affinity),
        ("ScheduleAnyway topology spread could not be kept", PreferenceChecker::breaks_spread),
        (
            "pods run on nodes with a PreferNoSchedule taint that they do not tolerate",
            PreferenceChecker::is_discouraged,
        ),
    ];
    let mut found = outweighed(&mut checker, workloads);
    for (subject, breaks) in kinds {
        let mut broken = Vec::new();
        for (name, pods) in workloads {
            let number = pods
                .iter()
                .filter(|(pod, node_ref)| breaks(&mut checker, &snapshot.input.pods[*pod as usize], *node_ref));
            let number = number.count();
            if number > 0 {
                broken.push((*name, number, pods.len()));
            }
        }
        found.push((subject.to_owned(), broken));
    }
    found
}

/// The workloads with pods whose preferred node affinity the weight of a NodePool goes before, by the two NodePools.
fn outweighed<'n>(checker: &mut PreferenceChecker<'_>, workloads: &Workloads<'n>) -> Vec<(String, Violations<'n>)> {
    let input = checker.snapshot.input;
    let mut by_pools: BTreeMap<(u32, u32), Violations<'n>> = BTreeMap::new();
    for (name, pods) in workloads {
        let mut numbers: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (pod, node_ref) in pods {
            if let Some(pools) = checker.pools_by_weight(&input.pods[*pod as usize], *node_ref) {
                *numbers.entry(pools).or_default() += 1;
            }
        }
        for (pools, number) in numbers {
            by_pools.entry(pools).or_default().push((*name, number, pods.len()));
        }
    }
    let subject = |(heavier, lighter): (u32, u32)| {
        let (heavier, lighter) = (&input.pools[heavier as usize], &input.pools[lighter as usize]);
        format!(
            "NodePool {} (weight {}) went before the preferred node affinity, which NodePool {} (weight {}) could keep",
            heavier.name, heavier.weight, lighter.name, lighter.weight
        )
    };
    by_pools.into_iter().map(|(pools, broken)| (subject(pools), broken)).collect()
}

/// Workloads with pods that violate a preference: such pods, and all of the workload.
type Violations<'n> = Vec<(Name<'n>, usize, usize)>;

/// Whether a pod on this node violates one kind of preference.
type PreferenceCheck<'w> = fn(&mut PreferenceChecker<'w>, &Pod, NodeRef) -> bool;

/// Matching pods by domain of one key.
#[derive(Debug, Default)]
struct Counts<'w> {
    /// Number of selected pods, by domain.
    pods: BTreeMap<&'w Text, i64>,
    /// The minimum over all domains with a node.
    least: i64,
}

/// The nodes that count, and the number of their domains.
#[derive(Debug)]
struct EligibleNodes {
    /// Whether each node of the input counts, by index; `planned` is the same for planned nodes.
    nodes: Vec<bool>,
    planned: Vec<bool>,
    domains: usize,
}

/// Checks the preferences of placed pods. Counts are cached per term and namespace, eligible nodes
/// per set of constraints that decides them.
struct PreferenceChecker<'w> {
    snapshot: &'w PlanSnapshot<'w>,
    counts: BTreeMap<(PodAffinityTerm, Text), Counts<'w>>,
    /// Counts of spread constraints, by shape, index in the shape, and namespace.
    spreads: BTreeMap<(u32, usize, Text), Counts<'w>>,
    eligible_nodes: BTreeMap<(&'w Text, Scope<'w>), Rc<EligibleNodes>>,
    /// The lighter NodePool that could keep preferred node affinity.
    lighter_pools: BTreeMap<BrokenNodeAffinity, Option<u32>>,
}

/// The shape and the volumes of a pod, the NodePool of its new node, and the preferred terms that the node breaks.
type BrokenNodeAffinity = (u32, Option<u32>, u32, Vec<usize>);

/// Node constraints of a pod: node selector, node affinity, tolerations.
type Scope<'w> = (&'w BTreeMap<Text, Text>, &'w [NodeSelectorTerm], &'w [Toleration]);

impl<'w> PreferenceChecker<'w> {
    fn shape(&self, pod: &Pod) -> &'w PodShape {
        &self.snapshot.input.shapes[pod.shape as usize]
    }

    fn breaks_node_affinity_whatever_the_weight(&mut self, pod: &Pod, node_ref: NodeRef) -> bool {
        let is_broken = self.broken_node_affinity(pod, node_ref).next().is_some();
        is_broken && self.pools_by_weight(pod, node_ref).is_none()
    }

    /// The preferred terms that the node breaks.
    fn broken_node_affinity(&self, pod: &Pod, node_ref: NodeRef) -> impl Iterator<Item = usize> {
        let snapshot = self.snapshot;
        let kept = move |term: &NodeSelectorTerm| term.expressions.iter().all(|e| snapshot.satisfies(node_ref, e));
        let terms = self.shape(pod).preferred_node_affinity.iter().enumerate();
        terms.filter(move |(_, preferred)| !kept(&preferred.term)).map(|(at, _)| at)
    }

    /// The NodePool of the pod's new node, and a lighter one that could launch a node with a preferred label which that
    /// node lacks, if none that is as heavy could.
    fn pools_by_weight(&mut self, pod: &Pod, node_ref: NodeRef) -> Option<(u32, u32)> {
        let NodeRef::Planned(at) = node_ref else { return None };
        let (snapshot, own) = (self.snapshot, self.snapshot.plan.nodes[at as usize].pool);
        let pools = &snapshot.input.pools;
        if pools.iter().all(|pool| pool.weight >= pools[own as usize].weight) {
            return None;
        }
        let broken: Vec<usize> = self.broken_node_affinity(pod, node_ref).collect();
        if broken.is_empty() {
            return None;
        }
        let shape = self.shape(pod);
        let found = self.lighter_pools.entry((pod.shape, pod.volumes, own, broken)).or_insert_with_key(|key| {
            key.3.iter().find_map(|at| lighter_pool(snapshot, pod, own, &shape.preferred_node_affinity[*at].term))
        });
        found.map(|lighter| (own, lighter))
    }

    fn breaks_affinity(&mut self, pod: &Pod, node_ref: NodeRef) -> bool {
        let shape = self.shape(pod);
        shape
            .preferred_pod_affinity
            .iter()
            .any(|preferred| self.matching_in_domain(&preferred.term, pod, node_ref) == 0)
    }

    fn breaks_anti_affinity(&mut self, pod: &Pod, node_ref: NodeRef) -> bool {
        let shape = self.shape(pod);
        shape
            .preferred_pod_anti_affinity
            .iter()
            .any(|preferred| self.matching_in_domain(&preferred.term, pod, node_ref) > 0)
    }

    /// Number of other pods selected by the term in the domain of the pod.
    fn matching_in_domain(&mut self, term: &PodAffinityTerm, pod: &Pod, node_ref: NodeRef) -> i64 {
        let snapshot = self.snapshot;
        let own = snapshot.domains(node_ref, &term.topology_key);
        let [domain] = own.as_slice() else { return 0 };
        let labels = &snapshot.input.label_sets[pod.labels as usize];
        let itself = i64::from(selects_pod(snapshot, term, &pod.namespace, &pod.namespace, labels));
        let counts = self.counts.entry((term.clone(), pod.namespace.clone()));
        let counts = counts.or_insert_with(|| counts_of(snapshot, term, &pod.namespace, None));
        counts.pods.get(*domain).copied().unwrap_or(0) - itself
    }

    /// Whether the domain of the pod exceeds another domain with nodes by more than `maxSkew`.
    fn breaks_spread(&mut self, pod: &Pod, node_ref: NodeRef) -> bool {
        let shape = self.shape(pod);
        let mut soft = shape.spread.iter().enumerate().filter(|(_, constraint)| !constraint.hard);
        soft.any(|(at, constraint)| self.skewed(at, constraint, pod, node_ref))
    }

    fn skewed(&mut self, at: usize, constraint: &'w SpreadConstraint, pod: &Pod, node_ref: NodeRef) -> bool {
        let own = self.snapshot.domains(node_ref, &constraint.topology_key);
        let [domain] = own.as_slice() else { return false };
        let key = (pod.shape, at, pod.namespace.clone());
        if !self.spreads.contains_key(&key) {
            let counts = self.count_spread(constraint, pod);
            self.spreads.insert(key.clone(), counts);
        }
        let counts = &self.spreads[&key];
        counts.pods.get(*domain).copied().unwrap_or(0) - counts.least > i64::from(constraint.max_skew)
    }

    fn count_spread(&mut self, constraint: &'w SpreadConstraint, pod: &Pod) -> Counts<'w> {
        // A spread constraint counts as a term that selects pods of its own namespace.
        let term = PodAffinityTerm {
            topology_key: constraint.topology_key.clone(),
            selector: constraint.selector.clone(),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        // Nodes excluded by the selector and affinity of the pod are no domains of its spread.
        let eligible = self.eligible(&constraint.topology_key, self.shape(pod));
        counts_of(self.snapshot, &term, &pod.namespace, Some(&eligible))
    }

    /// The nodes admitted by selector, affinity and tolerations of `shape`.
    fn eligible(&mut self, key: &'w Text, shape: &'w PodShape) -> Rc<EligibleNodes> {
        let snapshot = self.snapshot;
        let scope = (&shape.node_selector, shape.node_affinity.as_slice(), shape.tolerations.as_slice());
        Rc::clone(
            self.eligible_nodes.entry((key, scope)).or_insert_with(|| Rc::new(EligibleNodes::of(snapshot, key, shape))),
        )
    }

    fn is_discouraged(&mut self, pod: &Pod, node_ref: NodeRef) -> bool {
        let taints = match node_ref {
            NodeRef::Existing(at) => self.snapshot.input.nodes[at as usize].taints.as_slice(),
            NodeRef::Planned(at) => &self.snapshot.plan.nodes[at as usize].taints,
        };
        has_untolerated_soft_taint(taints, &self.shape(pod).tolerations)
    }
}

/// The heaviest NodePool that could launch a node for the pod with what it prefers, if it is lighter than `own`.
fn lighter_pool(snapshot: &PlanSnapshot<'_>, pod: &Pod, own: u32, preferred: &NodeSelectorTerm) -> Option<u32> {
    let mut pod_reqs = PodRequirements::of(snapshot.input, pod);
    let required = &mut pod_reqs.shape.node_affinity;
    // An empty term matches nothing.
    required.retain(|term| !term.expressions.is_empty() || !term.names.is_empty());
    if required.is_empty() {
        required.push(NodeSelectorTerm { expressions: Vec::new(), names: Vec::new() });
    }
    required.iter_mut().for_each(|term| term.expressions.extend(preferred.expressions.iter().cloned()));
    let topology = Topology::of(snapshot, &pod_reqs);
    let weight = |pool: u32| snapshot.input.pools[pool as usize].weight;
    let healthy = snapshot.open_pools().filter(|(_, pool)| !pool.unhealthy).map(|(at, _)| at);
    let able = healthy.filter(|pool| could_launch(snapshot, &pod_reqs, &topology, *pool));
    able.max_by_key(|pool| (weight(*pool), Reverse(*pool))).filter(|pool| weight(*pool) < weight(own))
}

/// Pods that the term selects, by domain. With `eligible`, only these nodes count.
fn counts_of<'w>(
    snapshot: &'w PlanSnapshot<'w>,
    term: &PodAffinityTerm,
    namespace: &Text,
    eligible: Option<&EligibleNodes>,
) -> Counts<'w> {
    let mut counts = Counts::default();
    for group in snapshot.candidates(term.selector.as_ref()) {
        let labels = &snapshot.input.label_sets[group.labels as usize];
        if !selects_pod(snapshot, term, namespace, &group.namespace, labels) {
            continue;
        }
        for (&node_ref, number) in &group.nodes {
            if eligible.is_none_or(|eligible| eligible.has(node_ref))
                && let [one] = snapshot.domains(node_ref, &term.topology_key).as_slice()
            {
                *counts.pods.entry(*one).or_insert(0) += number;
            }
        }
    }
    let empty = eligible.is_some_and(|eligible| eligible.domains > counts.pods.len());
    counts.least = if empty { 0 } else { counts.pods.values().min().copied().unwrap_or(0) };
    counts
}

impl EligibleNodes {
    fn of(snapshot: &PlanSnapshot<'_>, key: &Text, shape: &PodShape) -> Self {
        let alternatives = alternatives(shape);
        let admitted = |node_ref| admits(snapshot, &alternatives, shape, node_ref);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let nodes = (0..number(snapshot.input.nodes.len())).map(NodeRef::Existing);
        let planned = (0..number(snapshot.plan.nodes.len())).map(NodeRef::Planned);
        let mut eligible = Self { nodes: nodes.clone().map(admitted).collect(), planned: Vec::new(), domains: 0 };
        eligible.planned = planned.clone().map(admitted).collect();
        let mut domains: BTreeSet<&Text> = BTreeSet::new();
        for node_ref in nodes.chain(planned).filter(|node_ref| eligible.has(*node_ref)) {
            if let [one] = snapshot.domains(node_ref, key).as_slice() {
                domains.insert(one);
            }
        }
        eligible.domains = domains.len();
        eligible
    }

    fn has(&self, node_ref: NodeRef) -> bool {
        match node_ref {
            NodeRef::Existing(at) => self.nodes[at as usize],
            NodeRef::Planned(at) => self.planned[at as usize],
        }
    }
}

fn admits(snapshot: &PlanSnapshot<'_>, alternatives: &[Alternative], shape: &PodShape, node_ref: NodeRef) -> bool {
    let taints = match node_ref {
        NodeRef::Existing(at) => snapshot.input.nodes[at as usize].taints.as_slice(),
        NodeRef::Planned(at) => &snapshot.plan.nodes[at as usize].taints,
    };
    let suits = |alternative: &Alternative| alternative.requirements.iter().all(|r| snapshot.satisfies(node_ref, r));
    first_untolerated(taints, &shape.tolerations).is_none() && alternatives.iter().any(suits)
}
