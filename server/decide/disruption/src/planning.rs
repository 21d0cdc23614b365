//! The order in which removals are planned.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::removal::RemovalReason;
use model::running::RunningCluster;
use planner::{CompileCache, plan_with};
use verifier::Violation;

use crate::Settings;
use crate::allowances::Allowances;
use crate::balance::Balance;
use crate::candidates::{self, Candidate};
use crate::commands::{self, Planned};
use crate::consolidation::{Found, Method, Pass, order_of_trials};
use crate::cost::DisruptionCost;
use crate::evacuation::{Evacuation, evacuate};
use crate::group::Groups;
use crate::launchable_domains::with_launchable_domains;
use crate::opt_in::{Change, OptInCounts};
use crate::static_pools;
use crate::working::{Step, WorkingCluster};
use crate::{Block, BlockCode, DisruptionPlan};

/// Maximum number of plans until every pod of the drifted nodes that go has a place.
const MAX_PLANS: usize = 6;

/// Maximum number of rounds of consolidation. Each but the last replaces a node that the one before did not.
const MAX_ROUNDS: usize = 6;

/// Everything that may start now in `running`, the nodes of `input`.
///
/// # Errors
/// The violations that the verifier finds in a plan that removes nothing: `input` itself is invalid.
pub fn plan(
    input: &PlanningInput,
    running: &RunningCluster,
    settings: &Settings,
    cache: &mut CompileCache,
) -> Result<DisruptionPlan, Vec<Violation>> {
    let (placed, mut notes) = place_waiting_pods(input, cache)?;
    let mut candidates = candidates::collect(input, running, settings);
    block_for_waiting_pods(input, &placed, &mut candidates);
    let mut planning = Planning {
        settings,
        allowances: Allowances::new(&candidates, &running.pod_budgets, (settings, input.now)),
        balance: Balance::new(input, &candidates),
        working: WorkingCluster::new(input, running, &placed),
        candidates,
        steps: Vec::new(),
        blocks: BTreeMap::new(),
        cache,
    };
    planning.remove_unhealthy_and_expired(&mut notes)?;
    planning.remove_empty();
    planning.remove_drifted()?;
    planning.consolidate();
    let Planning { candidates, working, steps, blocks, cache, .. } = planning;
    let planned = Planned { input, running, placed, candidates, steps, blocks, notes };
    commands::finish(planned, working, cache)
}

/// Pods and the nodes that have capacity for them, both by index.
type Placements = Vec<(u32, u32)>;

/// The placements of the pods that wait, and notes about the others.
fn place_waiting_pods(
    input: &PlanningInput,
    cache: &mut CompileCache,
) -> Result<(Placements, Vec<String>), Vec<Violation>> {
    if input.pods.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut without_search = input.clone();
    without_search.policy.search_steps = 0;
    let plan = plan_with(&without_search, cache)?.plan;
    let others = input.pods.len() - plan.placements.len();
    let note = format!("{others} pods wait that no node has capacity for: their machines are no part of this plan");
    Ok((plan.placements, (others > 0).then_some(note).into_iter().collect()))
}

