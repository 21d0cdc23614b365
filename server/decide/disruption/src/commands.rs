//! The result: commands that the verifier accepts, what blocks the other nodes, and the cost.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::removal::{NodeRemoval, RemovalInput, RemovalNode, RemovalPlan, RemovalPool, RemovalReason};
use model::running::RunningCluster;
use model::{MicroUsd, NodeStage, Pod};
use planner::{CompileCache, ReplacementMachines, price_bound};
use verifier::{EvictionStep, RemovalViolation, Violation, check, check_removals_but_last_pods, check_steps};

use crate::candidates::Candidate;
use crate::opt_in_facts::opt_in_pools;
use crate::placement_order::{order_in_commands, order_of_placement};
use crate::working::{CommandNodes, Destination, MovablePod, Step, WorkingCluster, count_staying_nodes};
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
    /// The machines that static NodePools launch, in the order of the working cluster. They are nodes of `input`.
    static_nodes: Vec<PlannedNode>,
    /// The movable pods whose node changes, in the order of namespace and name: the pods of `input`.
    moved: Vec<u32>,
    /// By command, those of them that leave its nodes, in the order in which they are placed.
    moved_by: Vec<Vec<u32>>,
    /// The same by index into the pods of `input`.
    evictions: Vec<EvictionStep>,
    movable: Vec<Pod>,
}

/// The result of `planned`. If the verifier refuses it, the steps from the first refused one on are left out; and those
/// from the first one on whose pods would wait for nodes to be gone. A refused step that is accepted without the others is
/// no mistake: it waits for them.
pub(crate) fn finish<'i>(
    mut planned: Planned<'i>,
    working: WorkingCluster<'i>,
    cache: &mut CompileCache,
) -> Result<DisruptionPlan, Vec<Violation>> {
    let mut outcome = Outcome::of(working, Rules::Stated);
    let mut accepted = planned.steps.len();
    let mut refused = planned.violations(&outcome);
    if !refused.is_empty() || !outcome.is_bound_at_once() {
        let (mut fewest, mut most) = (0, accepted);
        while fewest + 1 < most {
            let middle = usize::midpoint(fewest, most);
            let outcome = planned.outcome(middle);
            let is_accepted = outcome.is_bound_at_once() && planned.violations(&outcome).is_empty();
            if is_accepted { fewest = middle } else { most = middle }
        }
        accepted = fewest;
        outcome = planned.outcome(accepted);
        let invalid = check(&outcome.input, &outcome.plan);
        if accepted == 0 && !invalid.is_empty() {
            return Err(invalid);
        }
        refused.truncate(usize::from(!planned.is_accepted_alone(accepted)));
        planned.block_steps_from(accepted);
    }
    let commands = planned.commands(&outcome, accepted);
    let removed: BTreeSet<u32> = outcome.working.removed.iter().map(|(node, _)| *node).collect();
    let held = planned.held(&removed);
    let cost = planned.cost(&mut outcome, &held, cache);
    let Outcome { input, plan, static_nodes, .. } = outcome;
    Ok(DisruptionPlan { commands, held, cost, input, plan, static_nodes, refused, notes: planned.notes })
}

/// The rules of pods by which an outcome is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// As they state them.
    Stated,
    /// What they prefer and have is required.
    Kept,
}

/// Whether the verifier accepts the plan for the pods that have moved in `working`: while the removed nodes are there, and
/// once they are gone. Pods keep what they prefer and have.
pub(crate) fn keeps_rules(working: WorkingCluster<'_>) -> bool {
    let outcome = Outcome::of(working, Rules::Kept);
    check(&outcome.input, &outcome.plan).is_empty() && outcome.is_bound_at_once()
}

