//! Provisioning: assigns pending pods to existing nodes, in-flight nodes and machines to launch.
//!
//! The crate's README states the properties of the packing. [`schedule_by`] is the entry. Modules
//! in the order of the data flow: `problem` compiles the input (`resource_vector`,
//! `pool_offerings`, `min_values`, `compile_cache`, `pool_supply`, `fits`, `classes`,
//! `selector_index`, `topology`, `nodes`, `shadow_prices`). `packing` places class after class:
//! `existing_nodes`, then `cohorts`, then `open` with `lookahead`, in the order of `fill`; `class_fits` has the options of a
//! class; `domains` applies rules over zones, with `eligible`, and `host_rules` those over hostnames; `rules` applies the pools' opt-in rules, using `pool_counts`; both look
//! up `packing_cache`. `merge` and `balance` revise the packing. `finish` turns it into a plan, with
//! `type_labels`; `static_pools` adds the machines that static pools miss. `step_budget` bounds the
//! work. `search` finds cheaper machines for the pods of a packing, and `patterns` guide a second
//! packing by them. [`bound`] computes the lower bound of the cost; `simplex` solves linear programs
//! for both.

mod balance;
mod bit_set;
pub mod bound;
mod class_fits;
mod classes;
mod cohorts;
mod compile_cache;
mod domains;
mod eligible;
mod existing_nodes;
mod fill;
mod finish;
mod fits;
mod host_rules;
mod limited_pools;
mod lookahead;
mod machine_cost;
mod machines;
mod merge;
mod min_values;
mod nodes;
mod open;
mod packing;
mod packing_cache;
mod patterns;
mod pool_counts;
mod pool_offerings;
mod pool_supply;
mod populated_hosts;
mod problem;
mod resource_vector;
mod rules;
mod search;
mod selector_index;
mod shadow_prices;
mod simplex;
mod static_pools;
mod step_budget;
#[cfg(test)]
mod testing;
mod topology;
mod type_labels;

use std::borrow::Cow;
use std::cmp::Reverse;

pub use self::compile_cache::CompileCache;

use self::classes::Class;
pub use self::limited_pools::pods_on_lighter_pools;
use self::packing::Packing;
use self::patterns::Patterns;
use self::problem::Problem;
use self::search::LaunchedPods;
use self::step_budget::StepBudget;
use model::input::{PlanningInput, PreferencePolicy};
use model::plan::Plan;

/// A plan, and the pods that its step limit left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleResult {
    /// The plan. Pods left out by the step limit are among its unschedulable pods.
    pub plan: Plan,
    /// Pods of classes that were not attempted before the step budget was exhausted, ascending.
    pub not_reached: Vec<u32>,
    /// Unplaced pods of the class in progress when the step budget was exhausted, ascending.
    pub cut_off: Vec<u32>,
}

