//! One pass over all candidates: each is removed if its pods fit on the other nodes, or replaced by a
//! cheaper machine.
//!
//! Candidates are tried in the order of their savings for the disruption (Karpenter: savings ratio). Pods
//! go to nodes that stay, then to the candidates that are tried last, so that removals do not fill nodes that
//! could go as well.

use binding::ClusterSnapshot;
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, ZONE};
use model::removal::RemovalReason;
use model::resources::NODES;
use model::{CapacityType, MicroUsd, Resources, Text, Zone};
use planner::{NoReplacement, Replaced, ReplacementMachines};
use verifier::kernel::active_nodes;

use crate::Settings;
use crate::allowances::Allowances;
use crate::balance::Balance;
use crate::candidates::Candidate;
use crate::cost::{DisruptionCost, Ratio};
use crate::opt_in::{Change, OptInCounts};
use crate::working::{Destination, Step, WorkingCluster};
use crate::{Block, BlockCode};

/// What may happen to a candidate in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Its pods go to other nodes.
    Delete,
    /// The same, or a cheaper machine runs those that fit nowhere else.
    Replace,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) steps: Vec<Step>,
    /// Why each node stays that was tried by [`Method::Replace`], which tries all that [`Method::Delete`] leaves.
    pub(crate) blocks: Vec<(u32, Block)>,
}

pub(crate) struct Pass<'w, 'r> {
    working: &'w WorkingCluster<'r>,
    candidates: &'w [Option<Candidate<'r>>],
    settings: &'w Settings,
    balance: &'w Balance<'r>,
    snapshot: ClusterSnapshot<'w>,
    machines: ReplacementMachines<'w>,
    /// The class of each movable pod.
    classes: Vec<u32>,
    /// Whether each node was removed in this pass.
    gone: Vec<bool>,
    /// The pods that moved to each node in this pass.
    arrived: Vec<Vec<u32>>,
    /// By pool, what is left of its limits; empty without limits.
    limits: Vec<Resources>,
    opt_in: OptInCounts,
    cost: DisruptionCost,
}

/// Pods that were placed in a trial, and those that fit nowhere.
#[derive(Debug, Default)]
struct Trial {
    placed: Vec<(u32, u32)>,
    unplaced: Vec<u32>,
}

