//! The master problem: how many machines of each pattern cover the pods at least cost, with
//! fractions of machines allowed. Patterns are generated where they lower the cost.

use super::covering::{Covering, Row};
use super::item::{Item, Pods};
use super::knapsack::{self, Found};
use super::resource_cover;
use super::substitutions::{self, Substitution};
use super::weights::Weights;
use crate::resource_vector;
use crate::simplex::{BasisColumn, Simplex};
use crate::step_budget::StepBudget;

/// The work of one solution: relative gains for which patterns are generated, one after another, and
/// the fillings that a search for a pattern keeps at a time. Coarse gains are found with little work;
/// the last gain is the accuracy of the solution.
pub(crate) type Effort = &'static [(f64, usize)];

/// For the first solution of a problem.
pub(super) const FINE: Effort = &[(0.1, 2), (0.02, 4), (0.005, 8), (0.001, 20), (0.000_3, 60)];
/// For the pods that whole machines of that solution leave.
pub(super) const COARSE: Effort = &[(0.02, 4), (0.005, 12)];

/// Least relative gain of a pattern that is worth a step of the simplex.
const MIN_GAIN: f64 = 1e-7;
/// Searches for patterns of one machine, one after another, before the next machine.
const MAX_IN_A_ROW: usize = 4;
/// Passes over all machines for one gain.
const MAX_PASSES: usize = 100;
/// Price below which a row is covered beyond its need, in micro-dollars per hour.
const SURPLUS_PRICE: f64 = -1e-6;
/// Relative excess of a price over that of a larger pod which is worth a step of the simplex.
const MIN_SUBSTITUTION: f64 = 1e-3;
/// Steps that take as long as what a machine adds to the beginning of a solution.
const STEPS_PER_MACHINE: usize = 8;
/// Operations of the simplex that take as long as one step.
const OPERATIONS_PER_STEP: usize = 64;
/// The part of the mean of earlier prices in the prices that patterns are searched at, and the part of
/// the mean that a pass keeps.
const PART_OF_MEAN: f64 = 0.5;
const KEPT_MEAN: f64 = 0.8;

/// A machine with the pods on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pattern {
    pub(super) machine: u32,
    /// (row, pods), by row.
    pub(super) pods: Pods,
}

impl Pattern {
    /// This pattern without the pods that are not left.
    pub(super) fn truncated(&self, left: &[u32]) -> Option<Self> {
        let pods = self.pods.iter().map(|(row, pods)| (*row, (*pods).min(left[*row as usize])));
        let pods: Pods = pods.filter(|(_, pods)| *pods > 0).collect();
        (!pods.is_empty()).then_some(Self { machine: self.machine, pods })
    }
}

/// What the generation of patterns keeps from one solution to the next.
#[derive(Debug)]
pub(crate) struct PatternPool {
    patterns: Vec<Pattern>,
    /// By machine.
    pub(super) weights: Vec<Weights>,
}

impl PatternPool {
    /// `patterns` are known from the start.
    pub(crate) fn new(covering: &Covering, patterns: Vec<Pattern>) -> Self {
        Self { patterns, weights: vec![Weights::default(); covering.machines.len()] }
    }
}

/// A solution of the master problem.
#[derive(Debug, Default)]
pub(crate) struct Solution {
    /// Patterns and the number of machines of each.
    pub(super) levels: Vec<(Pattern, f64)>,
    /// Cost, in micro-dollars per hour.
    pub(super) cost: f64,
}

/// The least cost of covering `left` pods of each row, as far as `effort` and `steps` reach.
pub(super) fn solve(
    covering: &Covering,
    left: &[u32],
    pool: &mut PatternPool,
    effort: Effort,
    steps: &StepBudget,
) -> Solution {
    let Some(mut master) = Master::new(covering, left) else { return Solution::default() };
    steps.consume(covering.open_machines().count() * STEPS_PER_MACHINE);
    let known: Vec<Pattern> = pool.patterns.iter().filter_map(|pattern| pattern.truncated(left)).collect();
    while master.enter_all(&known, steps) > 0 && !steps.is_exhausted() {}
    master.generate(effort, Fractions::None, pool, steps);
    master.solution()
}

