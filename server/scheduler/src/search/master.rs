//! The master problem: how many machines of each pattern cover the pods at least cost, with
//! fractions of machines allowed. Patterns are generated where they lower the cost.

use super::covering::{Covering, Row};
use super::knapsack::{self, Item, Pods, Weights};
use crate::resource_vector;
use crate::simplex::{BasisColumn, Simplex};
use crate::step_budget::StepBudget;

/// The work of one solution: relative gains for which patterns are generated, one after another, and
/// the nodes of a search tree for each. Coarse gains are found with little work; the last gain is
/// the accuracy of the solution.
pub(crate) type Effort = &'static [(f64, u32)];

/// For the first solution of a problem.
pub(crate) const FINE: Effort = &[(0.1, 30), (0.02, 100), (0.005, 400), (0.001, 1_000), (0.000_3, 4_000)];
/// For a bound, which is as good as its largest gain that is overlooked.
pub(crate) const EXACT: Effort = &[(0.1, 30), (0.02, 100), (0.005, 400), (0.001, 1_000), (0.000_5, 5_000)];
/// For the pods that whole machines of that solution leave.
pub(super) const COARSE: Effort = &[(0.02, 100), (0.005, 400)];

/// Nodes of a search tree for a bound.
const CERTIFICATE_NODES: u32 = 5_000;
/// Nodes of a search tree for the value of existing capacity.
const EXISTING_NODES: u32 = 50;
/// Relative excess of a value over a price that is removed from all prices at once.
const TOLERANCE: f64 = 0.000_5;
/// Times that pods of one machine become cheaper one filling at a time.
const MAX_LOWERINGS: u32 = 100;
/// Least relative gain of a pattern that is worth a step of the simplex.
const MIN_GAIN: f64 = 1e-7;
/// Patterns of one machine, one after another, before the next machine.
const MAX_IN_A_ROW: usize = 4;
/// Passes over all machines for one gain.
const MAX_PASSES: usize = 100;
/// Price below which a row is covered beyond its need, in micro-dollars per hour.
const SURPLUS_PRICE: f64 = -1e-6;
/// Operations of the simplex that take as long as one step.
const OPERATIONS_PER_STEP: usize = 64;

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
    weights: Vec<Weights>,
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
    /// Price of one pod, by row of the covering problem.
    pub(crate) prices: Vec<f64>,
}

/// The least cost of covering `left` pods of each row, as far as `effort` and `steps` reach.
pub(crate) fn solve(
    covering: &Covering,
    left: &[u32],
    pool: &mut PatternPool,
    effort: Effort,
    steps: &StepBudget,
) -> Solution {
    let Some(mut master) = Master::new(covering, left) else { return Solution::default() };
    let known: Vec<Pattern> = pool.patterns.iter().filter_map(|pattern| pattern.truncated(left)).collect();
    while master.enter_all(&known, steps) > 0 && !steps.is_exhausted() {}
    for (gain, nodes) in effort {
        for _ in 0..MAX_PASSES {
            if master.generate(*gain, *nodes, pool, steps) == 0 || steps.is_exhausted() {
                break;
            }
        }
    }
    master.solution()
}

/// Lowers `prices` until no machine is worth more than it costs, so that the value of all pods
/// bounds the cost of every cover. Only pods on a machine that is worth too much become cheaper;
/// without steps left, all pods that the machine may carry do.
pub(crate) fn lower_to_feasible(
    covering: &Covering,
    prices: &mut [f64],
    left: &[u32],
    pool: &mut PatternPool,
    steps: &StepBudget,
) {
    // Prices only fall, so that machines before the present one stay within their price.
    for (at, machine) in covering.open_machines() {
        let most = machine.price * (1.0 + TOLERANCE);
        for round in 0..=MAX_LOWERINGS {
            let items = items(covering, at, left, prices);
            if items.is_empty() {
                break;
            }
            let nodes = if steps.is_exhausted() || round == MAX_LOWERINGS { 0 } else { CERTIFICATE_NODES };
            let best = knapsack::most_valuable(&items, &machine.capacity, (most, nodes), &mut pool.weights[at], steps);
            if let Some((value, pods)) = best.pods {
                pods.iter().for_each(|(row, _)| prices[*row as usize] *= machine.price / value);
                continue;
            }
            // Branches that were not explored may hold more.
            if best.upper_bound > most {
                let rows: Vec<usize> = items.iter().map(|item| item.row as usize).collect();
                rows.into_iter().for_each(|row| prices[row] *= most / best.upper_bound);
            }
            break;
        }
    }
    prices.iter_mut().for_each(|price| *price /= 1.0 + TOLERANCE);
}

