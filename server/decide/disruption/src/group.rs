//! Several nodes replaced by other machines at once: the planner's search packs their pods anew.
//!
//! Groups are made of the nodes that cost most beyond what their pods need. A group of few nodes comes first,
//! because it moves few pods; a larger one is tried when the smaller ones save nothing.

use model::disruption_plan::SEARCHES;
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, ZONE};
use model::plan::PlannedNode;
use model::removal::RemovalReason;
use model::{CapacityType, MicroUsd, NodeStage, Text, Zone};
use planner::{CompileCache, ReplacementMachines, plan_with, resource_prices};

use crate::Settings;
use crate::allowances::Allowances;
use crate::balance::Balance;
use crate::candidates::Candidate;
use crate::commands::keeps_rules;
use crate::consolidation::is_tried;
use crate::evacuation::step_of;
use crate::opt_in::{Change, OptInCounts};
use crate::parts::{with_likes_kept, worthwhile};
use crate::working::{Step, Terms, WorkingCluster};

/// The least part of the price of a group that its replacement must save, in percent. Packings of equal
/// pods differ by less, so that a cluster that was packed anew is not packed anew again.
const MIN_SAVED_PERCENT: i64 = 4;

/// The work for all groups of a plan, in steps of scheduling.
const WORK: u64 = 4_000_000;
/// The steps that a plan for a group takes for each pod of the cluster, apart from its search.
const STEPS_PER_POD: u64 = 50;
/// The steps of the search for each pod of a group.
const SEARCH_STEPS_PER_POD: u64 = 5_000;
/// The part of the steps of the policy's search that a plan for one group may take.
const SEARCH_PART: u64 = 8;

pub(crate) struct Groups<'c> {
    settings: &'c Settings,
    /// Steps that are left, apart from searches.
    work: u64,
    search: u64,
    /// What a unit of each resource is worth, in micro-dollars per hour.
    prices: Vec<(Text, f64)>,
}

impl<'c> Groups<'c> {
    pub(crate) fn new(working: &WorkingCluster<'_>, settings: &'c Settings) -> Self {
        let search = working.input.policy.search_steps.saturating_mul(SEARCHES);
        let mut groups = Self { settings, work: WORK, search, prices: Vec::new() };
        if groups.is_worthwhile(working) {
            // Without nodes: their capacity has a price here.
            groups.prices = resource_prices(&PlanningInput { nodes: Vec::new(), ..working.input.clone() });
        }
        groups
    }

    /// Whether the cluster is small enough for a plan of a group.
    pub(crate) fn is_worthwhile(&self, working: &WorkingCluster<'_>) -> bool {
        working.input.policy.search_steps > 0 && self.cost(working) <= self.work
    }

    fn cost(&self, working: &WorkingCluster<'_>) -> u64 {
        STEPS_PER_POD * u64::try_from(working.pods.len() + working.nodes.len()).unwrap_or(u64::MAX)
    }

    /// The next group that pays, as a step; `None` if none is found.
    pub(crate) fn next<'i>(
        &mut self,
        working: &WorkingCluster<'i>,
        (candidates, balance): (&[Option<Candidate<'i>>], &Balance<'i>),
        allowances: &mut Allowances<'i>,
        cache: &mut CompileCache,
    ) -> Option<Step> {
        let order = self.order(working, candidates, allowances);
        // One spot node is replaced by spot only by machines with enough options, which is no matter of groups.
        let mut size = if order.first().is_some_and(|node| is_spot(working, *node)) { 2 } else { 1 };
        while size <= order.len() {
            let group = &order[..size];
            if !self.take_work(working) {
                return None;
            }
            let step = self.replace((working, candidates), group, cache);
            let is_allowed = |step: &Step| {
                let removed = step.removed.iter().filter_map(|(node, _)| candidate(working, candidates, *node));
                let members = removed.collect::<Vec<_>>();
                balance.block(&members, saved_by(working, step)).is_none()
                    && allowances.launch_block(&working.input.pools, &step.replacements).is_none()
            };
            if let Some(step) = step.filter(is_allowed) {
                take(working, candidates, allowances, &step);
                return Some(step);
            }
            if size >= order.len() {
                return None;
            }
            size = (size + size.div_ceil(2)).min(order.len());
        }
        None
    }

