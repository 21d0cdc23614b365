//! ADD: pending pods to nodes that exist, nodes on their way, and machines to buy.
//!
//! `schedule/README.md` states the properties that the packing has. The rooms, in the order in which data passes them:
//! `problem` compiles the input (`axis`, `stall`, `variety`, `memo`, `market`, `fits`, `classes`, `subjects`, `topology`, `nodes`, `worth`); `packing` places
//! class after class (`rooms`, then `cohorts`, then `open` with `foresight`; `domains` for rules over zones, with `eligible`, `rules` for what pools opt
//! into, by the `ledger`); `finish` turns the packing into a plan, with `type_labels`; `statics` adds the machines that static pools lack.

mod axis;
mod balance;
mod bits;
mod classes;
mod cohorts;
mod domains;
mod eligible;
mod finish;
mod fits;
mod foresight;
mod ledger;
mod machines;
mod market;
mod memo;
mod merge;
mod nodes;
mod open;
mod packing;
mod problem;
mod rooms;
mod rules;
mod stall;
mod statics;
mod steps;
mod subjects;
mod topology;
mod type_labels;
mod variety;
mod worth;

use std::borrow::Cow;
use std::cmp::Reverse;

pub use self::memo::CompileCache;

use self::classes::Class;
use self::packing::Packing;
use self::problem::Problem;
use self::steps::Steps;
use crate::input::{PlanningInput, PreferencePolicy};
use crate::plan::Plan;

/// A plan, and what its step limit left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The plan. Pods that were left out are among those without a place.
    pub plan: Plan,
    /// Pods that scheduling had no steps left for, ascending.
    pub not_reached: Vec<u32>,
    /// Pods that it was about to place when it had none left, ascending.
    pub cut_off: Vec<u32>,
}

/// Places the pods of `input`. Deterministic: equal inputs give equal plans.
pub fn schedule(input: &PlanningInput) -> Plan {
    schedule_with(input, &mut CompileCache::default())
}

/// How pods are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As well as this module can.
    Full,
    /// With as little cleverness as will do, for when [`Method::Full`] made a plan that breaks a rule: preferences are not
    /// looked at, domains are not filled level by level, spread is counted over all domains that could be there, and no
    /// machines are merged.
    Plain,
}

/// The same plan, sooner if `memo` has served alike inputs.
pub fn schedule_with(input: &PlanningInput, memo: &mut CompileCache) -> Plan {
    schedule_within(input, memo).plan
}

/// The same plan, and which pods were left out because [`Policy::step_limit`](crate::input::Policy::step_limit) was reached.
pub fn schedule_within(input: &PlanningInput, memo: &mut CompileCache) -> Scheduled {
    schedule_by(input, Method::Full, memo)
}

impl From<Plan> for Scheduled {
    /// A plan that no step limit cut short.
    fn from(plan: Plan) -> Self {
        Self { plan, not_reached: Vec::new(), cut_off: Vec::new() }
    }
}

/// A plan by `method`, and which pods its step limit left out.
pub fn schedule_by(input: &PlanningInput, method: Method, memo: &mut CompileCache) -> Scheduled {
    let mut input = Cow::Borrowed(input);
    if method == Method::Plain && input.policy.preferences == PreferencePolicy::Respect {
        input.to_mut().policy.preferences = PreferencePolicy::Ignore;
    }
    let steps = Steps::new(input.policy.step_limit);
    let first = pack(&input, Order::BySize, method, memo, &steps);
    if first.plan.unschedulable.is_empty() || !priorities_differ(&input) || steps.are_spent() {
        return first;
    }
    // Something is short: who comes first matters, so higher priorities are served before lower ones.
    let second = pack(&input, Order::ByPriority, method, memo, &steps);
    if steps.are_spent() { first } else { second }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    BySize,
    ByPriority,
}

fn priorities_differ(input: &PlanningInput) -> bool {
    let mut priorities = input.pods.iter().map(|pod| input.shapes[pod.shape as usize].priority);
    priorities.next().is_some_and(|first| priorities.any(|other| other != first))
}

fn pack(input: &PlanningInput, order: Order, method: Method, memo: &mut CompileCache, steps: &Steps) -> Scheduled {
    let (problem, start) = problem::compile(input, memo);
    let mut packing = Packing::new(&problem, start, steps);
    let full = method == Method::Full;
    packing.level_by_level = full;
    let mut queue = queue_of(&problem, order);
    serve_all(&mut packing, &mut queue);
    if full && !queue.is_empty() {
        packing.present_domains_only = true;
        serve_all(&mut packing, &mut queue);
    }
    if full && !queue.is_empty() {
        packing.present_hosts_only = true;
        serve_all(&mut packing, &mut queue);
    }
    for _ in 0..MOST_REVISIONS {
        let merged = full && packing.merge();
        let moved = packing.balance_zones();
        // What was merged or moved may have made room for pods without a place.
        if !(merged || moved) || queue.is_empty() || !serve_all(&mut packing, &mut queue) {
            break;
        }
    }
    packing.balance_zones();
    let (begun, last) = (std::mem::take(&mut packing.begun), packing.last);
    let mut plan = finish::finish(packing);
    plan.static_nodes = statics::lacking(&problem, &plan, memo);
    let (not_reached, cut_off) = left_out(&problem, &plan, steps, &begun, last);
    Scheduled { plan, not_reached, cut_off }
}

