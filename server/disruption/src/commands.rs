//! The result: commands that the verifier accepts, what blocks the other nodes, and the cost.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::removal::{NodeRemoval, RemovalInput, RemovalNode, RemovalPlan, RemovalPool, RemovalReason};
use model::running::RunningCluster;
use model::{MicroUsd, NodeName, NodeStage, Pod, PodKey};
use planner::{CompileCache, ReplacementMachines, price_bound};
use verifier::{RemovalViolation, Violation, check, check_removals_but_last_pods};

use crate::candidates::Candidate;
use crate::placement_order::order_of_placement;
use crate::working::{MovablePod, Step, WorkingCluster};
use crate::{Block, BlockCode, Command, DisruptionCosts, DisruptionPlan, HeldNode};

/// What was planned, before it is checked.
pub(crate) struct Planned<'i> {
    pub(crate) input: &'i PlanningInput,
    pub(crate) running: &'i RunningCluster,
    pub(crate) placed: Vec<(u32, u32)>,
    pub(crate) candidates: Vec<Option<Candidate<'i>>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) blocks: BTreeMap<(u32, RemovalReason), Vec<Block>>,
    pub(crate) notes: Vec<String>,
}

/// The cluster after some steps, and its plan.
struct Outcome<'i> {
    working: WorkingCluster<'i>,
    input: PlanningInput,
    plan: Plan,
    /// The movable pods whose node changes, in the order of namespace and name: the pods of `input`.
    moved: Vec<u32>,
    /// All movable pods.
    movable: Vec<Pod>,
}

/// The result of `planned`. If the verifier refuses it, the steps from the first refused one on are left out.
pub(crate) fn finish<'i>(
    mut planned: Planned<'i>,
    working: WorkingCluster<'i>,
    cache: &mut CompileCache,
) -> Result<DisruptionPlan, Vec<Violation>> {
    let mut outcome = Outcome::of(working);
    let mut accepted = planned.steps.len();
    let mut refused = planned.violations(&outcome);
    if !refused.is_empty() {
        let (mut fewest, mut most) = (0, accepted);
        while fewest + 1 < most {
            let middle = usize::midpoint(fewest, most);
            if planned.violations(&planned.outcome(middle)).is_empty() { fewest = middle } else { most = middle }
        }
        accepted = fewest;
        outcome = planned.outcome(accepted);
        let invalid = check(&outcome.input, &outcome.plan);
        if accepted == 0 && !invalid.is_empty() {
            return Err(invalid);
        }
        refused.truncate(1);
    }
    let commands = planned.commands(&outcome, accepted);
    let removed: BTreeSet<u32> = outcome.working.removed.iter().map(|(node, _)| *node).collect();
    let held = planned.held(&removed);
    let cost = planned.cost(&mut outcome, &held, cache);
    let Outcome { input, plan, .. } = outcome;
    Ok(DisruptionPlan { commands, held, cost, input, plan, refused, notes: planned.notes })
}

/// Whether the verifier accepts the plan for the pods that have moved in `working`.
pub(crate) fn keeps_rules(working: WorkingCluster<'_>) -> bool {
    let outcome = Outcome::of(working);
    check(&outcome.input, &outcome.plan).is_empty()
}