/// Places the pods of `input`. Deterministic: equal inputs give equal plans.
pub fn schedule(input: &PlanningInput) -> Plan {
    schedule_with(input, &mut CompileCache::default())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackingMethod {
    /// All steps of this module.
    Full,
    /// A simpler packing, used when a [`PackingMethod::Full`] plan violates a rule: preferences are
    /// ignored, domains are not filled level by level, spread is counted over all domains that
    /// could exist, and no machines are merged.
    Plain,
}

/// Same plan as [`schedule`]; faster when `cache` holds compiled pools of similar inputs.
pub fn schedule_with(input: &PlanningInput, cache: &mut CompileCache) -> Plan {
    schedule_within(input, cache).plan
}

/// Same plan as [`schedule_with`], with the pods left out because of
/// [`Policy::step_limit`](model::input::Policy::step_limit).
pub fn schedule_within(input: &PlanningInput, cache: &mut CompileCache) -> ScheduleResult {
    schedule_by(input, PackingMethod::Full, cache)
}

impl From<Plan> for ScheduleResult {
    /// A plan that no step limit cut short.
    fn from(plan: Plan) -> Self {
        Self { plan, not_reached: Vec::new(), cut_off: Vec::new() }
    }
}

/// Plans by `method`; returns the plan and the pods that its step limit left out.
pub fn schedule_by(input: &PlanningInput, method: PackingMethod, cache: &mut CompileCache) -> ScheduleResult {
    let mut input = Cow::Borrowed(input);
    if method == PackingMethod::Plain && input.policy.preferences == PreferencePolicy::Respect {
        input.to_mut().policy.preferences = PreferencePolicy::Ignore;
    }
    let steps = cache.budget(input.policy.step_limit);
    let first = pack(&input, QueueOrder::BySize, method, cache, &steps);
    let is_short = !first.plan.unschedulable.is_empty();
    let order_decides = is_short || limited_pools::serve_lower_priorities_first(&input, &first.plan);
    if !order_decides || !priorities_differ(&input) || steps.is_exhausted() {
        return first;
    }
    // Capacity is short, so the order matters: pack again with higher priorities before lower ones.
    let second = pack(&input, QueueOrder::ByPriority, method, cache, &steps);
    let on_lighter = |result: &ScheduleResult| pods_on_lighter_pools(&input, &result.plan);
    let is_better = is_short || (second.plan.unschedulable.is_empty() && on_lighter(&second) < on_lighter(&first));
    if is_better && !steps.is_exhausted() { second } else { first }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueOrder {
    BySize,
    ByPriority,
}

fn priorities_differ(input: &PlanningInput) -> bool {
    let mut priorities = input.pods.iter().map(|pod| input.shapes[pod.shape as usize].priority);
    priorities.next().is_some_and(|first| priorities.any(|other| other != first))
}

fn pack(
    input: &PlanningInput,
    order: QueueOrder,
    method: PackingMethod,
    cache: &mut CompileCache,
    steps: &StepBudget,
) -> ScheduleResult {
    let (problem, initial) = problem::compile(input, cache);
    let mut packing = Packing::new(&problem, initial, steps);
    pack_queue(&mut packing, build_queue(&problem, order), method);
    finished(packing, cache)
}

/// Places the pods of `input` once more, guided by the cheaper machines that the search finds for the
/// pods that `first` launches machines for; returns the steps of the search too. The result may cost
/// more than `first`.
///
/// `steps` bounds the search; the packing has a bound of its own, and is incomplete beyond it.
/// Deterministic for a seed.
pub fn schedule_by_search(
    input: &PlanningInput,
    first: &Plan,
    (seed, steps): (u64, u64),
    cache: &mut CompileCache,
) -> (ScheduleResult, u64) {
    let limit = if input.policy.step_limit == 0 { GUIDED_STEPS } else { input.policy.step_limit.min(GUIDED_STEPS) };
    let steps = cache.budget(steps);
    for is_populated in [true, false] {
        let limit = cache.budget(limit);
        let (problem, initial) = problem::compile(input, cache);
        let mut packing = Packing::new(&problem, initial, &limit);
        let queue = build_queue(&problem, QueueOrder::BySize);
        let launched = LaunchedPods::of(&mut packing, &queue, first);
        if is_populated {
            packing.populated = packing.populatable_groups(&launched);
        }
        let patterns = search::patterns(&mut packing, &launched, seed, &steps);
        packing.patterns = Patterns::of(patterns, &queue);
        if packing.patterns.are_in_use() {
            pack_queue(&mut packing, queue, PackingMethod::Full);
            if packing.hosts_are_populated() {
                packing.merge_equal_machines();
                packing.place_first_pods_first();
                return (finished(packing, cache), steps.used());
            }
        }
        // Without such a group a repetition would be the same packing.
        if packing.populated.is_empty() {
            break;
        }
    }
    (first.clone().into(), steps.used())
}

/// Maximum steps of a packing that patterns guide: what the largest inputs of the benchmark need. Inputs
/// that need more have no search, which must not double the time of a plan.
const GUIDED_STEPS: u64 = 20_000_000;

/// Places the pods of `queue`.
fn pack_queue(packing: &mut Packing<'_, '_>, mut queue: Queue, method: PackingMethod) {
    let full = method == PackingMethod::Full;
    packing.level_by_level = full;
    place_queue_repeatedly(packing, &mut queue);
    if full && !queue.is_empty() {
        packing.present_domains_only = true;
        place_queue_repeatedly(packing, &mut queue);
    }
    if full && !queue.is_empty() {
        packing.present_hosts_only = true;
        place_queue_repeatedly(packing, &mut queue);
    }
    for _ in 0..MAX_REVISIONS {
        let merged = full && packing.merge();
        let moved = packing.balance_zones();
        // Merging or moving machines may have freed capacity for unplaced pods.
        if !(merged || moved) || queue.is_empty() || !place_queue_repeatedly(packing, &mut queue) {
            break;
        }
    }
    packing.balance_zones();
}

/// The plan of a packing, and the pods that its step limit left out.
fn finished(mut packing: Packing<'_, '_>, cache: &mut CompileCache) -> ScheduleResult {
    let (problem, steps) = (packing.problem, packing.steps);
    let (attempted, last) = (std::mem::take(&mut packing.attempted), packing.last_attempted);
    let mut plan = finish::finish(packing);
    plan.static_nodes = static_pools::missing_nodes(problem, &plan, cache);
    let (not_reached, cut_off) = pods_left_out(problem, &plan, steps, &attempted, last);
    ScheduleResult { plan, not_reached, cut_off }
}

/// Splits the unplaced pods of an exhausted step budget: those of classes not attempted, and those
/// of the class in progress.
fn pods_left_out(
    problem: &Problem<'_>,
    plan: &Plan,
    steps: &StepBudget,
    attempted: &bit_set::BitSet,
    last: Option<u32>,
) -> (Vec<u32>, Vec<u32>) {
    if !steps.is_exhausted() {
        return (Vec::new(), Vec::new());
    }
    let unplaced: std::collections::BTreeSet<u32> = plan.unschedulable.iter().copied().collect();
    let of = |wanted: &dyn Fn(u32) -> bool| {
        let classes = (0_u32..).zip(&problem.classes).filter(|(at, class)| class.possible && wanted(*at));
        let mut pods: Vec<u32> =
            classes.flat_map(|(_, class)| &class.pods).copied().filter(|pod| unplaced.contains(pod)).collect();
        pods.sort_unstable();
        pods
    };
    (of(&|at| !attempted.contains(at as usize)), of(&|at| Some(at) == last))
}

/// Revisions of a packing for pods still unplaced. Each may free capacity; more than one rarely
/// does.
const MAX_REVISIONS: u32 = 4;

/// Places the queue, and repeats while smaller targets free pool limits that a queued pod can use.
/// Returns whether any pod was placed.
fn place_queue_repeatedly(packing: &mut Packing<'_, '_>, queue: &mut Queue) -> bool {
    let unplaced = |queue: &Queue| queue.iter().map(|(_, left)| u64::from(*left)).sum::<u64>();
    let first = unplaced(queue);
    place_queue(packing, queue);
    for _ in 0..MAX_REVISIONS {
        let before = unplaced(queue);
        if before == 0 || !packing.shrink_targets() {
            break;
        }
        place_queue(packing, queue);
        if unplaced(queue) == before {
            break;
        }
    }
    unplaced(queue) < first
}

/// (class, unplaced pods), in placement order.
type Queue = Vec<(u32, u32)>;

/// Placement order: classes that need a machine without others of their kind first, since other
/// classes fill what those leave; then by the value of the request at shadow prices, largest first;
/// then by the name of the first pod.
fn build_queue(problem: &Problem<'_>, order: QueueOrder) -> Queue {
    let priority = |class: &Class| match order {
        QueueOrder::BySize => 0,
        QueueOrder::ByPriority => problem.input.shapes[class.shape as usize].priority,
    };
    let value = |class: &Class| -> f64 {
        class.request.iter().zip(&problem.shadow_prices).map(|(ask, price)| *ask as f64 * price).sum()
    };
    let mut ranked: Vec<_> = (0_u32..)
        .zip(&problem.classes)
        .map(|(at, class)| {
            (
                Reverse(priority(class)),
                class.self_exclusive.is_none(),
                TotalF64(-value(class)),
                Reverse(class.request.clone()),
                at,
            )
        })
        .collect();
    ranked.sort();
    let pods = |at: u32| u32::try_from(problem.classes[at as usize].pods.len()).unwrap_or(u32::MAX);
    ranked.into_iter().map(|(.., at)| (at, pods(at))).collect()
}

/// A float with its total order.
#[derive(Debug, Clone, Copy)]
struct TotalF64(f64);

impl PartialEq for TotalF64 {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TotalF64 {}

impl PartialOrd for TotalF64 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TotalF64 {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Repeats rounds over the queue while a round places a pod: pod affinity may become satisfiable
/// only after its target pod has a place.
fn place_queue(packing: &mut Packing<'_, '_>, queue: &mut Queue) {
    loop {
        let mut progress = false;
        packing.reset_candidate_cohorts();
        let least = suffix_minima(packing, queue);
        packing.queue = queue.clone();
        for (at, (class, left)) in queue.iter_mut().enumerate() {
            if packing.steps.is_exhausted() {
                return;
            }
            if at % CLASSES_PER_PRUNE == 0 {
                packing.drop_full_cohorts(&least[at]);
            }
            packing.queue_position = at + 1;
            let placed = packing.place(*class, *left);
            progress |= placed > 0;
            *left -= placed;
        }
        queue.retain(|(_, left)| *left > 0);
        // The first round fills the machines of patterns only.
        if queue.is_empty() || !(packing.end_guidance() || progress) {
            return;
        }
    }
}

/// Classes placed between two removals of cohorts that no queued class fits.
const CLASSES_PER_PRUNE: usize = 16;

/// For each queue position, the minimum request of each resource over the classes from there on.
fn suffix_minima(packing: &Packing<'_, '_>, queue: &Queue) -> Vec<resource_vector::Amounts> {
    let classes = &packing.problem.classes;
    let mut minima: Vec<resource_vector::Amounts> = Vec::with_capacity(queue.len());
    for (class, _) in queue.iter().rev() {
        let request = &classes[*class as usize].request;
        let least = match minima.last() {
            Some(later) => request.iter().zip(later).map(|(a, b)| *a.min(b)).collect(),
            None => request.clone(),
        };
        minima.push(least);
    }
    minima.reverse();
    minima
}