/// The pods that could be put on `machine`, by row.
pub(super) fn items<'c>(covering: &'c Covering, machine: usize, left: &[u32], prices: &[f64]) -> Vec<Item<'c>> {
    let machine = &covering.machines[machine];
    let of = |row: &u32| {
        let at = *row as usize;
        item(&covering.rows[at], at, &machine.capacity, left[at], prices[at])
    };
    machine.rows.iter().filter_map(of).collect()
}

pub(super) fn item<'c>(row: &'c Row, at: usize, capacity: &[i64], left: u32, price: f64) -> Option<Item<'c>> {
    let most = if left == 0 || price <= 0.0 { 0 } else { row.most.min(left) };
    let most = resource_vector::copies(&row.request, capacity, most);
    let row_number = u32::try_from(at).unwrap_or(u32::MAX);
    (most > 0).then_some(Item { row: row_number, request: &row.request, most, value: price, exclusive: row.exclusive })
}

/// The machine that carries pods of one row alone at the least price per pod, and their number.
fn single(covering: &Covering, row: usize, left: u32) -> Option<(u32, u32)> {
    let Row { request, most, .. } = &covering.rows[row];
    let each =
        |machine: usize| resource_vector::copies(request, &covering.machines[machine].capacity, (*most).min(left));
    let machines = covering.rows[row].machines.iter().map(|machine| (machine, each(machine)));
    let per_pod = |(machine, pods): &(usize, u32)| covering.machines[*machine].price / f64::from(*pods);
    let best = machines.filter(|(_, pods)| *pods > 0).min_by(|one, other| per_pod(one).total_cmp(&per_pod(other)))?;
    Some((u32::try_from(best.0).unwrap_or(u32::MAX), best.1))
}

/// Whether a filling with fractions of pods is a pattern where the search for a whole one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fractions {
    None,
    /// At these the cost is not that of a cover, but the prices come closer to those at which no machine
    /// is worth more than it costs.
    Allowed,
}

/// The linear program, with the patterns that are generated so far.
#[derive(Debug)]
pub(crate) struct Master<'a> {
    covering: &'a Covering,
    left: &'a [u32],
    /// Rows with pods left, by place in the simplex, and the pattern of each that is there from the
    /// start.
    open: Vec<usize>,
    singles: Vec<(u32, u32)>,
    /// Places whose pods may take the place of others.
    substitutions: Vec<Substitution>,
    simplex: Simplex,
    /// Price of one pod, by row of the covering problem.
    prices: Vec<f64>,
    /// A mean of earlier prices, which begins with those of the resources. The prices of the moment alone
    /// go from one extreme to another, and the patterns that are found at extremes are of no use later.
    mean: Vec<f64>,
    /// Patterns in the order in which they entered; `None` for what is no machine.
    entered: Vec<Option<Pattern>>,
}

impl<'a> Master<'a> {
    /// `None` if no pods are left.
    pub(crate) fn new(covering: &'a Covering, left: &'a [u32]) -> Option<Self> {
        let open = (0..left.len()).filter(|row| left[*row] > 0);
        let (open, singles): (Vec<usize>, Vec<(u32, u32)>) =
            open.filter_map(|row| Some((row, single(covering, row, left[row])?))).unzip();
        let need = open.iter().map(|row| f64::from(left[*row])).collect();
        let unit_cost = singles.iter().map(|(machine, pods)| covering.price(*machine) / f64::from(*pods)).collect();
        let mut master = Self {
            covering,
            left,
            open,
            singles,
            substitutions: Vec::new(),
            simplex: Simplex::new(need, unit_cost),
            prices: vec![0.0; left.len()],
            mean: resource_cover::pod_prices(covering, left),
            entered: Vec::new(),
        };
        master.update_prices();
        (!master.open.is_empty()).then_some(master)
    }

