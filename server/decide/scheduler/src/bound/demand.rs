//! The demand: placed pods by shape, in groups of equal node constraints.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::node_constraints::NodeConstraints;
use model::input::PlanningInput;
use model::plan::Plan;
use model::{NodeSelectorTerm, Text, Toleration};

/// Maximum number of groups. More would hardly tighten the bound, and cost time.
const MAX_GROUPS: usize = 12;
/// Maximum number of resources. Ignoring further ones can only lower the bound.
const MAX_RESOURCES: usize = 8;

/// The pods of one shape that a plan places.
pub(super) struct ShapeDemand {
    pub(super) shape: u32,
    pub(super) pods: i64,
    pub(super) group: usize,
    /// Amounts of [`Demand::resources`].
    pub(super) requests: Vec<i64>,
}

/// All pods that a plan places.
pub(super) struct Demand<'a> {
    pub(super) resources: Vec<Text>,
    pub(super) shapes: Vec<ShapeDemand>,
    /// Node constraints of each group; `None` for the group of the remaining small ones, which may
    /// use everything.
    pub(super) groups: Vec<Option<NodeConstraints<'a>>>,
    /// Amounts by group and resource.
    pub(super) amounts: Vec<Vec<i128>>,
}

type Parts<'a> = (&'a BTreeMap<Text, Text>, &'a [NodeSelectorTerm], &'a [Toleration]);

impl<'a> Demand<'a> {
    /// Counts the pods placed by `plan`.
    pub(super) fn of(input: &'a PlanningInput, plan: &Plan) -> Self {
        let mut pods = vec![0_i64; input.shapes.len()];
        let new = plan.nodes.iter().flat_map(|node| &node.pods);
        for pod in new.chain(plan.placements.iter().map(|(pod, _)| pod)) {
            if let Some(pod) = input.pods.get(*pod as usize) {
                pods[pod.shape as usize] += 1;
            }
        }
        Self::of_shapes(input, pods)
    }

    /// `pods` of each shape.
    pub(super) fn of_shapes(input: &'a PlanningInput, pods: Vec<i64>) -> Self {
        let resources = resources(input, &pods);
        let (groups, group_of) = groups(input, &pods);
        let mut amounts = vec![vec![0_i128; resources.len()]; groups.len()];
        let mut shapes = Vec::new();
        for (shape, pods) in (0_u32..).zip(pods).filter(|(_, pods)| *pods > 0) {
            let wanted = &input.shapes[shape as usize].requests;
            let requests: Vec<i64> = resources.iter().map(|name| wanted.get(name).max(0)).collect();
            let group = group_of[shape as usize];
            for (sum, amount) in amounts[group].iter_mut().zip(&requests) {
                *sum += i128::from(*amount) * i128::from(pods);
            }
            shapes.push(ShapeDemand { shape, pods, group, requests });
        }
        Self { resources, shapes, groups, amounts }
    }
}

/// Resources that placed pods request, by name.
fn resources(input: &PlanningInput, pods: &[i64]) -> Vec<Text> {
    let mut names: Vec<Text> = Vec::new();
    for (shape, _) in input.shapes.iter().zip(pods).filter(|(_, pods)| **pods > 0) {
        for (name, _) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names.sort();
    names.truncate(MAX_RESOURCES);
    names
}

/// Groups of equal node constraints, those with most pods first, and the group of each shape.
fn groups<'a>(input: &'a PlanningInput, pods: &[i64]) -> (Vec<Option<NodeConstraints<'a>>>, Vec<usize>) {
    let mut ids: FxHashMap<Parts<'a>, usize> = FxHashMap::default();
    let mut sizes: Vec<(i64, usize)> = Vec::new();
    let mut group_ids = vec![usize::MAX; input.shapes.len()];
    for (at, shape) in input.shapes.iter().enumerate().filter(|(at, _)| pods[*at] > 0) {
        let parts = (&shape.node_selector, shape.node_affinity.as_slice(), shape.tolerations.as_slice());
        let next = sizes.len();
        let id = *ids.entry(parts).or_insert(next);
        if id == next {
            sizes.push((0, at));
        }
        sizes[id].0 += pods[at];
        group_ids[at] = id;
    }
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|id| (std::cmp::Reverse(sizes[*id].0), *id));
    let all_own = sizes.len() <= MAX_GROUPS;
    let own = if all_own { sizes.len() } else { MAX_GROUPS - 1 };
    let mut rank = vec![own; sizes.len()];
    by_size.iter().enumerate().for_each(|(at, id)| rank[*id] = at.min(own));
    let mut groups: Vec<Option<NodeConstraints<'a>>> =
        by_size.iter().take(own).map(|id| Some(NodeConstraints::of(&input.shapes[sizes[*id].1]))).collect();
    if !all_own {
        groups.push(None);
    }
    let group_of = group_ids.iter().map(|id| rank.get(*id).copied().unwrap_or(0)).collect();
    (groups, group_of)
}
