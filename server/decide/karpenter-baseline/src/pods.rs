//! Pods as the greedy sees them: kinds of identical pods, and the steps by which a kind is relaxed.

use std::collections::BTreeMap;

use model::input::{PlanningInput, PreferencePolicy};
use model::{Effect, NodePool, Pod, PodShape, Requirement, Requirements, Taint, Text, Weighted};

use crate::amounts::{Amounts, ResourceColumns};

/// Identical pods: what one of them may do, any of them may.
pub(crate) struct PodKind {
    pub(crate) namespace: Text,
    /// Index into `PlanningInput::label_sets`.
    pub(crate) labels: u32,
    /// Index into `PlanningInput::volume_sets`.
    pub(crate) volumes: Option<u32>,
    pub(crate) requests: Amounts,
    /// The kind as it is written, then relaxed by one more step each.
    pub(crate) variants: Vec<Variant>,
}

/// A kind of pod, relaxed by some number of steps.
pub(crate) struct Variant {
    pub(crate) shape: PodShape,
    /// Node selector, first required term, and heaviest preferred term.
    pub(crate) requirements: Requirements,
    /// The same without the preferred term: what topology counts by.
    pub(crate) strict: Requirements,
    /// Whether every `PreferNoSchedule` taint is tolerated.
    tolerates_soft_taints: bool,
}

impl Variant {
    fn of(shape: PodShape, tolerates_soft_taints: bool, preferences: PreferencePolicy) -> Self {
        let strict = strict_requirements(&shape);
        let mut requirements = strict.clone();
        if preferences == PreferencePolicy::Respect
            && let Some(at) = heaviest(&shape.preferred_node_affinity)
        {
            add_expressions(&mut requirements, &shape.preferred_node_affinity[at].term.expressions);
        }
        Self { shape, requirements, strict, tolerates_soft_taints }
    }

    /// Whether every taint is tolerated. `PreferNoSchedule` counts as a hard taint until it is relaxed.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        taints.iter().all(|taint| {
            (self.tolerates_soft_taints && taint.effect == Effect::PreferNoSchedule)
                || self.shape.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
    }

    /// The variant after one more step of relaxation (Karpenter core §3.6); `None` after the last.
    fn relaxed(&self, preferences: PreferencePolicy, has_soft_taints: bool) -> Option<Self> {
        let mut shape = self.shape.clone();
        let mut tolerates_soft_taints = self.tolerates_soft_taints;
        if shape.node_affinity.len() > 1 {
            shape.node_affinity.remove(0);
        } else if preferences == PreferencePolicy::Respect && drop_preference(&mut shape) {
        } else if has_soft_taints && !tolerates_soft_taints {
            tolerates_soft_taints = true;
        } else {
            return None;
        }
        Some(Self::of(shape, tolerates_soft_taints, preferences))
    }
}

/// Drops the next soft constraint: pod affinity, pod anti-affinity, node affinity, spread.
fn drop_preference(shape: &mut PodShape) -> bool {
    if let Some(at) = heaviest(&shape.preferred_pod_affinity) {
        shape.preferred_pod_affinity.remove(at);
    } else if let Some(at) = heaviest(&shape.preferred_pod_anti_affinity) {
        shape.preferred_pod_anti_affinity.remove(at);
    } else if let Some(at) = heaviest(&shape.preferred_node_affinity) {
        shape.preferred_node_affinity.remove(at);
    } else if let Some(at) = shape.spread.iter().position(|spread| !spread.hard) {
        shape.spread.swap_remove(at);
    } else {
        return false;
    }
    true
}

/// The first of the terms with the largest weight.
fn heaviest<T>(terms: &[Weighted<T>]) -> Option<usize> {
    (0..terms.len()).min_by_key(|at| -i64::from(terms[*at].weight))
}

fn strict_requirements(shape: &PodShape) -> Requirements {
    let mut requirements = Requirements::from_labels(&shape.node_selector);
    if let Some(term) = shape.node_affinity.first() {
        add_expressions(&mut requirements, &term.expressions);
    }
    requirements
}

pub(crate) fn add_expressions(requirements: &mut Requirements, expressions: &[Requirement]) {
    for expression in expressions {
        requirements.add(expression.clone());
    }
}

/// The kinds of all pods of the input, and the kind of each pod.
pub(crate) fn kinds(
    input: &PlanningInput,
    columns: &ResourceColumns,
    pools: &[&NodePool],
) -> (Vec<PodKind>, Vec<usize>) {
    let has_soft_taints =
        pools.iter().flat_map(|pool| &pool.taints).any(|taint| taint.effect == Effect::PreferNoSchedule);
    let mut kinds: Vec<PodKind> = Vec::new();
    let mut known = BTreeMap::new();
    let mut kind_of = |pod: &Pod| {
        *known.entry((pod.namespace.clone(), pod.shape, pod.labels, pod.volumes)).or_insert_with(|| {
            let shape = &input.shapes[pod.shape as usize];
            kinds.push(PodKind {
                namespace: pod.namespace.clone(),
                labels: pod.labels,
                volumes: pod.volumes,
                requests: columns.row(&shape.requests),
                variants: variants(shape, input.policy.preferences, has_soft_taints),
            });
            kinds.len() - 1
        })
    };
    let of_pods = input.pods.iter().map(&mut kind_of).collect();
    (kinds, of_pods)
}

fn variants(shape: &PodShape, preferences: PreferencePolicy, has_soft_taints: bool) -> Vec<Variant> {
    let first = Variant::of(shape.clone(), false, preferences);
    std::iter::successors(Some(first), |variant| variant.relaxed(preferences, has_soft_taints)).collect()
}