impl<'i> Planned<'i> {
    /// The cluster after the first `steps` steps.
    fn outcome(&self, steps: usize) -> Outcome<'i> {
        let mut working = WorkingCluster::new(self.input, self.running, &self.placed);
        self.steps.iter().take(steps).for_each(|step| working.apply(step.clone()));
        Outcome::of(working)
    }

    /// What the verifier finds.
    fn violations(&self, outcome: &Outcome<'_>) -> Vec<String> {
        if outcome.working.removed.is_empty() {
            return Vec::new();
        }
        let plan = check(&outcome.input, &outcome.plan).into_iter().map(|violation| violation.to_string());
        let removals = self.removal_violations(outcome).into_iter().map(|violation| violation.to_string());
        plan.chain(removals).collect()
    }

    fn removal_violations(&self, outcome: &Outcome<'_>) -> Vec<RemovalViolation> {
        let working = &outcome.working;
        let claim = |node: u32| {
            let running = &self.running.nodes[working.nodes[node as usize].running? as usize];
            running.claim.as_ref().map(|claim| (running, claim))
        };
        let now = self.input.now;
        let removal = |(node, reason): &(u32, RemovalReason)| {
            let (_, claim) = claim(*node)?;
            let deadline = claim.termination_grace_period.map(|grace| now + grace);
            Some(NodeRemoval { claim: claim.name.clone(), reason: *reason, deadline })
        };
        let node = |(node, _): &(u32, RemovalReason)| {
            let (running, claim) = claim(*node)?;
            let object = &self.input.nodes[*node as usize];
            Some(RemovalNode {
                claim: claim.name.clone(),
                node: object.name.clone(),
                ours: true,
                pool: object.pool.clone()?,
                stage: object.stage,
                created: object.created,
                do_not_disrupt: running.do_not_disrupt,
                pods: running.pods.iter().filter(|pod| !pod.is_nominated).map(|pod| pod.facts.clone()).collect(),
            })
        };
        // In the order of their keys: a map is built faster from sorted entries.
        let moved = || outcome.moved.iter().map(|pod| working.pods[*pod as usize]);
        let name = |node: u32| working.names[node as usize].clone();
        let destinations: BTreeSet<u32> = moved().map(|pod| pod.node).collect();
        let plan = RemovalPlan {
            removals: working.removed.iter().filter_map(removal).collect(),
            placements: moved().map(|pod| (pod.running.facts.key.clone(), name(pod.node))).collect(),
        };
        let input = RemovalInput {
            now,
            pools: self.removal_pools(working),
            nodes: working.removed.iter().filter_map(node).collect(),
            pod_budgets: self.running.pod_budgets.clone(),
            elsewhere: BTreeMap::new(),
            cluster_budget: None,
            destinations: destinations.into_iter().map(name).collect(),
        };
        // Whether a workload keeps a ready pod is judged by the server, which knows all its pods.
        check_removals_but_last_pods(&input, &plan)
    }

    fn removal_pools(&self, working: &WorkingCluster<'_>) -> Vec<RemovalPool> {
        let removed: BTreeSet<u32> = working.removed.iter().map(|(node, _)| *node).collect();
        let mut pools: BTreeMap<_, RemovalPool> = BTreeMap::new();
        for candidate in self.candidates.iter().flatten() {
            let (name, budgets) = (candidate.pool.name.clone(), candidate.policy.budgets.clone());
            let pool = pools.entry(name.clone()).or_insert(RemovalPool {
                not_ready: 0,
                name,
                budgets,
                windows: candidate.policy.windows.clone(),
                total: 0,
                unavailable: 0,
            });
            let stage = candidate.object.stage;
            if matches!(stage, NodeStage::Initialized | NodeStage::Deleting) {
                let is_unavailable = stage == NodeStage::Deleting || !candidate.claim.ready;
                pool.total += 1;
                pool.unavailable += usize::from(is_unavailable && !removed.contains(&candidate.node.node));
            }
        }
        pools.into_values().collect()
    }

    fn commands(&self, outcome: &Outcome<'_>, steps: usize) -> Vec<Command> {
        let working = &outcome.working;
        let mut placements: BTreeMap<u32, Vec<(PodKey, NodeName)>> = BTreeMap::new();
        for pod in working.moves() {
            let pod = &working.pods[pod as usize];
            let to = working.names[pod.node as usize].clone();
            placements.entry(pod.home).or_default().push((pod.running.facts.key.clone(), to));
        }
        // Replacements are numbered through all steps, and those that are launched through the plan.
        let first = self.input.nodes.len();
        let mut launched = vec![None; working.nodes.len() - first];
        let there = (0..launched.len()).filter(|at| !working.nodes[first + at].is_gone).collect::<Vec<usize>>();
        (0..).zip(there).for_each(|(number, at)| launched[at] = Some(number));
        let (mut commands, mut next) = (Vec::new(), 0);
        for step in self.steps.iter().take(steps) {
            let numbers = next..next + step.replacements.len();
            next = numbers.end;
            let of_cluster = |node: &&(u32, RemovalReason)| (node.0 as usize) < first;
            let nodes: Vec<u32> = step.removed.iter().filter(of_cluster).map(|(node, _)| *node).collect();
            let Some(reason) = step.removed.iter().filter(of_cluster).map(|(_, reason)| *reason).min() else {
                continue;
            };
            let replacements: Vec<u32> = numbers.filter_map(|at| launched[at]).collect();
            let paid: i64 = replacements.iter().map(|at| outcome.plan.nodes[*at as usize].price.0).sum();
            let saved: i64 = nodes.iter().map(|node| working.nodes[*node as usize].price.0).sum();
            commands.push(Command {
                reason,
                placements: nodes.iter().filter_map(|node| placements.remove(node)).flatten().collect(),
                nodes,
                replacements,
                savings: MicroUsd(saved - paid),
            });
        }
        commands.sort_by_key(|command| command.reason);
        commands
    }

    /// Every node of a NodePool that stays.
    fn held(&mut self, removed: &BTreeSet<u32>) -> Vec<HeldNode> {
        let Self { candidates, blocks, .. } = self;
        let stays = candidates.iter().flatten().filter(|candidate| !removed.contains(&candidate.node.node));
        let mut held: Vec<HeldNode> = stays.map(|candidate| held_node(candidate, blocks)).collect();
        held.sort_by_key(|held| held.node);
        held
    }

    fn cost(&self, outcome: &mut Outcome<'_>, held: &[HeldNode], cache: &mut CompileCache) -> DisruptionCosts {
        let of_pools = || self.candidates.iter().flatten().map(|candidate| candidate.node);
        let before: i64 = of_pools().map(|node| node.price.0).sum();
        let is_gone = |node: u32| outcome.working.nodes[node as usize].is_gone;
        let staying: i64 = of_pools().filter(|node| !is_gone(node.node)).map(|node| node.price.0).sum();
        let launched: i64 = outcome.plan.nodes.iter().map(|node| node.price.0).sum();
        let after = MicroUsd(staying + launched);
        let planned = std::mem::take(&mut outcome.movable);
        let movable = outcome.working.pods.iter().zip(planned);
        let lower_bound = self.lower_bound(held, after, movable, cache);
        DisruptionCosts { before: MicroUsd(before), after, lower_bound }
    }

    /// The nodes that are held by more than their use of capacity, and what the pods of the others need at least.
    /// `movable` are the movable pods as they are planned, in the order of the running nodes.
    fn lower_bound<'p>(
        &self,
        held: &[HeldNode],
        after: MicroUsd,
        movable: impl Iterator<Item = (&'p MovablePod<'i>, Pod)>,
        cache: &mut CompileCache,
    ) -> MicroUsd
    where
        'i: 'p,
    {
        let is_in_use =
            |block: &Block| matches!(block.code, BlockCode::NoSavings | BlockCode::NoCapacity | BlockCode::Budget);
        let fixed: BTreeSet<u32> =
            held.iter().filter(|held| !held.by.iter().all(is_in_use)).map(|held| held.node).collect();
        let of_pools = self.candidates.iter().flatten().map(|candidate| candidate.node);
        let (fixed, free): (Vec<_>, Vec<_>) = of_pools.partition(|node| fixed.contains(&node.node));
        let paid: i64 = fixed.iter().map(|node| node.price.0).sum();
        let most = MicroUsd((after.0 - paid).max(0));
        let mut gone = vec![false; self.input.nodes.len()];
        free.iter().for_each(|node| gone[node.node as usize] = true);
        let mut movable = movable.filter(|(movable, _)| gone[movable.home as usize]).peekable();
        let pods = free.iter().flat_map(|node| &node.pods).filter_map(|pod| {
            let planned = movable.next_if(|(movable, _)| std::ptr::eq(movable.running, pod));
            planned.map(|(_, planned)| planned).or_else(|| pod.pod.clone())
        });
        let original = self.input;
        let input = PlanningInput {
            shapes: original.shapes.clone(),
            label_sets: original.label_sets.clone(),
            volume_sets: original.volume_sets.clone(),
            pods: pods.collect(),
            nodes: original.nodes.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(node, _)| node.clone()).collect(),
            pools: original.pools.clone(),
            daemons: original.daemons.clone(),
            namespaces: original.namespaces.clone(),
            policy: original.policy.clone(),
            now: original.now,
        };
        MicroUsd((paid + price_bound(input, most, cache).0).min(after.0))
    }
}