impl<'w, 'r> Pass<'w, 'r> {
    /// `domains` is the input of `working` with the domains in which nodes may be launched.
    pub(crate) fn new(
        (working, domains): (&'w WorkingCluster<'r>, Option<&'w PlanningInput>),
        candidates: &'w [Option<Candidate<'r>>],
        cost: DisruptionCost,
        (settings, balance): (&'w Settings, &'w Balance<'r>),
    ) -> Self {
        let planned = working.planned_pods();
        let snapshot = ClusterSnapshot::new(
            domains.unwrap_or(&working.input),
            &planned,
            order_of_destinations(working, candidates, &cost),
        );
        let mut classes = vec![0; working.pods.len()];
        for (at, node) in (0..).zip(&working.nodes) {
            for (position, pod) in node.pods.iter().enumerate() {
                let Some(pod) = pod else { continue };
                classes[*pod as usize] = snapshot.class(at, position).unwrap_or_default();
            }
        }
        let limits = working.input.pools.iter().map(|pool| {
            let mut left = pool.limits.clone();
            for node in active_nodes(&working.input, pool).filter(|_| !pool.limits.is_empty()) {
                let taken = pool.limits.iter().map(|(name, _)| (name.clone(), drawn(&node.capacity, name)));
                left.subtract(&taken.collect());
            }
            left
        });
        Self {
            limits: limits.collect(),
            opt_in: OptInCounts::of(working),
            machines: ReplacementMachines::new(&working.input),
            gone: vec![false; working.nodes.len()],
            arrived: vec![Vec::new(); working.nodes.len()],
            working,
            candidates,
            settings,
            balance,
            snapshot,
            classes,
            cost,
        }
    }

    /// Tries the nodes of `order` by `method`, within `allowances`, which they use up.
    pub(crate) fn run(&mut self, order: &[u32], method: Method, allowances: &mut Allowances<'r>) -> Found {
        let mut found = Found::default();
        for node in order.iter().copied() {
            if self.gone[node as usize] {
                continue;
            }
            let candidate = self.candidate(node);
            let held = candidate
                .and_then(|candidate| allowances.blocks(candidate, RemovalReason::Underutilized).into_iter().next());
            let tried = match held {
                Some(block) => Err((method == Method::Replace).then_some(block)),
                None => self.try_node(node, method, allowances),
            };
            match tried {
                Ok(step) => {
                    let (removed, moves) = ([node], step.moves_to_nodes());
                    let change = Change { removed: &removed, launches: &step.replacements, moves: &moves };
                    self.opt_in.apply(self.working, change);
                    candidate.into_iter().for_each(|candidate| allowances.take(candidate));
                    allowances.take_launches(&self.working.input.pools, &step.replacements);
                    self.gone[node as usize] = true;
                    found.steps.push(step);
                }
                Err(block) => found.blocks.extend(block.map(|block| (node, block))),
            }
        }
        found
    }

    fn candidate(&self, node: u32) -> Option<&'w Candidate<'r>> {
        self.candidates.get(self.working.nodes[node as usize].running? as usize)?.as_ref()
    }

    /// What becomes of `node`; `None` if it stays, and what blocks it is found by [`Method::Replace`].
    fn try_node(&mut self, node: u32, method: Method, allowances: &Allowances<'r>) -> Result<Step, Option<Block>> {
        let pods = self.pods_on(node);
        // Most nodes of a full cluster stay because of their largest pod.
        let has_room = |pod: &u32| self.snapshot.may_have_room(self.classes[*pod as usize]);
        if method == Method::Delete && !pods.first().is_none_or(has_room) {
            return Err(None);
        }
        let moved = pods.len();
        let price = self.working.nodes[node as usize].price;
        let worth = |saved: MicroUsd, moved: usize| self.settings.is_worth(saved, moved);
        let trial = self.begin(node, &pods, method);
        let unbalanced = self.unbalanced(node, price);
        let removed = [node];
        let broken = self.opt_in.block(self.working, Change { removed: &removed, launches: &[], moves: &trial.placed });
        if trial.unplaced.is_empty() && worth(price, moved) && unbalanced.is_none() && broken.is_none() {
            let moves = trial.placed.iter().map(|(pod, to)| (*pod, Destination::Node(*to))).collect();
            trial.placed.iter().for_each(|(pod, to)| self.arrived[*to as usize].push(*pod));
            self.arrived[node as usize].clear();
            self.give_back_limits(node, None);
            return Ok(Step { removed: vec![(node, RemovalReason::Underutilized)], moves, ..Step::default() });
        }
        self.take_back(node, &trial);
        if method == Method::Delete {
            return Err(None);
        }
        // A replacement saves less than a removal.
        if let Some(block) = unbalanced {
            return Err(Some(block));
        }
        let Some(unplaced) = trial.unplaced.first() else {
            return Err(Some(broken.unwrap_or_else(|| self.too_little(node, price, moved))));
        };
        // The machines that are tried for the others are in the zone of the node, which says nothing about these.
        if let Some(block) = trial.unplaced.iter().find_map(|pod| self.impossible_block(*pod)) {
            return Err(Some(block));
        }
        // A replacement that is not launched yet is not replaced.
        if self.candidate(node).is_none() {
            return Err(Some(self.no_place(*unplaced)));
        }
        self.replace(node, &pods, &trial, allowances).map_err(Some)
    }

    /// What the policy `Balanced` blocks `node` by, if its removal saves `saved`.
    fn unbalanced(&self, node: u32, saved: MicroUsd) -> Option<Block> {
        self.balance.block_of_node(self.candidate(node)?, saved)
    }

    /// The pods that are on `node` now, in the order in which they are placed: large ones first, and after all others those
    /// that must stand beside other pods, which may be among them.
    fn pods_on(&self, node: u32) -> Vec<u32> {
        let mut pods: Vec<u32> = self.working.nodes[node as usize].movable().collect();
        pods.extend(&self.arrived[node as usize]);
        let needs_others = |pod: u32| {
            let shape = self.working.input.pods[pod as usize].shape;
            !self.working.input.shapes[shape as usize].pod_affinity.is_empty()
        };
        pods.sort_unstable_by_key(|pod| {
            (needs_others(*pod), std::cmp::Reverse(self.cost.size(&self.working.pods[*pod as usize])), *pod)
        });
        pods
    }

    /// Takes `node` out of the snapshot, and places its pods elsewhere as far as they fit.
    fn begin(&mut self, node: u32, pods: &[u32], method: Method) -> Trial {
        self.snapshot.begin_trial();
        for pod in &self.arrived[node as usize] {
            self.snapshot.take_back(self.classes[*pod as usize], node);
        }
        self.snapshot.remove_node(node);
        let mut trial = Trial::default();
        for pod in pods {
            let to = match self.impossible(*pod) {
                None => self.snapshot.place(self.classes[*pod as usize], node, |_| true),
                Some(_) => None,
            };
            match to {
                Some(to) => trial.placed.push((*pod, to)),
                None => trial.unplaced.push(*pod),
            }
            // Only a machine may run the pods that have no place.
            if method == Method::Delete && !trial.unplaced.is_empty() {
                break;
            }
        }
        trial
    }

    fn take_back(&mut self, node: u32, trial: &Trial) {
        for (pod, to) in &trial.placed {
            self.snapshot.take_back(self.classes[*pod as usize], *to);
        }
        self.snapshot.restore_node(node);
        for pod in &self.arrived[node as usize] {
            self.snapshot.put_back(self.classes[*pod as usize], node);
        }
    }

    /// A cheaper machine for the pods of `node` that fit nowhere else, or for all of them where that costs
    /// no more.
    fn replace(&mut self, node: u32, pods: &[u32], trial: &Trial, allowances: &Allowances<'r>) -> Result<Step, Block> {
        let price = self.working.nodes[node as usize].price;
        if self.settings.most_for_replacement(price, pods.len()).is_none() {
            return Err(self.too_little(node, price, pods.len()));
        }
        let Some(replaced) = self.replaced(node, pods.len()) else {
            return Err(self.no_place(trial.unplaced[0]));
        };
        let (machines, elsewhere) = match self.machines.cheapest(&replaced, &trial.unplaced) {
            Ok(rest) => {
                // Fewer pods move between nodes when all go to one machine.
                let all = self.machines.cheapest(&replaced, pods).ok().filter(|all| all.price <= rest.price);
                match all {
                    Some(all) => (vec![all], &[][..]),
                    None => (vec![rest], trial.placed.as_slice()),
                }
            }
            Err(reason) => match self.machines.cheapest_two(&replaced, &trial.unplaced) {
                Some(two) => (two.to_vec(), trial.placed.as_slice()),
                None => return Err(self.no_machine(node, reason, &replaced)),
            },
        };
        let cost: i64 = machines.iter().map(|machine| machine.price.0).sum();
        let change = Change { removed: &[node], launches: &machines, moves: elsewhere };
        let broken = || self.opt_in.block(self.working, change);
        let unbalanced = self.unbalanced(node, MicroUsd(price.0 - cost));
        let held = unbalanced.or_else(|| allowances.launch_block(&self.working.input.pools, &machines)).or_else(broken);
        if let Some(block) = held {
            return Err(block);
        }
        if !elsewhere.is_empty() && !self.move_again(node, elsewhere) {
            return Err(self.no_place(trial.unplaced[0]));
        }
        // The machines are in the domains of the node: rules that are broken on the node are broken on them.
        let launched = || machines.iter().flat_map(|machine| &machine.pods);
        let broken = launched().find(|pod| !self.snapshot.keeps_rules(self.classes[**pod as usize], node));
        if let Some(pod) = broken {
            self.move_back(node, elsewhere);
            return Err(self.no_place(*pod));
        }
        let mut moves: Vec<(u32, Destination)> = Vec::with_capacity(pods.len());
        for (at, machine) in machines.iter().enumerate() {
            moves.extend(machine.pods.iter().map(|pod| (*pod, Destination::Replacement(at))));
        }
        for (pod, to) in elsewhere {
            self.arrived[*to as usize].push(*pod);
            moves.push((*pod, Destination::Node(*to)));
        }
        self.snapshot.close(node);
        // Two machines replace a node only where nothing is limited.
        let launched = machines.first().map(|machine| (machine.pool, &*machine.types));
        self.give_back_limits(node, launched);
        let removed = vec![(node, RemovalReason::Underutilized)];
        Ok(Step { removed, replacements: machines, moves, ..Step::default() })
    }

    /// Moves the pods of `elsewhere` off `node`, which stands for its replacement from now on: both have
    /// the same zone. Returns whether all rules hold for them that way.
    fn move_again(&mut self, node: u32, elsewhere: &[(u32, u32)]) -> bool {
        self.snapshot.begin_trial();
        for (at, (pod, to)) in elsewhere.iter().enumerate() {
            let class = self.classes[*pod as usize];
            self.snapshot.take_back(class, node);
            if self.snapshot.place(class, node, |other| other == *to) != Some(*to) {
                self.snapshot.put_back(class, node);
                self.move_back(node, &elsewhere[..at]);
                return false;
            }
        }
        true
    }

    /// Moves the pods of `elsewhere` back to `node`.
    fn move_back(&mut self, node: u32, elsewhere: &[(u32, u32)]) {
        for (pod, to) in elsewhere.iter().rev() {
            let class = self.classes[*pod as usize];
            self.snapshot.take_back(class, *to);
            self.snapshot.put_back(class, node);
        }
    }

    /// What a machine in place of `node` must be; `None` where the zone or the capacity type is unknown,
    /// or nothing would be saved.
    fn replaced(&self, node: u32, moved: usize) -> Option<Replaced> {
        let (object, state) = (&self.working.input.nodes[node as usize], &self.working.nodes[node as usize]);
        let pools = &self.working.input.pools;
        let pool = pools.iter().position(|pool| Some(&pool.name) == object.pool.as_ref())?;
        let capacity_type = object.labels.get(CAPACITY_TYPE)?;
        let below = self.settings.most_for_replacement(state.price, moved)?;
        let mut limits = self.limits[pool].clone();
        for (name, _) in pools[pool].limits.iter() {
            limits.set(name.clone(), limits.get(name) + drawn(&object.capacity, name));
        }
        Some(Replaced {
            pool: u32::try_from(pool).ok()?,
            zone: Zone::from(object.labels.get(ZONE)?),
            is_spot: capacity_type.as_ref() == CapacityType::Spot.as_str(),
            may_replace_spot_by_spot: self.settings.spot_to_spot,
            below,
            limits,
        })
    }

    /// Counts that `node` draws nothing from the limits of its pool any more, and a machine with these
    /// options does.
    fn give_back_limits(&mut self, node: u32, machine: Option<(u32, &[u32])>) {
        let input = &self.working.input;
        let object = &input.nodes[node as usize];
        for (pool, left) in input.pools.iter().zip(&mut self.limits) {
            if Some(&pool.name) == object.pool.as_ref() {
                for (name, _) in pool.limits.iter() {
                    left.set(name.clone(), left.get(name) + drawn(&object.capacity, name));
                }
            }
        }
        let Some((pool, types)) = machine else { return };
        let kinds = || types.iter().map(|kind| &input.pools[pool as usize].catalogue.types[*kind as usize].capacity);
        let left = &mut self.limits[pool as usize];
        for (name, _) in input.pools[pool as usize].limits.iter() {
            let most = kinds().map(|capacity| drawn(capacity, name)).max().unwrap_or(0);
            left.set(name.clone(), left.get(name) - most);
        }
    }

    fn no_place(&self, pod: u32) -> Block {
        let key = &self.working.pods[pod as usize].running.facts.key;
        Block::new(BlockCode::NoSavings, format!("Pod/{key}"), "fits on no other node, and no cheaper machine runs it")
    }

    /// Why no node and no machine may run the pod: its spec, or its volumes.
    fn impossible(&self, pod: u32) -> Option<&Text> {
        let planned = &self.working.input.pods[pod as usize];
        let blocked = || self.working.input.volume_sets[planned.volumes? as usize].blocked.as_ref();
        planned.invalid.as_ref().or_else(blocked)
    }

    fn impossible_block(&self, pod: u32) -> Option<Block> {
        let why = self.impossible(pod)?;
        let object = format!("Pod/{}", self.working.pods[pod as usize].running.facts.key);
        Some(Block::new(BlockCode::NoCapacity, object, format!("has no other place: {why}")))
    }

    fn too_little(&self, node: u32, price: MicroUsd, moved: usize) -> Block {
        let message = format!(
            "costs ${price} an hour: its removal, which moves {moved} pods, does not save more than the churn price and the \
             least savings"
        );
        Block::new(BlockCode::NoSavings, self.title(node), message)
    }

    fn no_machine(&self, node: u32, reason: NoReplacement, replaced: &Replaced) -> Block {
        let price = self.working.nodes[node as usize].price;
        let (code, message) = match reason {
            NoReplacement::NoMachine => (
                BlockCode::NoCapacity,
                "runs pods that fit on no other node, and no machine of its NodePool runs them".to_owned(),
            ),
            NoReplacement::NotCheaper(cheapest) if replaced.below < price => (
                BlockCode::NoSavings,
                format!(
                    "costs ${price} an hour, and the cheapest machine for its pods ${cheapest}: less than the churn price and \
                     the least savings is saved"
                ),
            ),
            NoReplacement::NotCheaper(cheapest) => (
                BlockCode::NoSavings,
                format!(
                    "costs ${price} an hour, and the cheapest machine for the pods that fit nowhere else ${cheapest}"
                ),
            ),
            NoReplacement::MinValues => {
                (BlockCode::MinValues, "has too few cheaper machines for the minValues of its NodePool".to_owned())
            }
            NoReplacement::SpotFlexibility(0) => (
                BlockCode::SpotFlexibility,
                "is spot, and spot replaces spot only with the feature gate SpotToSpotConsolidation".to_owned(),
            ),
            NoReplacement::SpotFlexibility(options) => (
                BlockCode::SpotFlexibility,
                format!(
                    "is spot, and has {options} cheaper spot machines: at least 15 are needed to replace it by spot"
                ),
            ),
        };
        Block::new(code, self.title(node), message)
    }

    fn title(&self, node: u32) -> String {
        format!("Node/{}", self.working.input.nodes[node as usize].name)
    }
}

/// What a machine of this capacity draws from a limit.
fn drawn(capacity: &Resources, name: &Text) -> i64 {
    if name.as_ref() == NODES { 1 } else { capacity.get(name) }
}

/// The nodes that take pods: those that stay first, then candidates, the last to be tried first; of equal
/// ones the fullest first.
fn order_of_destinations(
    working: &WorkingCluster<'_>,
    candidates: &[Option<Candidate<'_>>],
    cost: &DisruptionCost,
) -> Vec<u32> {
    let takes = |node: &u32| {
        let candidate = working.nodes[*node as usize].running.and_then(|at| candidates.get(at as usize)?.as_ref());
        working.accepts_pods(*node) && candidate.is_none_or(Candidate::takes_pods)
    };
    let nodes = (0..working.nodes.len()).filter_map(|node| u32::try_from(node).ok()).filter(takes);
    let mut nodes: Vec<(bool, Ratio, u64, u32)> = nodes
        .map(|node| {
            let is_tried = is_tried(working, candidates, node);
            let ratio = if is_tried { cost.savings_ratio(node) } else { Ratio::default() };
            (is_tried, ratio, cost.free(node), node)
        })
        .collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, _, _, node)| node).collect()
}