    /// Lets pods take the places of larger ones, so that no pod has a higher price than a larger one. The
    /// least cost is the same, but patterns of a solution may lack pods that others have in excess.
    pub(crate) fn allow_substitutions(&mut self) {
        self.substitutions = substitutions::all(self.covering, &self.open);
    }

    /// Price of one pod, by row of the covering problem.
    pub(crate) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// What the machines cost, in micro-dollars per hour.
    pub(crate) fn cost(&self) -> f64 {
        self.simplex.value()
    }

    /// Generates patterns as far as `effort` and `steps` reach.
    pub(crate) fn generate(
        &mut self,
        effort: Effort,
        fractions: Fractions,
        pool: &mut PatternPool,
        steps: &StepBudget,
    ) {
        for asked in effort {
            for _ in 0..MAX_PASSES {
                let found = self.pass(*asked, PART_OF_MEAN, fractions, pool, steps) > 0
                    || self.pass(*asked, 0.0, fractions, pool, steps) > 0;
                if !found || steps.is_exhausted() {
                    break;
                }
            }
        }
    }

    fn update_prices(&mut self) {
        self.open.iter().zip(self.simplex.prices()).for_each(|(row, price)| self.prices[*row] = *price);
    }

    /// Generates patterns that are worth more than their machine by `gain`, machine by machine, at the
    /// prices of the moment and `part` of their mean; returns the number that entered.
    fn pass(
        &mut self,
        (gain, width): (f64, usize),
        part: f64,
        fractions: Fractions,
        pool: &mut PatternPool,
        steps: &StepBudget,
    ) -> usize {
        let covering = self.covering;
        let mut entered = 0;
        for (at, machine) in covering.open_machines() {
            for _ in 0..MAX_IN_A_ROW {
                if steps.is_exhausted() {
                    return entered;
                }
                let prices = mixed(&self.prices, &self.mean, part);
                let items = items(covering, at, self.left, &prices);
                if items.is_empty() {
                    break;
                }
                steps.consume(items.len() / 2);
                let asked = (machine.price * (1.0 + gain), width);
                let best = knapsack::most_valuable(&items, &machine.capacity, asked, &mut pool.weights[at], steps);
                let new = match fractions {
                    Fractions::Allowed if best.pods.is_empty() => {
                        self.enter_fractions(&best, asked.0, machine.price, steps)
                    }
                    _ => self.enter_found(at, best, pool, steps),
                };
                entered += new;
                if new == 0 {
                    break;
                }
            }
        }
        self.mean = mixed(&self.prices, &self.mean, KEPT_MEAN);
        entered
    }

    /// Enters the fillings of a machine that were found; returns the number that lower the cost.
    fn enter_found(&mut self, machine: usize, found: Found, pool: &mut PatternPool, steps: &StepBudget) -> usize {
        let mut entered = 0;
        for (_, pods) in found.pods {
            let pattern = Pattern { machine: u32::try_from(machine).unwrap_or(u32::MAX), pods };
            if self.enter_all(std::slice::from_ref(&pattern), steps) > 0 {
                entered += 1;
                pool.patterns.push(pattern);
            }
        }
        entered
    }

    /// Enters a filling with fractions, at a cost that is below its value by as much as the machine's
    /// price is below the bound on its pods; returns the number that entered.
    fn enter_fractions(&mut self, best: &Found, asked: f64, price: f64, steps: &StepBudget) -> usize {
        if best.upper_bound <= asked {
            return 0;
        }
        let place = |row: u32| self.open.binary_search(&(row as usize)).ok();
        let column: Vec<(usize, f64)> =
            best.fractions.iter().filter_map(|(row, pods)| Some((place(*row)?, *pods))).collect();
        let value: f64 = best.fractions.iter().map(|(row, pods)| self.prices[*row as usize] * pods).sum();
        let cost = price * best.value_of_fractions / best.upper_bound;
        if value <= cost * (1.0 + MIN_GAIN) || !self.enter(&column, cost, None, steps) {
            return 0;
        }
        self.enter_surplus(steps);
        1
    }