impl<'i> Outcome<'i> {
    /// The plan for the pods that move, in the input in which the removed nodes are being deleted.
    fn of(mut working: WorkingCluster<'i>) -> Self {
        let existing = working.nodes.iter().take_while(|node| node.launch.is_none()).count();
        let moves = order_of_placement(&working);
        let mut sorted = moves.clone();
        sorted.sort_by(|one, other| {
            let key = |pod: &u32| &working.pods[*pod as usize].running.facts.key;
            key(one).cmp(key(other))
        });
        let mut index = vec![0; working.pods.len()];
        (0..).zip(&sorted).for_each(|(at, pod)| index[*pod as usize] = at);
        let mut plan = Plan { order: moves.iter().map(|pod| index[*pod as usize]).collect(), ..Plan::default() };
        let has_zone_rules = moves.iter().any(|pod| working.has_domain_rules(*pod));
        let machines = ReplacementMachines::new(&working.input);
        for state in working.nodes.iter().skip(existing).filter(|state| !state.is_gone) {
            let Some(launch) = &state.launch else { continue };
            let mut pods: Vec<u32> = state.movable().collect();
            pods.sort_unstable();
            // Rules over zones were judged with each machine in its first zone.
            let has_one_zone = launch.zones.len() == 1 || !has_zone_rules;
            plan.nodes.push(if has_one_zone && pods == launch.pods {
                launch.clone()
            } else {
                machines.with_pods(&in_one_zone(launch), pods)
            });
        }
        for node in &mut plan.nodes {
            node.pods.iter_mut().for_each(|pod| *pod = index[*pod as usize]);
            node.pods.sort_unstable();
        }
        let on_existing = sorted.iter().map(|pod| (index[*pod as usize], working.pods[*pod as usize].node));
        plan.placements = on_existing.filter(|(_, node)| (*node as usize) < existing).collect();
        plan.placements.sort_unstable();
        let mut input = std::mem::take(&mut working.input);
        working.names = input.nodes.iter().map(|node| node.name.clone()).collect();
        input.nodes.truncate(existing);
        // Pods that moved are placed by the plan.
        for (node, state) in input.nodes.iter_mut().zip(&working.nodes) {
            node.pods.truncate(state.own);
        }
        let movable = std::mem::take(&mut input.pods);
        input.pods = sorted.iter().map(|pod| movable[*pod as usize].clone()).collect();
        Self { working, input, plan, moved: sorted, movable }
    }
}

/// What blocks a node that stays. `blocks` are those of nodes that nothing held before planning, by node and reason.
fn held_node(candidate: &Candidate<'_>, blocks: &mut BTreeMap<(u32, RemovalReason), Vec<Block>>) -> HeldNode {
    let node = candidate.node.node;
    let free = candidate.reasons.iter().find(|(_, blocks)| blocks.is_empty());
    let first = candidate.reasons.first();
    let (reason, mut by) = match (free, first) {
        (Some((reason, _)), _) => (*reason, blocks.remove(&(node, *reason)).unwrap_or_default()),
        (None, Some((reason, blocks))) => (*reason, blocks.clone()),
        (None, None) => (RemovalReason::Underutilized, Vec::new()),
    };
    if by.is_empty() {
        let object = format!("Node/{}", candidate.object.name);
        by.push(Block::new(BlockCode::NoSavings, object, "costs less than any way found to run its pods elsewhere"));
    }
    by.sort();
    by.dedup();
    HeldNode { node, reason, by }
}

/// The launch in its first zone.
fn in_one_zone(launch: &PlannedNode) -> PlannedNode {
    PlannedNode { zones: launch.zones.iter().take(1).cloned().collect(), ..launch.clone() }
}
