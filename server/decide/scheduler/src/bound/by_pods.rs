//! Bound by whole pods: machines that carry the pods, none of them cut, with fractions of machines.
//!
//! The linear program of the search, over every machine that any pool offers, gives a price to each
//! pod. At prices at which no machine is worth more than it costs, the pods that existing capacity
//! does not carry cost at least what they are worth. Prices are lowered until that is so. Where much is
//! lost by that, because fillings of a machine are too many to try, fractions of pods take part in the
//! linear program.

use std::collections::BTreeMap;

use model::CapacityType;
use model::input::PlanningInput;
use model::plan::Plan;

use super::demand::Demand;
use super::exclusive_pods::{ExclusionReason, excludes, exclusion_reasons};
use super::supply::Supply;
use crate::bit_set::BitSet;
use crate::search::{
    Covering, Effort, Fractions, Machine, Master, PatternPool, Row, lower_to_feasible, value_of_machine,
};
use crate::step_budget::StepBudget;

/// Maximum number of rows; the pods of further ones, which request least, count nothing.
const MAX_ROWS: usize = 160;
/// Part of the value that rounding may have added.
const ROUNDING: f64 = 1e-7;

/// The effort for a solution, which is as good for a bound as its largest gain that is overlooked.
const EXACT: Effort = &[(0.1, 4), (0.02, 8), (0.005, 60), (0.002, 60), (0.000_5, 150)];
/// The effort for prices that take fractions of pods into account.
const RELAXED: Effort = &[(0.005, 4), (0.000_5, 4)];
/// Parts of the steps that are left: for the solution, for feasible prices from it, and for the solution
/// with fractions of pods.
const SOLUTION_PERCENT: u64 = 50;
const LOWERING_PERCENT: u64 = 50;
const FRACTIONS_PERCENT: u64 = 75;
/// The part of the cost of a solution at which a bound is good enough.
const ENOUGH: f64 = 0.995;

/// Index of a shape in the demand, and of the set of pods that exclude each other, if any.
type RowKey = (usize, Option<u32>);

/// The bound in micro-dollars per hour, as sharp as `steps` allow; `plan` places the demand.
pub(super) fn bound(
    input: &PlanningInput,
    plan: &Plan,
    demand: &Demand<'_>,
    supply: &Supply,
    steps: &StepBudget,
) -> i64 {
    let new = plan.nodes.iter().flat_map(|node| node.pods.iter().copied());
    let mut sets = ExclusiveSets::default();
    let launched = pods_by_row(input, demand, &mut sets, new);
    let existing = pods_by_row(input, demand, &mut sets, plan.placements.iter().map(|(pod, _)| *pod));
    let keys = largest_rows(demand, &launched);
    if keys.is_empty() {
        return 0;
    }
    let covering = covering(demand, supply, &keys, &launched);
    let pods: Vec<u32> = covering.rows().iter().map(Row::pods).collect();
    // Existing capacity could carry other pods than it does in this plan.
    let placed = |key: &RowKey| launched.get(key).unwrap_or(&0) + existing.get(key).unwrap_or(&0);
    let placed: Vec<u32> = keys.iter().map(placed).collect();
    let value = |prices: &[f64]| {
        let mut value: f64 = prices.iter().zip(&placed).map(|(price, pods)| price * f64::from(*pods)).sum();
        for free in supply.free.iter().filter(|free| free.count > 0 && free.groups != 0) {
            let admitted = |row: usize| free.groups >> demand.shapes[keys[row].0].group & 1 == 1;
            value -= free.count as f64 * value_of_machine(&covering, &free.amounts, prices, &placed, admitted, steps);
        }
        value
    };
    (best_value(&covering, &pods, value, steps) * (1.0 - ROUNDING)).floor() as i64
}

/// The largest value of feasible prices.
fn best_value(covering: &Covering, pods: &[u32], value: impl Fn(&[f64]) -> f64, steps: &StepBudget) -> f64 {
    let Some(mut master) = Master::new(covering, pods) else { return 0.0 };
    let mut pool = PatternPool::new(covering, Vec::new());
    let feasible_value = |prices: &[f64], pool: &mut PatternPool| {
        let mut prices = prices.to_vec();
        lower_to_feasible(covering, &mut prices, pods, pool, steps);
        value(&prices)
    };
    master.allow_substitutions();
    let is_solved = steps.with_percent(SOLUTION_PERCENT, || {
        master.generate(EXACT, Fractions::None, &mut pool, steps);
        !steps.is_exhausted()
    });
    let solution = (master.prices().to_vec(), master.cost());
    let mut best = 0.0;
    if is_solved {
        best = steps.with_percent(LOWERING_PERCENT, || feasible_value(&solution.0, &mut pool));
        if best >= solution.1 * ENOUGH {
            return best;
        }
    }
    steps.with_percent(FRACTIONS_PERCENT, || master.generate(RELAXED, Fractions::Allowed, &mut pool, steps));
    best = best.max(feasible_value(master.prices(), &mut pool));
    if !is_solved && !steps.is_exhausted() {
        best = best.max(feasible_value(&solution.0, &mut pool));
    }
    best
}