/// Pods that wait are planned on these nodes, so none of them is empty or underutilized.
fn block_for_waiting_pods(input: &PlanningInput, placed: &[(u32, u32)], candidates: &mut [Option<Candidate<'_>>]) {
    let first: BTreeMap<u32, u32> = placed.iter().rev().map(|(pod, node)| (*node, *pod)).collect();
    for candidate in candidates.iter_mut().flatten() {
        let Some(pod) = first.get(&candidate.node.node) else { continue };
        let object = format!("Pod/{}", input.pods[*pod as usize].key());
        let block = Block::new(BlockCode::PendingPods, object, "waits, and is planned on the node");
        let consolidated = [RemovalReason::Empty, RemovalReason::Underutilized];
        for (_, blocks) in candidate.reasons.iter_mut().filter(|(reason, _)| consolidated.contains(reason)) {
            blocks.push(block.clone());
        }
    }
}

struct Planning<'i, 'c> {
    settings: &'c Settings,
    candidates: Vec<Option<Candidate<'i>>>,
    allowances: Allowances<'i>,
    balance: Balance<'i>,
    working: WorkingCluster<'i>,
    steps: Vec<Step>,
    /// Why nodes stay that nothing held before planning, by index and reason.
    blocks: BTreeMap<(u32, RemovalReason), Vec<Block>>,
    cache: &'c mut CompileCache,
}

impl Planning<'_, '_> {
    fn apply(&mut self, step: Step) {
        self.working.apply(step.clone());
        self.steps.push(step);
    }

    /// The nodes that are there and may go for `reason`, by index into the candidates.
    fn free_for(&self, reason: RemovalReason) -> Vec<usize> {
        let is_free = |(at, candidate): (usize, &Option<Candidate<'_>>)| {
            let candidate = candidate.as_ref()?;
            let is_there = !self.working.nodes[candidate.node.node as usize].is_gone;
            (is_there && candidate.may_go(reason)).then_some(at)
        };
        self.candidates.iter().enumerate().filter_map(is_free).collect()
    }

    /// Forceful removals: neither budgets nor PodDisruptionBudgets block them, but they use both up.
    fn remove_unhealthy_and_expired(&mut self, notes: &mut Vec<String>) -> Result<(), Vec<Violation>> {
        for reason in [RemovalReason::Unhealthy, RemovalReason::Expired] {
            let leaving: Vec<usize> = self.free_for(reason);
            for candidate in leaving.iter().filter_map(|at| self.candidates[*at].as_ref()) {
                self.allowances.take(candidate);
            }
            let nodes = self.nodes_of(&leaving, reason);
            if nodes.is_empty() {
                continue;
            }
            let Evacuation { step, unplaced, .. } = evacuate(&self.working, &nodes, self.cache)?;
            notes.extend(unplaced.iter().map(|(pod, why)| {
                let key = &self.working.pods[*pod as usize].running.facts.key;
                format!("pod {key} has no place after the removal of its node, which nothing holds: {why}")
            }));
            self.apply(step);
        }
        Ok(())
    }

    fn nodes_of(&self, candidates: &[usize], reason: RemovalReason) -> Vec<(u32, RemovalReason)> {
        let node = |at: &usize| Some((self.candidates[*at].as_ref()?.node.node, reason));
        candidates.iter().filter_map(node).collect()
    }

    /// The dearest nodes first.
    fn remove_empty(&mut self) {
        let mut free = self.free_for(RemovalReason::Empty);
        let price = |at: &usize| self.candidates[*at].as_ref().map(|candidate| candidate.node.price);
        free.sort_by_key(|at| (std::cmp::Reverse(price(at)), *at));
        let mut opt_in = OptInCounts::of(&self.working);
        for at in free {
            let Some(candidate) = &mut self.candidates[at] else { continue };
            let node = candidate.node.node;
            // Pods of nodes that went before may be on it.
            if self.working.nodes[node as usize].movable().next().is_some() {
                candidate.take_into_use();
                continue;
            }
            let mut blocks = self.allowances.blocks(candidate, RemovalReason::Empty);
            let removed = [node];
            let change = Change { removed: &removed, launches: &[], moves: &[] };
            blocks.extend(opt_in.block(&self.working, change));
            if blocks.is_empty() {
                self.allowances.take(candidate);
                opt_in.apply(&self.working, change);
                self.apply(Step { removed: vec![(node, RemovalReason::Empty)], ..Step::default() });
            } else {
                self.blocks.insert((node, RemovalReason::Empty), blocks);
            }
        }
    }

    /// Nodes without pods first, then those that drifted first (Karpenter: drift). A node whose pods find no
    /// place stays, and takes nothing from the others.
    fn remove_drifted(&mut self) -> Result<(), Vec<Violation>> {
        let mut order = self.free_for(RemovalReason::Drifted);
        let since = |at: usize| {
            let candidate = self.candidates[at].as_ref();
            candidate.map(|candidate| (!candidate.is_empty(), candidate.claim.drift.as_ref().map(|drift| drift.since)))
        };
        order.sort_by_key(|at| (since(*at), *at));
        let is_static = |at: &usize| self.candidates[*at].as_ref().is_some_and(|one| one.pool.replicas.is_some());
        let (of_static_pools, mut order): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_static);
        self.replace_static(&of_static_pools)?;
        for _ in 0..MAX_PLANS {
            let mut allowances = self.allowances.clone();
            let mut leaving = Vec::new();
            for at in &order {
                let Some(candidate) = &self.candidates[*at] else { continue };
                let blocks = allowances.blocks(candidate, RemovalReason::Drifted);
                if blocks.is_empty() {
                    allowances.take(candidate);
                    leaving.push((candidate.node.node, RemovalReason::Drifted));
                } else {
                    self.blocks.insert((candidate.node.node, RemovalReason::Drifted), blocks);
                }
            }
            if leaving.is_empty() {
                return Ok(());
            }
            let Evacuation { step, unplaced, blocks } = evacuate(&self.working, &leaving, self.cache)?;
            if let Some(block) = blocks.into_iter().next() {
                self.keep_last_of(&leaving, block, &mut order);
                continue;
            }
            if unplaced.is_empty() {
                leaving.iter().for_each(|removed| drop(self.blocks.remove(removed)));
                self.allowances = allowances;
                self.apply(step);
                return Ok(());
            }
            for (pod, why) in unplaced {
                let pod = &self.working.pods[pod as usize];
                let object = format!("Pod/{}", pod.running.facts.key);
                let block = Block::new(BlockCode::NoCapacity, object, format!("has no other place: {why}"));
                self.blocks.entry((pod.node, RemovalReason::Drifted)).or_default().push(block);
                let node = pod.node;
                order.retain(|at| self.candidates[*at].as_ref().is_none_or(|candidate| candidate.node.node != node));
            }
        }
        Ok(())
    }

    /// Drifted nodes of static NodePools, one for one (Karpenter: static drift, before drift).
    fn replace_static(&mut self, order: &[usize]) -> Result<(), Vec<Violation>> {
        for at in order {
            let Some(candidate) = &self.candidates[*at] else { continue };
            let removed = (candidate.node.node, RemovalReason::Drifted);
            let mut blocks = self.allowances.blocks(candidate, RemovalReason::Drifted);
            blocks.extend(static_pools::room_block(&self.working, candidate.pool));
            if blocks.is_empty() {
                match static_pools::replace(&self.working, removed, &candidate.pool.name, self.cache)? {
                    Ok(step) => {
                        self.allowances.take(candidate);
                        self.apply(step);
                    }
                    Err(block) => blocks.push(block),
                }
            }
            if !blocks.is_empty() {
                self.blocks.insert(removed, blocks);
            }
        }
        Ok(())
    }

    /// Takes the last of the drifted nodes `leaving` of the NodePool that `block` is about out of `order`.
    fn keep_last_of(&mut self, leaving: &[(u32, RemovalReason)], block: Block, order: &mut Vec<usize>) {
        let is_of_pool = |(node, _): &&(u32, RemovalReason)| {
            let pool = self.working.input.nodes[*node as usize].pool.as_ref();
            pool.is_some_and(|pool| block.object.strip_prefix("NodePool/") == Some(pool))
        };
        let kept = leaving.iter().rev().find(is_of_pool).or(leaving.last()).map(|(node, _)| *node);
        let Some(kept) = kept else { return };
        self.blocks.insert((kept, RemovalReason::Drifted), vec![block]);
        order.retain(|at| self.candidates[*at].as_ref().is_none_or(|candidate| candidate.node.node != kept));
    }

    /// Rounds until one replaces nothing: pods may move to a replacement in the next, which looks at the nodes of such pods
    /// alone. In a round, removals come first, because they use the budgets for more savings than replacements.
    fn consolidate(&mut self) {
        let mut groups = Groups::new(&self.working, self.settings);
        if groups.is_worthwhile(&self.working) {
            self.round(0, false);
            while let Some(step) =
                groups.next(&self.working, (&self.candidates, &self.balance), &mut self.allowances, self.cache)
            {
                step.removed.iter().for_each(|removed| drop(self.blocks.remove(removed)));
                self.apply(step);
            }
        }
        let mut first_new = 0;
        for _ in 0..MAX_ROUNDS {
            let nodes = self.working.nodes.len();
            if !self.round(first_new, true) {
                return;
            }
            first_new = nodes;
        }
    }

    /// Removals, and then replacements, of the nodes with a pod that may fit on one of those from index `first_new` on;
    /// returns whether a node was replaced.
    fn round(&mut self, first_new: usize, may_replace: bool) -> bool {
        let cost = DisruptionCost::new(&self.working);
        let mut order = order_of_trials(&self.working, &self.candidates, &cost);
        if first_new > 0 {
            let may_use = self.working.nodes_with_pods_for(first_new);
            order.retain(|node| may_use[*node as usize]);
        }
        if order.is_empty() {
            return false;
        }
        let domains = with_launchable_domains(&self.working);
        let parts = (&self.working, domains.as_ref());
        let mut pass = Pass::new(parts, &self.candidates, cost, (self.settings, &self.balance));
        let removals = pass.run(&order, Method::Delete, &mut self.allowances);
        let replacements = match may_replace {
            true => pass.run(&order, Method::Replace, &mut self.allowances),
            false => Found::default(),
        };
        let replaces = replacements.steps.iter().any(|step| !step.replacements.is_empty());
        for Found { steps, blocks } in [removals, replacements] {
            let of_reason = |(node, block)| ((node, RemovalReason::Underutilized), vec![block]);
            self.blocks.extend(blocks.into_iter().map(of_reason));
            for step in steps {
                step.removed.iter().for_each(|removed| drop(self.blocks.remove(removed)));
                self.apply(step);
            }
        }
        replaces
    }
}