impl<'i> Planned<'i> {
    /// The cluster after the first `steps` steps.
    fn outcome(&self, steps: usize) -> Outcome<'i> {
        let mut working = WorkingCluster::new(self.input, self.running, &self.placed);
        self.steps.iter().take(steps).for_each(|step| working.apply(step.clone()));
        Outcome::of(working, Rules::Stated)
    }

    /// Whether the verifier accepts this step without the others. One that moves pods to machines of others is none without
    /// them.
    fn is_accepted_alone(&self, step: usize) -> bool {
        let Some(step) = self.steps.get(step) else { return true };
        let is_there = |node: u32| (node as usize) < self.input.nodes.len();
        let moves_there = |(_, to): &(u32, Destination)| match to {
            Destination::Node(node) => is_there(*node),
            Destination::Replacement(_) => true,
        };
        if !step.removed.iter().all(|(node, _)| is_there(*node)) || !step.moves.iter().all(moves_there) {
            return false;
        }
        let mut working = WorkingCluster::new(self.input, self.running, &self.placed);
        working.apply(step.clone());
        self.violations(&Outcome::of(working, Rules::Stated)).is_empty()
    }

    /// Says what the nodes of the steps from this one on wait for.
    fn block_steps_from(&mut self, first: usize) {
        let goes = self.steps.iter().take(first).flat_map(|step| &step.removed).next();
        let Some(object) = goes.map(|(node, _)| format!("Node/{}", self.input.nodes[*node as usize].name)) else {
            return;
        };
        for removed in self.steps.iter().skip(first).flat_map(|step| &step.removed) {
            let message = "leaves before it: together their pods could not be bound by their rules";
            let block = Block::new(BlockCode::NoCapacity, object.as_str(), message);
            self.blocks.entry(*removed).or_insert_with(|| vec![block]);
        }
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
        let removed: BTreeSet<u32> = working.removed.iter().map(|(node, _)| *node).collect();
        let input = RemovalInput {
            now,
            pools: self.removal_pools(working),
            nodes: working.removed.iter().filter_map(node).collect(),
            pod_budgets: self.running.pod_budgets.clone(),
            elsewhere: BTreeMap::new(),
            cluster_budget: None,
            destinations: destinations.into_iter().map(name).collect(),
            opt_in: opt_in_pools((self.input, self.running), &removed, &outcome.plan),
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
        let placement = |pod: &u32| {
            let pod = &working.pods[*pod as usize];
            (pod.running.facts.key.clone(), working.names[pod.node as usize].clone())
        };
        let mut moved_by = outcome.moved_by.iter();
        // Replacements are numbered through all steps, and those that are launched through the plan, those of static
        // NodePools last.
        let first = self.input.nodes.len();
        let mut launched = vec![None; working.nodes.len() - first];
        // The outcome has taken the input of the working cluster.
        let is_static = |at: &usize| {
            let launch = working.nodes[first + at].launch.as_ref();
            launch.is_some_and(|launch| outcome.input.pools[launch.pool as usize].replicas.is_some())
        };
        let there = (0..launched.len()).filter(|at| !working.nodes[first + at].is_gone);
        let (of_static_pools, of_pods): (Vec<usize>, Vec<usize>) = there.partition(is_static);
        (0..).zip(of_pods.into_iter().chain(of_static_pools)).for_each(|(number, at)| launched[at] = Some(number));
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
            let paid: i64 = replacements.iter().filter_map(|at| Some(outcome.machine(*at)?.price.0)).sum();
            let saved: i64 = nodes.iter().map(|node| working.nodes[*node as usize].price.0).sum();
            commands.push(Command {
                reason,
                placements: moved_by.next().into_iter().flatten().map(placement).collect(),
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
        let launched = outcome.plan.nodes.iter().chain(&outcome.static_nodes);
        let launched: i64 = launched.map(|node| node.price.0).sum();
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
        let is_in_use = |block: &Block| {
            use BlockCode::{Budget, Guardrail, NoCapacity, NoSavings};
            matches!(block.code, NoSavings | NoCapacity | Budget | Guardrail)
        };
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
    /// The machine with this number: those that are launched for pods come first.
    fn machine(&self, number: u32) -> Option<&PlannedNode> {
        self.plan.nodes.iter().chain(&self.static_nodes).nth(number as usize)
    }

    /// Whether kube-scheduler binds all pods where they go while the removed nodes are drained.
    fn is_bound_at_once(&self) -> bool {
        check_steps(&self.input, &self.plan, &self.evictions).is_empty()
    }

    /// The plan for the pods that move, in the input in which the removed nodes are being deleted.
    fn of(mut working: WorkingCluster<'i>, rules: Rules) -> Self {
        if rules == Rules::Stated {
            working.restore_stated_rules();
        }
        let existing = working.nodes.iter().take_while(|node| node.launch.is_none()).count();
        let moves = order_of_placement(&working);
        let mut sorted = moves.clone();
        sorted.sort_by(|one, other| {
            let key = |pod: &u32| &working.pods[*pod as usize].running.facts.key;
            key(one).cmp(key(other))
        });
        let mut index = vec![0; working.pods.len()];
        (0..).zip(&sorted).for_each(|(at, pod)| index[*pod as usize] = at);
        let moved_by = order_in_commands(&working, moves_of_commands(&working, &moves));
        let eviction = |(pods, command): (&Vec<u32>, &CommandNodes)| EvictionStep {
            nodes: command.nodes.clone(),
            pods: pods.iter().map(|pod| index[*pod as usize]).collect(),
            is_forced: command.reason.is_forceful(),
        };
        let evictions = moved_by.iter().zip(&working.commands).map(eviction).collect();
        let mut plan = Plan { order: moves.iter().map(|pod| index[*pod as usize]).collect(), ..Plan::default() };
        let Launches { nodes, mut static_nodes, numbers } = launches(&working, existing, &moves);
        plan.nodes = nodes;
        for node in plan.nodes.iter_mut().chain(&mut static_nodes) {
            node.pods.iter_mut().for_each(|pod| *pod = index[*pod as usize]);
            node.pods.sort_unstable();
        }
        let on_existing = sorted.iter().filter_map(|pod| {
            let node = numbers[working.pods[*pod as usize].node as usize]?;
            Some((index[*pod as usize], node))
        });
        plan.placements = on_existing.collect();
        plan.placements.sort_unstable();
        let mut input = std::mem::take(&mut working.input);
        working.names = input.nodes.iter().map(|node| node.name.clone()).collect();
        let mut numbers = numbers.iter();
        input.nodes.retain(|_| numbers.next().is_some_and(Option::is_some));
        // Pods that moved are placed by the plan.
        for (at, node) in input.nodes.iter_mut().enumerate() {
            node.pods.truncate(if at < existing { working.nodes[at].own } else { 0 });
        }
        count_staying_nodes(&mut input);
        let movable = std::mem::take(&mut input.pods);
        input.pods = sorted.iter().map(|pod| movable[*pod as usize].clone()).collect();
        Self { working, input, plan, static_nodes, moved: sorted, moved_by, evictions, movable }
    }
}

/// The machines that are launched, with the movable pods that they get.
struct Launches {
    /// Those that are launched for pods.
    nodes: Vec<PlannedNode>,
    /// Those of static NodePools.
    static_nodes: Vec<PlannedNode>,
    /// The number in the input of each node of the working cluster: those of static NodePools join the cluster.
    numbers: Vec<Option<u32>>,
}

/// The machines that `working` launches after its first `existing` nodes, for pods that moved by `moves`.
fn launches(working: &WorkingCluster<'_>, existing: usize, moves: &[u32]) -> Launches {
    let has_zone_rules = moves.iter().any(|pod| working.has_domain_rules(*pod));
    let machines = ReplacementMachines::new(&working.input);
    let numbers = (0..).map(Some).take(existing).collect();
    let mut found = Launches { nodes: Vec::new(), static_nodes: Vec::new(), numbers };
    found.numbers.resize(working.nodes.len(), None);
    for (at, state) in working.nodes.iter().enumerate().skip(existing).filter(|(_, state)| !state.is_gone) {
        let Some(launch) = &state.launch else { continue };
        let mut pods: Vec<u32> = state.movable().collect();
        pods.sort_unstable();
        if u32::try_from(at).is_ok_and(|node| working.is_of_static_pool(node)) {
            found.numbers[at] = u32::try_from(existing + found.static_nodes.len()).ok();
            found.static_nodes.push(machines.with_pods(launch, pods));
            continue;
        }
        // Rules over zones were judged with each machine in its first zone.
        let has_one_zone = launch.zones.len() == 1 || !has_zone_rules;
        found.nodes.push(if has_one_zone && pods == launch.pods {
            launch.clone()
        } else {
            machines.with_pods(&in_one_zone(launch), pods)
        });
    }
    found
}

/// By command, the pods of `moves` that leave its nodes.
fn moves_of_commands(working: &WorkingCluster<'_>, moves: &[u32]) -> Vec<Vec<u32>> {
    let mut command_of = vec![None; working.nodes.len()];
    for (number, command) in working.commands.iter().enumerate() {
        command.nodes.iter().for_each(|node| command_of[*node as usize] = Some(number));
    }
    let mut pods: Vec<Vec<u32>> = vec![Vec::new(); working.commands.len()];
    for pod in moves {
        let command = command_of[working.pods[*pod as usize].home as usize];
        command.into_iter().for_each(|number: usize| pods[number].push(*pod));
    }
    pods
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