/// Pods that exclude others, by shape, namespace and labels; without the latter two, all others.
type Kind<'a> = (u32, Option<(&'a str, u32)>);

/// Numbers of the sets of pods that exclude each other from a node, by why they do.
#[derive(Default)]
struct ExclusiveSets<'a>(BTreeMap<ExclusionReason<'a>, u32>);

impl<'a> ExclusiveSets<'a> {
    /// The first set of pods of this kind; `None` if they share nodes.
    fn number(&mut self, input: &'a PlanningInput, (shape, own): Kind<'a>) -> Option<u32> {
        let (namespace, labels) = own?;
        let reason = exclusion_reasons(input, namespace, shape, labels).into_iter().next()?;
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        Some(*self.0.entry(reason).or_insert(next))
    }
}

fn pods_by_row<'a>(
    input: &'a PlanningInput,
    demand: &Demand<'_>,
    sets: &mut ExclusiveSets<'a>,
    pods: impl Iterator<Item = u32>,
) -> BTreeMap<RowKey, u32> {
    let mut kinds: BTreeMap<Kind<'a>, u32> = BTreeMap::new();
    for pod in pods.filter_map(|pod| input.pods.get(pod as usize)) {
        let own = excludes(&input.shapes[pod.shape as usize]).then_some((pod.namespace.as_ref(), pod.labels));
        *kinds.entry((pod.shape, own)).or_default() += 1;
    }
    let mut rows = BTreeMap::new();
    for (kind, pods) in kinds {
        if let Ok(at) = demand.shapes.binary_search_by_key(&kind.0, |known| known.shape) {
            *rows.entry((at, sets.number(input, kind))).or_default() += pods;
        }
    }
    rows
}

/// The rows with the largest requests in sum, by their keys.
fn largest_rows(demand: &Demand<'_>, launched: &BTreeMap<RowKey, u32>) -> Vec<RowKey> {
    let totals: Vec<f64> = (0..demand.resources.len())
        .map(|at| demand.amounts.iter().map(|group| group[at] as f64).sum::<f64>().max(1.0))
        .collect();
    let share = |((shape, _), pods): (&RowKey, &u32)| {
        let each = demand.shapes[*shape].requests.iter().zip(&totals).map(|(ask, total)| *ask as f64 / total);
        each.fold(0.0, f64::max) * f64::from(*pods)
    };
    let mut keys: Vec<(f64, RowKey)> = launched.iter().map(|row| (share(row), *row.0)).collect();
    keys.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    keys.truncate(MAX_ROWS);
    keys.into_iter().map(|(_, key)| key).collect()
}

fn covering(demand: &Demand<'_>, supply: &Supply, keys: &[RowKey], pods: &BTreeMap<RowKey, u32>) -> Covering {
    let row = |key: &RowKey| {
        let shape = &demand.shapes[key.0];
        let mut machines = BitSet::empty(supply.columns.len());
        for (at, column) in supply.columns.iter().enumerate() {
            let fits = shape.requests.iter().zip(&column.amounts).all(|(ask, have)| ask <= have);
            if fits && column.groups >> shape.group & 1 == 1 {
                machines.insert(at);
            }
        }
        Row {
            request: shape.requests.iter().copied().collect(),
            machines,
            most: if key.1.is_some() { 1 } else { u32::MAX },
            exclusive: key.1,
            pin: None,
            classes: vec![(shape.shape, pods.get(key).copied().unwrap_or(0))],
        }
    };
    let machine = |column: &super::supply::Column| {
        let capacity = column.amounts.iter().copied().collect();
        Machine::new((0, 0, CapacityType::OnDemand, None), column.price as f64, capacity)
    };
    Covering::new(keys.iter().map(row).collect(), supply.columns.iter().map(machine).collect())
}