    /// Enters the patterns that lower the cost when their turn comes; returns their number.
    fn enter_all(&mut self, patterns: &[Pattern], steps: &StepBudget) -> usize {
        let mut entered = 0;
        for pattern in patterns {
            let value: f64 = pattern.pods.iter().map(|(row, pods)| self.prices[*row as usize] * f64::from(*pods)).sum();
            let cost = self.covering.price(pattern.machine);
            if value <= cost * (1.0 + MIN_GAIN) {
                continue;
            }
            let place = |row: u32| self.open.binary_search(&(row as usize)).ok();
            let column: Vec<(usize, f64)> =
                pattern.pods.iter().filter_map(|(row, pods)| Some((place(*row)?, f64::from(*pods)))).collect();
            if self.enter(&column, cost, Some(pattern.clone()), steps) {
                entered += 1;
            }
            self.enter_surplus(steps);
        }
        steps.consume(patterns.len());
        entered
    }

    fn enter(&mut self, column: &[(usize, f64)], cost: f64, pattern: Option<Pattern>, steps: &StepBudget) -> bool {
        steps.consume(1 + self.open.len() * (self.open.len() + column.len()) / OPERATIONS_PER_STEP);
        let entered = self.simplex.enter(column, cost);
        if entered {
            self.entered.push(pattern);
            self.update_prices();
        }
        entered
    }

    /// Lets rows with a negative price be covered beyond their need, and pods take the places of larger ones.
    fn enter_surplus(&mut self, steps: &StepBudget) {
        loop {
            let negative = self.simplex.prices().iter().enumerate().filter(|(_, price)| **price < SURPLUS_PRICE);
            let most = negative.min_by(|one, other| one.1.total_cmp(other.1)).map(|(row, _)| row);
            let entered = match (most, self.best_substitution()) {
                (Some(row), _) => self.enter(&[(row, -1.0)], 0.0, None, steps),
                (None, Some(substitution)) => {
                    self.enter(&[(substitution.small, 1.0), (substitution.large, -1.0)], 0.0, None, steps)
                }
                (None, None) => false,
            };
            if !entered {
                return;
            }
        }
    }

    /// The substitution that lowers the cost most for each pod.
    fn best_substitution(&self) -> Option<Substitution> {
        let prices = self.simplex.prices();
        let excess = |substitution: &Substitution| prices[substitution.small] - prices[substitution.large];
        let lowering = self
            .substitutions
            .iter()
            .filter(|substitution| excess(substitution) > MIN_SUBSTITUTION * prices[substitution.large].max(1.0));
        lowering.max_by(|one, other| excess(one).total_cmp(&excess(other))).copied()
    }

    fn solution(self) -> Solution {
        let of = |(column, level): (BasisColumn, f64)| match column {
            BasisColumn::Initial(place) => {
                let (machine, pods) = self.singles[place];
                let row = u32::try_from(self.open[place]).unwrap_or(u32::MAX);
                Some((Pattern { machine, pods: [(row, pods)].into_iter().collect() }, level / f64::from(pods)))
            }
            BasisColumn::Entered(at) => Some((self.entered[at].clone()?, level)),
        };
        let levels = self.simplex.solution().filter(|(_, level)| *level > 1e-9).filter_map(of).collect();
        Solution { levels, cost: self.simplex.value() }
    }
}

/// `prices` with `part` of `mean`.
fn mixed(prices: &[f64], mean: &[f64], part: f64) -> Vec<f64> {
    prices.iter().zip(mean).map(|(price, mean)| price * (1.0 - part) + mean * part).collect()
}