/// A bound on the value at `prices` of the pods, at most `left` of each row, that a machine with
/// `capacity` can carry, of the rows that are admitted to it.
pub(crate) fn value_of_machine(
    covering: &Covering,
    capacity: &[i64],
    prices: &[f64],
    left: &[u32],
    admitted: impl Fn(usize) -> bool,
    steps: &StepBudget,
) -> f64 {
    let rows = covering.rows.iter().enumerate().filter(|(at, _)| admitted(*at));
    let items: Vec<Item<'_>> = rows.filter_map(|(at, row)| item(row, at, capacity, left[at], prices[at])).collect();
    if items.is_empty() {
        return 0.0;
    }
    let most = if steps.is_exhausted() { 0 } else { EXISTING_NODES };
    knapsack::most_valuable(&items, capacity, (0.0, most), &mut Weights::default(), steps).upper_bound
}

/// The pods that could be put on `machine`, by row.
fn items<'c>(covering: &'c Covering, machine: usize, left: &[u32], prices: &[f64]) -> Vec<Item<'c>> {
    let machine = &covering.machines[machine];
    let of = |row: &u32| {
        let at = *row as usize;
        item(&covering.rows[at], at, &machine.capacity, left[at], prices[at])
    };
    machine.rows.iter().filter_map(of).collect()
}

fn item<'c>(row: &'c Row, at: usize, capacity: &[i64], left: u32, price: f64) -> Option<Item<'c>> {
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

struct Master<'a> {
    covering: &'a Covering,
    left: &'a [u32],
    /// Rows with pods left, by place in the simplex, and the pattern of each that is there from the
    /// start.
    open: Vec<usize>,
    singles: Vec<(u32, u32)>,
    simplex: Simplex,
    /// Price of one pod, by row of the covering problem.
    prices: Vec<f64>,
    /// Patterns in the order in which they entered; `None` for a surplus.
    entered: Vec<Option<Pattern>>,
}

impl<'a> Master<'a> {
    fn new(covering: &'a Covering, left: &'a [u32]) -> Option<Self> {
        let open = (0..left.len()).filter(|row| left[*row] > 0);
        let (open, singles): (Vec<usize>, Vec<(u32, u32)>) =
            open.filter_map(|row| Some((row, single(covering, row, left[row])?))).unzip();
        let need = open.iter().map(|row| f64::from(left[*row])).collect();
        let unit_cost = singles.iter().map(|(machine, pods)| covering.price(*machine) / f64::from(*pods)).collect();
        let simplex = Simplex::new(need, unit_cost);
        let mut master =
            Self { covering, left, open, singles, simplex, prices: vec![0.0; left.len()], entered: Vec::new() };
        master.update_prices();
        (!master.open.is_empty()).then_some(master)
    }

    fn update_prices(&mut self) {
        self.open.iter().zip(self.simplex.prices()).for_each(|(row, price)| self.prices[*row] = *price);
    }

    /// Generates patterns that are worth more than their machine by `gain`, machine by machine, at
    /// the prices of the moment; returns the number that entered.
    fn generate(&mut self, gain: f64, nodes: u32, pool: &mut PatternPool, steps: &StepBudget) -> usize {
        let covering = self.covering;
        let mut entered = 0;
        for (at, machine) in covering.open_machines() {
            for _ in 0..MAX_IN_A_ROW {
                if steps.is_exhausted() {
                    return entered;
                }
                let items = items(covering, at, self.left, &self.prices);
                if items.is_empty() {
                    break;
                }
                let asked = (machine.price * (1.0 + gain), nodes);
                let best = knapsack::most_valuable(&items, &machine.capacity, asked, &mut pool.weights[at], steps);
                let Some((_, pods)) = best.pods else { break };
                let pattern = Pattern { machine: u32::try_from(at).unwrap_or(u32::MAX), pods };
                entered += self.enter_all(std::slice::from_ref(&pattern), steps);
                pool.patterns.push(pattern);
            }
        }
        entered
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

    /// Lets rows with a negative price be covered beyond their need.
    fn enter_surplus(&mut self, steps: &StepBudget) {
        loop {
            let negative = self.simplex.prices().iter().enumerate().filter(|(_, price)| **price < SURPLUS_PRICE);
            let Some((row, _)) = negative.min_by(|one, other| one.1.total_cmp(other.1)) else { return };
            if !self.enter(&[(row, -1.0)], 0.0, None, steps) {
                return;
            }
        }
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
        Solution { levels, cost: self.simplex.value(), prices: self.prices }
    }
}