/// The pods without a place that scheduling did not come to, and those that it did not come to an end with: those of the class
/// that it was at when its steps were spent.
fn left_out(
    problem: &Problem<'_>,
    plan: &Plan,
    steps: &Steps,
    begun: &bits::BitSet,
    last: Option<u32>,
) -> (Vec<u32>, Vec<u32>) {
    if !steps.are_spent() {
        return (Vec::new(), Vec::new());
    }
    let waiting: std::collections::BTreeSet<u32> = plan.unschedulable.iter().copied().collect();
    let of = |wanted: &dyn Fn(u32) -> bool| {
        let classes = (0_u32..).zip(&problem.classes).filter(|(at, class)| class.possible && wanted(*at));
        let mut pods: Vec<u32> =
            classes.flat_map(|(_, class)| &class.pods).copied().filter(|pod| waiting.contains(pod)).collect();
        pods.sort_unstable();
        pods
    };
    (of(&|at| !begun.contains(at as usize)), of(&|at| Some(at) == last))
}

/// Times that a packing is revised for pods that still wait; each may make room for some, and hardly ever more than one does.
const MOST_REVISIONS: u32 = 4;

/// Serves the queue, and again for as long as smaller machines give limits back that somebody can use; whether anybody got
/// a place.
fn serve_all(packing: &mut Packing<'_, '_>, queue: &mut Queue) -> bool {
    let waiting = |queue: &Queue| queue.iter().map(|(_, left)| u64::from(*left)).sum::<u64>();
    let first = waiting(queue);
    serve(packing, queue);
    for _ in 0..MOST_REVISIONS {
        let before = waiting(queue);
        if before == 0 || !packing.give_back() {
            break;
        }
        serve(packing, queue);
        if waiting(queue) == before {
            break;
        }
    }
    waiting(queue) < first
}

/// (class, pods without a place), in the order in which they are to be served.
type Queue = Vec<(u32, u32)>;

/// Classes that force machines of their own come first, since the others can use what those leave; then the largest, by
/// what they are worth; then by the name of their first pod.
fn queue_of(problem: &Problem<'_>, order: Order) -> Queue {
    let priority = |class: &Class| match order {
        Order::BySize => 0,
        Order::ByPriority => problem.input.shapes[class.shape as usize].priority,
    };
    let worth = |class: &Class| -> f64 {
        class.request.iter().zip(&problem.worth).map(|(ask, worth)| *ask as f64 * worth).sum()
    };
    let mut ranked: Vec<_> = (0_u32..)
        .zip(&problem.classes)
        .map(|(at, class)| {
            (Reverse(priority(class)), class.alone.is_none(), Total(-worth(class)), Reverse(class.request.clone()), at)
        })
        .collect();
    ranked.sort();
    let pods = |at: u32| u32::try_from(problem.classes[at as usize].pods.len()).unwrap_or(u32::MAX);
    ranked.into_iter().map(|(.., at)| (at, pods(at))).collect()
}

/// A float with its total order.
#[derive(Debug, Clone, Copy)]
struct Total(f64);

impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Total {}

impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Total {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Serves the queue round after round for as long as a round places somebody: a pod that wants to stand beside another
/// may find it only after the other has a place.
fn serve(packing: &mut Packing<'_, '_>, queue: &mut Queue) {
    loop {
        let mut progress = false;
        packing.revive();
        let least = suffix_minima(packing, queue);
        packing.line = queue.clone();
        for (at, (class, left)) in queue.iter_mut().enumerate() {
            if packing.steps.are_spent() {
                return;
            }
            if at % PRUNE_EVERY == 0 {
                packing.prune(&least[at]);
            }
            packing.line_at = at + 1;
            let placed = packing.place(*class, *left);
            progress |= placed > 0;
            *left -= placed;
        }
        queue.retain(|(_, left)| *left > 0);
        if !progress || queue.is_empty() {
            return;
        }
    }
}

/// Classes between two looks for machines that nobody can join any more.
const PRUNE_EVERY: usize = 16;

/// For each place in the queue, the least that any class from there on asks of each resource.
fn suffix_minima(packing: &Packing<'_, '_>, queue: &Queue) -> Vec<axis::Amounts> {
    let classes = &packing.problem.classes;
    let mut minima: Vec<axis::Amounts> = Vec::with_capacity(queue.len());
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
