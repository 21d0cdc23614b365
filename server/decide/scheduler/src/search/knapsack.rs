//! The pricing problem: the pods that are worth most on one machine, at the present prices of rows.

use super::beam::Beam;
use super::item::{Item, Pods};
use super::weights::Weights;
use crate::step_budget::StepBudget;

/// Steps that take as long as the bound of one filling.
const STEPS_PER_BOUND: usize = 6;
/// Fillings of one machine that are returned.
const MAX_FOUND: usize = 3;

/// What was found for one machine.
#[derive(Debug)]
pub(super) struct Found {
    /// Fillings that are worth more than was asked, with their values, the most valuable first.
    pub(super) pods: Vec<(f64, Pods)>,
    /// No filling is worth more than this.
    pub(super) upper_bound: f64,
    /// Rows with fractions of pods that are worth at least as much as every filling.
    pub(super) fractions: Vec<(u32, f64)>,
    pub(super) value_of_fractions: f64,
}

/// The most valuable filling of a machine with `capacity`, if it is worth more than `threshold`; the
/// search keeps up to `width` fillings at a time.
pub(super) fn most_valuable(
    items: &[Item<'_>],
    capacity: &[i64],
    (threshold, width): (f64, usize),
    weights: &mut Weights,
    steps: &StepBudget,
) -> Found {
    let relaxation = weights.relax(items, capacity, threshold, steps);
    let mut found = Found {
        pods: Vec::new(),
        upper_bound: relaxation.value,
        fractions: relaxation.pods.iter().map(|(at, pods)| (items[*at].row, *pods)).collect(),
        value_of_fractions: relaxation.value,
    };
    if relaxation.value <= threshold {
        return found;
    }
    let mut beam = Beam::new(items, capacity, (weights, &relaxation), threshold);
    beam.run(capacity, width);
    steps.consume(beam.bounds() * STEPS_PER_BOUND);
    let of_rows = |(value, pods): (f64, Vec<(usize, u32)>)| {
        let mut pods: Pods = pods.into_iter().map(|(at, count)| (items[at].row, count)).collect();
        pods.sort_unstable();
        (value, pods)
    };
    found.pods = beam.best(MAX_FOUND).into_iter().map(of_rows).collect();
    found.upper_bound = found.upper_bound.min(beam.upper_bound());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::random::Random;

    fn item(row: u32, request: &[i64], most: u32, value: f64) -> Item<'_> {
        Item { row, request, most, value, exclusive: None }
    }

    fn found(items: &[Item<'_>], capacity: &[i64], threshold: f64) -> Found {
        most_valuable(items, capacity, (threshold, 1_000), &mut Weights::default(), &StepBudget::new(0))
    }

    #[test]
    fn the_most_valuable_pods_are_found_where_the_densest_ones_leave_room() {
        // Two of 5 are worth 10.0 together; 6 is the densest (6.6 / 6), and leaves room for nothing.
        let items = [item(0, &[6], 1, 6.6), item(1, &[5], 2, 5.0)];
        let best = found(&items, &[10], 0.0).pods.swap_remove(0);
        assert_eq!((best.0, best.1.as_slice()), (10.0, [(1, 2)].as_slice()));
    }

    #[test]
    fn nothing_is_found_below_the_threshold_and_the_bound_is_above_what_is_possible() {
        let items = [item(0, &[6], 1, 6.6), item(1, &[5], 2, 5.0)];
        let best = found(&items, &[10], 10.0);
        assert!(best.pods.is_empty() && best.upper_bound >= 10.0, "{best:?}");
    }

    #[test]
    fn pods_that_exclude_each_other_do_not_share_a_machine() {
        let mut items = [item(0, &[1], 1, 3.0), item(1, &[1], 1, 2.0), item(2, &[1], 1, 1.0)];
        items.iter_mut().take(2).for_each(|item| item.exclusive = Some(7));
        let best = found(&items, &[3], 0.0).pods.swap_remove(0);
        assert_eq!((best.0, best.1.as_slice()), (4.0, [(0, 1), (2, 1)].as_slice()));
    }

    /// The most valuable filling, by trying all.
    fn brute_force(items: &[Item<'_>], free: &[i64]) -> f64 {
        let Some((first, rest)) = items.split_first() else { return 0.0 };
        let fits = |count: u32| first.request.iter().zip(free).all(|(ask, have)| ask * i64::from(count) <= *have);
        let of = |count: u32| {
            let left: Vec<i64> =
                free.iter().zip(first.request).map(|(have, ask)| have - ask * i64::from(count)).collect();
            first.value * f64::from(count) + brute_force(rest, &left)
        };
        (0..=first.most).filter(|count| fits(*count)).map(of).fold(0.0, f64::max)
    }

    #[test]
    fn no_filling_is_worth_more_than_the_one_found_nor_than_the_bound_without_a_search() {
        let mut random = Random::new(3);
        let mut amount = |bound: usize| i64::try_from(1 + random.below(bound)).unwrap_or(1);
        for _ in 0..300 {
            let capacity = [amount(30), amount(30), amount(8)];
            let requests: Vec<[i64; 3]> = (0..5).map(|_| [amount(9), amount(9), 1]).collect();
            let items: Vec<Item<'_>> =
                (0..).zip(&requests).map(|(row, ask)| item(row, ask, 3, amount(20) as f64)).collect();
            let most = brute_force(&items, &capacity);
            let best = found(&items, &capacity, 0.0);
            assert_eq!(best.pods.first().map_or(0.0, |(value, _)| *value), most);
            let unsearched = most_valuable(&items, &capacity, (0.0, 0), &mut Weights::default(), &StepBudget::new(0));
            assert!(unsearched.upper_bound >= most - 1e-9, "{} < {most}", unsearched.upper_bound);
        }
    }
}
