//! What must be placed: pods by shape, in groups of equal access to offerings.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::access::Access;
use crate::input::PlanningInput;
use crate::model::{NodeSelectorTerm, Text, Toleration};
use crate::plan::Plan;

/// More groups would tighten the bound hardly, and cost time.
const MOST_GROUPS: usize = 12;
/// Resources beyond these are left out, which can only lower the bound.
const MOST_RESOURCES: usize = 8;

/// The pods of one shape that a plan places.
pub(super) struct Kind {
    pub(super) shape: u32,
    pub(super) pods: i64,
    /// Group of equal access.
    pub(super) group: usize,
    /// Amounts of [`Demand::resources`].
    pub(super) requests: Vec<i64>,
}

/// All that a plan places.
pub(super) struct Demand<'a> {
    pub(super) resources: Vec<Text>,
    pub(super) kinds: Vec<Kind>,
    /// Access of each group; `None` for the group of the many small accesses, which may use everything.
    pub(super) groups: Vec<Option<Access<'a>>>,
    /// Amounts by group and resource.
    pub(super) amounts: Vec<Vec<i128>>,
}

type Parts<'a> = (&'a BTreeMap<Text, Text>, &'a [NodeSelectorTerm], &'a [Toleration]);

impl<'a> Demand<'a> {
    /// Counts the placed pods.
    pub(super) fn of(input: &'a PlanningInput, plan: &Plan) -> Self {
        let mut pods = vec![0_i64; input.shapes.len()];
        let new = plan.nodes.iter().flat_map(|node| &node.pods);
        for pod in new.chain(plan.placements.iter().map(|(pod, _)| pod)) {
            if let Some(pod) = input.pods.get(*pod as usize) {
                pods[pod.shape as usize] += 1;
            }
        }
        let resources = resources(input, &pods);
        let (groups, group_of) = groups(input, &pods);
        let mut amounts = vec![vec![0_i128; resources.len()]; groups.len()];
        let mut kinds = Vec::new();
        for (shape, pods) in (0_u32..).zip(pods).filter(|(_, pods)| *pods > 0) {
            let wanted = &input.shapes[shape as usize].requests;
            let requests: Vec<i64> = resources.iter().map(|name| wanted.get(name).max(0)).collect();
            let group = group_of[shape as usize];
            for (sum, amount) in amounts[group].iter_mut().zip(&requests) {
                *sum += i128::from(*amount) * i128::from(pods);
            }
            kinds.push(Kind { shape, pods, group, requests });
        }
        Self { resources, kinds, groups, amounts }
    }
}

/// Resources that placed pods ask for, by name.
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
    names.truncate(MOST_RESOURCES);
    names
}

/// Groups of equal access, those with most pods first, and the group of each shape.
fn groups<'a>(input: &'a PlanningInput, pods: &[i64]) -> (Vec<Option<Access<'a>>>, Vec<usize>) {
    let mut ids: FxHashMap<Parts<'a>, usize> = FxHashMap::default();
    let mut sizes: Vec<(i64, usize)> = Vec::new();
    let mut access_of = vec![usize::MAX; input.shapes.len()];
    for (at, shape) in input.shapes.iter().enumerate().filter(|(at, _)| pods[*at] > 0) {
        let parts = (&shape.node_selector, shape.node_affinity.as_slice(), shape.tolerations.as_slice());
        let next = sizes.len();
        let id = *ids.entry(parts).or_insert(next);
        if id == next {
            sizes.push((0, at));
        }
        sizes[id].0 += pods[at];
        access_of[at] = id;
    }
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|id| (std::cmp::Reverse(sizes[*id].0), *id));
    let all_own = sizes.len() <= MOST_GROUPS;
    let own = if all_own { sizes.len() } else { MOST_GROUPS - 1 };
    let mut rank = vec![own; sizes.len()];
    by_size.iter().enumerate().for_each(|(at, id)| rank[*id] = at.min(own));
    let mut groups: Vec<Option<Access<'a>>> =
        by_size.iter().take(own).map(|id| Some(Access::of(&input.shapes[sizes[*id].1]))).collect();
    if !all_own {
        groups.push(None);
    }
    let group_of = access_of.iter().map(|id| rank.get(*id).copied().unwrap_or(0)).collect();
    (groups, group_of)
}