    fn take_work(&mut self, working: &WorkingCluster<'_>) -> bool {
        let left = self.work.checked_sub(self.cost(working));
        self.work = left.unwrap_or(0);
        left.is_some()
    }

    /// The nodes that may be replaced together, those first that cost most beyond the value of their pods.
    fn order<'i>(
        &self,
        working: &WorkingCluster<'i>,
        candidates: &[Option<Candidate<'i>>],
        allowances: &Allowances<'i>,
    ) -> Vec<u32> {
        let value = |node: u32| -> i64 {
            let pods = working.nodes[node as usize].movable();
            let shapes = pods.map(|pod| &working.input.shapes[working.pods[pod as usize].pod.shape as usize].requests);
            let value = |(name, price): &(Text, f64), requests: &model::Resources| requests.get(name) as f64 * price;
            let sum: f64 =
                shapes.map(|requests| self.prices.iter().map(|price| value(price, requests)).sum::<f64>()).sum();
            sum as i64
        };
        let nodes = (0..working.nodes.len()).filter_map(|node| u32::try_from(node).ok());
        let free = nodes.filter(|node| is_tried(working, candidates, *node) && self.may_be_replaced(working, *node));
        let mut order: Vec<(i64, u32)> =
            free.map(|node| (value(node) - working.nodes[node as usize].price.0, node)).collect();
        order.sort_unstable();
        let mut allowances = allowances.clone();
        let fits = |node: &u32| {
            let candidate = candidate(working, candidates, *node);
            let is_free = candidate
                .is_some_and(|candidate| allowances.blocks(candidate, RemovalReason::Underutilized).is_empty());
            candidate.filter(|_| is_free).into_iter().for_each(|candidate| allowances.take(candidate));
            is_free
        };
        order.into_iter().map(|(_, node)| node).filter(fits).collect()
    }

    /// Spot nodes are not replaced by spot without the feature gate; a group would be.
    fn may_be_replaced(&self, working: &WorkingCluster<'_>, node: u32) -> bool {
        working.nodes[node as usize].launch.is_none() && (self.settings.spot_to_spot || !is_spot(working, node))
    }

    /// The step that replaces `group`, if it saves enough.
    fn replace(
        &mut self,
        (working, candidates): (&WorkingCluster<'_>, &[Option<Candidate<'_>>]),
        group: &[u32],
        cache: &mut CompileCache,
    ) -> Option<Step> {
        let takes = |node| candidate(working, candidates, node).is_none_or(Candidate::takes_pods);
        let (mut input, pods) = working.input_for(group, Terms::Kept, takes);
        let of_pods = SEARCH_STEPS_PER_POD * u64::try_from(pods.len()).unwrap_or(u64::MAX);
        let search = of_pods.min(input.policy.search_steps / SEARCH_PART).min(self.search);
        self.search -= search;
        input.policy.search_steps = search;
        let decision = plan_with(&input, cache).ok()?;
        if !decision.plan.unschedulable.is_empty() {
            return None;
        }
        let mut step = step_of(&decision.plan, &pods);
        step.removed = group.iter().map(|node| (*node, RemovalReason::Underutilized)).collect();
        in_known_zones(working, &ReplacementMachines::new(&working.input), &mut step.replacements);
        let step = worthwhile(working, self.settings, &step);
        let tried = with_likes_kept(working, &step).into_iter().chain([step]);
        tried.filter_map(|step| self.cheaper(working, step)).find(|step| is_valid(working, step))
    }

    /// `step` with the launch options by which it saves enough; `None` if it does not.
    fn cheaper(&self, working: &WorkingCluster<'_>, mut step: Step) -> Option<Step> {
        let before: i64 = step.removed.iter().map(|(node, _)| working.nodes[*node as usize].price.0).sum();
        let most = self.settings.most_for_replacement(MicroUsd(before), step.moves.len())?;
        let most = most.0.min(before - before * MIN_SAVED_PERCENT / 100);
        let after: i64 = step.replacements.iter().map(|machine| machine.price.0).sum();
        if after >= most {
            return None;
        }
        let machines = ReplacementMachines::new(&working.input);
        for machine in &mut step.replacements {
            *machine = within(&machines, machine, after, most)?;
        }
        let removed: Vec<u32> = step.removed.iter().map(|(node, _)| *node).collect();
        let moves = step.moves_to_nodes();
        let change = Change { removed: &removed, launches: &step.replacements, moves: &moves };
        OptInCounts::of(working).block(working, change).is_none().then_some(step)
    }
}