/// Whether a pass may remove `node`: a candidate that nothing blocks, or a replacement that was planned for pods.
pub(crate) fn is_tried(working: &WorkingCluster<'_>, candidates: &[Option<Candidate<'_>>], node: u32) -> bool {
    let state = &working.nodes[node as usize];
    let is_candidate = |at: u32| {
        let candidate = candidates.get(at as usize).and_then(Option::as_ref);
        candidate.is_some_and(|candidate| candidate.may_go(RemovalReason::Underutilized))
    };
    !state.is_gone && state.running.map_or(state.launch.is_some() && !working.is_of_static_pool(node), is_candidate)
}

/// The nodes that a pass may remove, in the order in which it tries them.
pub(crate) fn order_of_trials(
    working: &WorkingCluster<'_>,
    candidates: &[Option<Candidate<'_>>],
    cost: &DisruptionCost,
) -> Vec<u32> {
    let nodes = (0..working.nodes.len()).filter_map(|node| u32::try_from(node).ok());
    let tried = nodes.filter(|node| is_tried(working, candidates, *node));
    let mut nodes: Vec<(Ratio, u64, std::cmp::Reverse<u32>)> =
        tried.map(|node| (cost.savings_ratio(node), cost.free(node), std::cmp::Reverse(node))).collect();
    nodes.sort_unstable_by(|one, other| other.cmp(one));
    nodes.into_iter().map(|(_, _, node)| node.0).collect()
}
