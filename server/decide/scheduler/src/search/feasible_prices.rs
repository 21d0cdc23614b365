//! Prices of pods at which no machine is worth more than it costs: the value of all pods at such prices
//! bounds the cost of every cover.

use super::covering::Covering;
use super::item::Item;
use super::knapsack;
use super::master::{PatternPool, item, items};
use super::weights::Weights;
use crate::step_budget::StepBudget;

/// Fillings that a search for pods that are worth too much keeps at a time.
const WIDTH: usize = 20;
/// The same where that search does not prove that there are none, and such searches for one machine.
const WIDE: usize = 300;
const MAX_WIDE: usize = 1;
/// The same for the value of existing capacity.
const EXISTING_WIDTH: usize = 4;
/// Relative excess of a value over a price that is removed from all prices at once.
const TOLERANCE: f64 = 0.000_5;
/// Times that pods of one machine become cheaper one filling at a time.
const MAX_LOWERINGS: u32 = 100;
/// The part of the excess of fractions of pods that is removed at once: others may take their place.
const PART_OF_EXCESS: f64 = 0.5;

/// Lowers `prices` until no machine is worth more than it costs. Pods of fillings that are worth too much
/// become cheaper, and in the end all pods that the machine may carry.
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
        let mut wide_searches = MAX_WIDE;
        for round in 0..=MAX_LOWERINGS {
            let items = items(covering, at, left, prices);
            if items.is_empty() {
                break;
            }
            let is_last = steps.is_exhausted() || round == MAX_LOWERINGS;
            let width = if is_last { 0 } else { WIDTH };
            let mut best =
                knapsack::most_valuable(&items, &machine.capacity, (most, width), &mut pool.weights[at], steps);
            if best.pods.is_empty() && best.upper_bound > most && wide_searches > 0 && !is_last {
                wide_searches -= 1;
                best = knapsack::most_valuable(&items, &machine.capacity, (most, WIDE), &mut pool.weights[at], steps);
            }
            if let Some((value, pods)) = best.pods.first() {
                let pods: Vec<(u32, f64)> = pods.iter().map(|(row, pods)| (*row, f64::from(*pods))).collect();
                lower_filling(prices, &pods, left, value - machine.price);
            } else if best.upper_bound <= most {
                break;
            } else if round == MAX_LOWERINGS {
                // Fillings that were not tried may be worth more.
                let rows: Vec<usize> = items.iter().map(|item| item.row as usize).collect();
                rows.into_iter().for_each(|row| prices[row] *= most / best.upper_bound);
            } else {
                lower_filling(prices, &best.fractions, left, (best.upper_bound - machine.price) * PART_OF_EXCESS);
            }
        }
    }
    prices.iter_mut().for_each(|price| *price /= 1.0 + TOLERANCE);
}

/// Lowers prices of `pods` until these are worth less by `excess`: first of those rows that have least
/// pods in all for each one here, because that costs the bound least.
fn lower_filling(prices: &mut [f64], pods: &[(u32, f64)], left: &[u32], excess: f64) {
    let in_all = |(row, pods): &(u32, f64)| f64::from(left[*row as usize]) / pods;
    let mut order: Vec<(u32, f64)> = pods.iter().filter(|(_, pods)| *pods > 0.0).copied().collect();
    order.sort_by(|one, other| in_all(one).total_cmp(&in_all(other)).then(one.0.cmp(&other.0)));
    let mut excess = excess;
    for (row, pods) in order {
        let price = &mut prices[row as usize];
        let lowered = (excess / pods).min(*price);
        *price -= lowered;
        excess -= lowered * pods;
        if excess <= 0.0 {
            break;
        }
    }
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
    let width = if steps.is_exhausted() { 0 } else { EXISTING_WIDTH };
    knapsack::most_valuable(&items, capacity, (0.0, width), &mut Weights::default(), steps).upper_bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_with_least_pods_for_their_part_of_a_filling_become_cheaper_first() {
        // For each pod of the filling there are 100 / 1 pods of row 0 in all, and 6 / 2 of row 1.
        let mut prices = [10.0, 4.0];
        lower_filling(&mut prices, &[(0, 1.0), (1, 2.0)], &[100, 6], 5.0);
        assert_eq!(prices, [10.0, 1.5]);
        // Row 1 is worth 3 in all, so that row 0 has the other 2.
        lower_filling(&mut prices, &[(0, 1.0), (1, 2.0)], &[100, 6], 5.0);
        assert_eq!(prices, [8.0, 0.0]);
    }
}