/// Whether all rules hold once `step` is carried out. Pods that moved before are judged again: a machine in another zone
/// may break their spread.
fn is_valid(working: &WorkingCluster<'_>, step: &Step) -> bool {
    let mut carried_out = working.clone();
    carried_out.apply(step.clone());
    keeps_rules(carried_out)
}

/// `machine` with the launch options by which the whole group saves enough, whichever of them launch: each
/// machine may cost its part of `most` if the machines cost `after` together.
fn within(machines: &ReplacementMachines<'_>, machine: &PlannedNode, after: i64, most: i64) -> Option<PlannedNode> {
    let part = i128::from(machine.price.0) * i128::from(most) / i128::from(after.max(1));
    machines.cheaper_than(machine, MicroUsd(i64::try_from(part).unwrap_or(i64::MAX)))
}

/// Leaves the machines their zones that have a node, if there are any and pods that moved already have rules over
/// zones: an empty zone would break their spread.
fn in_known_zones(working: &WorkingCluster<'_>, machines: &ReplacementMachines<'_>, replacements: &mut [PlannedNode]) {
    if !working.moves().into_iter().any(|pod| working.has_domain_rules(pod)) {
        return;
    }
    let staying = || working.input.nodes.iter().filter(|node| node.stage != NodeStage::Deleting);
    let is_known =
        |zone: &Zone| staying().any(|node| node.labels.get(ZONE).is_some_and(|known| known == zone.as_text()));
    for machine in replacements.iter_mut().filter(|machine| !machine.zones.iter().all(is_known)) {
        let zones: std::sync::Arc<[Zone]> = machine.zones.iter().filter(|zone| is_known(zone)).cloned().collect();
        if !zones.is_empty() {
            *machine = machines.with_pods(&PlannedNode { zones, ..machine.clone() }, machine.pods.clone());
        }
    }
}

fn is_spot(working: &WorkingCluster<'_>, node: u32) -> bool {
    let capacity_type = working.input.nodes[node as usize].labels.get(CAPACITY_TYPE);
    capacity_type.is_some_and(|value| value.as_ref() == CapacityType::Spot.as_str())
}

fn candidate<'c, 'i>(
    working: &WorkingCluster<'i>,
    candidates: &'c [Option<Candidate<'i>>],
    node: u32,
) -> Option<&'c Candidate<'i>> {
    candidates.get(working.nodes[node as usize].running? as usize)?.as_ref()
}

fn take<'i>(
    working: &WorkingCluster<'i>,
    candidates: &[Option<Candidate<'i>>],
    allowances: &mut Allowances<'i>,
    step: &Step,
) {
    allowances.take_launches(&working.input.pools, &step.replacements);
    for (node, _) in &step.removed {
        candidate(working, candidates, *node).into_iter().for_each(|candidate| allowances.take(candidate));
    }
}

/// What `step` saves per hour.
fn saved_by(working: &WorkingCluster<'_>, step: &Step) -> MicroUsd {
    let before: i64 = step.removed.iter().map(|(node, _)| working.nodes[*node as usize].price.0).sum();
    let after: i64 = step.replacements.iter().map(|machine| machine.price.0).sum();
    MicroUsd(before - after)
}
