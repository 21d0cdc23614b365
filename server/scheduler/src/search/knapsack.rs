//! The pricing problem: the pods that are worth most on one machine, at the present prices of rows.
//!
//! Branch and bound over the rows in the order of their value per share of the machine. The share
//! weighs the resources; at any weights the fractional filling bounds the value of every filling,
//! and the weights are adjusted until that bound is tight.

use smallvec::SmallVec;

use crate::step_budget::StepBudget;
use crate::topology::GroupId;

/// Adjustments of the weights of a machine before its first filling, and before each later one.
const FIRST_ADJUSTMENTS: u32 = 12;
const LATER_ADJUSTMENTS: u32 = 2;
/// Relative gain below which two values are equal.
const EPSILON: f64 = 1e-9;

/// Pods of one row that could be put on the machine.
#[derive(Debug, Clone)]
pub(super) struct Item<'a> {
    pub(super) row: u32,
    /// Along the resources of the covering problem.
    pub(super) request: &'a [i64],
    /// Maximum number on the machine, at least 1.
    pub(super) most: u32,
    /// Value of one pod.
    pub(super) value: f64,
    /// The hostname group whose members exclude each other.
    pub(super) exclusive: Option<GroupId>,
}

/// Weights of the resources of one machine: they are positive, and their sum is 1.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights(SmallVec<[f64; 8]>);

/// (row, pods), by row.
pub(super) type Pods = SmallVec<[(u32, u32); 4]>;

/// What was found for one machine.
#[derive(Debug)]
pub(super) struct Found {
    /// The pods that are worth most, if they are worth more than was asked.
    pub(super) pods: Option<(f64, Pods)>,
    /// No filling is worth more than this.
    pub(super) upper_bound: f64,
}

/// The most valuable filling of a machine with `capacity`, if it is worth more than `threshold`.
pub(super) fn most_valuable(
    items: &[Item<'_>],
    capacity: &[i64],
    (threshold, max_nodes): (f64, u32),
    weights: &mut Weights,
    steps: &StepBudget,
) -> Found {
    let bound = weights.adjust(items, capacity, threshold, steps);
    if bound <= threshold {
        return Found { pods: None, upper_bound: bound };
    }
    let mut search = Search::new(items, capacity, weights, (threshold, max_nodes));
    search.descend(0, 0.0, 1.0);
    steps.consume(search.visited as usize * 4);
    let upper_bound = search.best_value.max(search.unexplored).min(bound);
    let pods = search.best.map(|pods| {
        let mut pods: Pods = pods.into_iter().map(|(at, count)| (items[at].row, count)).collect();
        pods.sort_unstable();
        (search.best_value, pods)
    });
    Found { pods, upper_bound }
}

/// Share of a machine with `capacity` that one pod takes at these weights.
fn share(request: &[i64], capacity: &[i64], weights: &Weights) -> f64 {
    let each = request.iter().zip(capacity).zip(&weights.0).filter(|((ask, _), _)| **ask > 0);
    each.map(|((ask, have), weight)| weight * *ask as f64 / (*have).max(1) as f64).sum::<f64>().max(f64::MIN_POSITIVE)
}

impl Weights {
    /// Adjusts the weights, and returns the least bound that was found. Ends early when it is at
    /// most `enough`.
    fn adjust(&mut self, items: &[Item<'_>], capacity: &[i64], enough: f64, steps: &StepBudget) -> f64 {
        let mut rounds = LATER_ADJUSTMENTS;
        if self.0.len() != capacity.len() {
            self.0 = SmallVec::from_elem(1.0 / capacity.len() as f64, capacity.len());
            rounds = FIRST_ADJUSTMENTS;
        }
        let mut best = (f64::INFINITY, self.clone());
        let mut current = self.clone();
        for round in 0..=rounds {
            steps.consume(items.len());
            let (bound, used) = current.fractional_filling(items, capacity);
            if bound < best.0 {
                best = (bound, current.clone());
            }
            if best.0 <= enough {
                break;
            }
            // Resources that the filling exceeds get heavier, the others lighter.
            let rate = 1.0 / f64::from(1 + round);
            let mut sum = 0.0;
            for (weight, used) in current.0.iter_mut().zip(used) {
                *weight = (*weight * (rate * (used - 1.0).clamp(-2.0, 2.0)).exp()).max(1e-9);
                sum += *weight;
            }
            current.0.iter_mut().for_each(|weight| *weight /= sum);
        }
        *self = best.1;
        best.0
    }

    /// The value of the filling that takes fractions of pods and keeps the weighted capacity only,
    /// and the parts of each resource that it uses.
    fn fractional_filling(&self, items: &[Item<'_>], capacity: &[i64]) -> (f64, SmallVec<[f64; 8]>) {
        let mut order: SmallVec<[(f64, f64, usize); 64]> = SmallVec::new();
        for (at, item) in items.iter().enumerate() {
            let share = share(item.request, capacity, self);
            order.push((item.value / share, share, at));
        }
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.2.cmp(&other.2)));
        let mut used: SmallVec<[f64; 8]> = SmallVec::from_elem(0.0, capacity.len());
        let (mut value, mut room) = (0.0, 1.0);
        let mut groups: SmallVec<[GroupId; 4]> = SmallVec::new();
        for (density, share, at) in order {
            let item = &items[at];
            if item.exclusive.is_some_and(|group| groups.contains(&group)) {
                continue;
            }
            // Members of a group exclude each other, so the densest member and its largest value
            // bound the group: a pod of a group is counted by its density as long as room is left.
            let pods = (room / share).min(f64::from(item.most));
            if item.exclusive.is_none() {
                value += pods * item.value;
                room -= pods * share;
            } else {
                groups.extend(item.exclusive);
                let most = items.iter().filter(|other| other.exclusive == item.exclusive);
                let largest = most.map(|other| other.value).fold(0.0, f64::max);
                let pods = (room * density / largest.max(f64::MIN_POSITIVE)).min(1.0);
                value += pods * largest;
                room -= pods * largest / density;
            }
            for ((sum, ask), have) in used.iter_mut().zip(item.request).zip(capacity) {
                *sum += pods * *ask as f64 / (*have).max(1) as f64;
            }
            if room <= 1e-12 {
                break;
            }
        }
        (value, used)
    }
}

/// A search tree over the rows in one order.
struct Search<'a> {
    items: &'a [Item<'a>],
    /// (density, share, item), densest first.
    order: SmallVec<[(f64, f64, usize); 64]>,
    /// The largest value of a pod among those that exclude the item, by item.
    largest: SmallVec<[f64; 64]>,
    free: SmallVec<[i64; 8]>,
    taken: Vec<(usize, u32)>,
    groups: SmallVec<[GroupId; 4]>,
    best: Option<Vec<(usize, u32)>>,
    best_value: f64,
    /// The largest bound of a branch that was not explored.
    unexplored: f64,
    visited: u32,
    max_nodes: u32,
}

impl<'a> Search<'a> {
    fn new(items: &'a [Item<'a>], capacity: &[i64], weights: &Weights, (threshold, max_nodes): (f64, u32)) -> Self {
        let mut order: SmallVec<[(f64, f64, usize); 64]> = SmallVec::new();
        for (at, item) in items.iter().enumerate() {
            let share = share(item.request, capacity, weights);
            order.push((item.value / share, share, at));
        }
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.2.cmp(&other.2)));
        let largest = |item: &Item<'_>| {
            let rivals = items.iter().filter(|other| other.exclusive == item.exclusive);
            rivals.map(|other| other.value).fold(0.0, f64::max)
        };
        let largest = items.iter().map(|item| if item.exclusive.is_some() { largest(item) } else { item.value });
        Self {
            items,
            order,
            largest: largest.collect(),
            free: capacity.iter().copied().collect(),
            taken: Vec::new(),
            groups: SmallVec::new(),
            best: None,
            best_value: threshold,
            unexplored: 0.0,
            visited: 0,
            max_nodes,
        }
    }

    /// The value that the rows from `at` on could add in `room`.
    fn bound(&self, at: usize, mut room: f64) -> f64 {
        let mut value = 0.0;
        let mut groups: SmallVec<[GroupId; 4]> = SmallVec::new();
        for (density, share, at) in &self.order[at..] {
            let item = &self.items[*at];
            let most = match item.exclusive {
                None => share * f64::from(item.most),
                Some(group) if groups.contains(&group) || self.groups.contains(&group) => continue,
                Some(group) => {
                    groups.push(group);
                    self.largest[*at] / density
                }
            };
            if most >= room {
                return value + room * density;
            }
            value += most * density;
            room -= most;
        }
        value
    }

    /// How many pods of `item` fit what is free.
    fn fitting(&self, item: &Item<'_>) -> u32 {
        if item.exclusive.is_some_and(|group| self.groups.contains(&group)) {
            return 0;
        }
        let mut most = i64::from(item.most);
        for (ask, free) in item.request.iter().zip(&self.free) {
            if *ask > 0 {
                most = most.min(free / ask);
            }
        }
        u32::try_from(most.max(0)).unwrap_or(u32::MAX)
    }

    fn take(&mut self, item: usize, count: i64) {
        for (free, ask) in self.free.iter_mut().zip(self.items[item].request) {
            *free -= ask * count;
        }
    }

    /// Explores the fillings that add pods of the rows from `at` on.
    fn descend(&mut self, at: usize, value: f64, room: f64) {
        self.visited += 1;
        if value > self.best_value * (1.0 + EPSILON) {
            self.best_value = value;
            self.best = Some(self.taken.clone());
        }
        for at in at..self.order.len() {
            let (density, share, item) = self.order[at];
            if value + room * density <= self.best_value * (1.0 + EPSILON) {
                return;
            }
            let fitting = self.fitting(&self.items[item]);
            if fitting == 0 {
                continue;
            }
            let bound = value + self.bound(at, room);
            if bound <= self.best_value * (1.0 + EPSILON) {
                return;
            }
            if self.visited >= self.max_nodes {
                self.unexplored = self.unexplored.max(bound);
                return;
            }
            // The most pods first; the rest of this loop is the branch with none.
            let exclusive = self.items[item].exclusive;
            for count in (1..=fitting).rev() {
                let added = f64::from(count);
                let left = room - added * share;
                let next = self.order.get(at + 1).map_or(0.0, |(density, ..)| *density);
                let bound = value + added * self.items[item].value + left.max(0.0) * next;
                if bound <= self.best_value * (1.0 + EPSILON) {
                    break;
                }
                self.take(item, i64::from(count));
                self.taken.push((item, count));
                let groups = self.groups.len();
                self.groups.extend(exclusive);
                self.descend(at + 1, value + added * self.items[item].value, left.max(0.0));
                self.groups.truncate(groups);
                self.taken.pop();
                self.take(item, -i64::from(count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::random::Random;

    fn item(row: u32, request: &[i64], most: u32, value: f64) -> Item<'_> {
        Item { row, request, most, value, exclusive: None }
    }

    fn found(items: &[Item<'_>], capacity: &[i64], threshold: f64) -> Found {
        most_valuable(items, capacity, (threshold, 10_000), &mut Weights::default(), &StepBudget::new(0))
    }

    #[test]
    fn the_most_valuable_pods_are_found_where_the_densest_ones_leave_room() {
        // Two of 5 are worth 10.0 together; 6 is the densest (6.6 / 6), and leaves room for nothing.
        let items = [item(0, &[6], 1, 6.6), item(1, &[5], 2, 5.0)];
        let best = found(&items, &[10], 0.0).pods.expect("some pods");
        assert_eq!((best.0, best.1.as_slice()), (10.0, [(1, 2)].as_slice()));
    }

    #[test]
    fn nothing_is_found_below_the_threshold_and_the_bound_is_above_what_is_possible() {
        let items = [item(0, &[6], 1, 6.6), item(1, &[5], 2, 5.0)];
        let best = found(&items, &[10], 10.0);
        assert!(best.pods.is_none() && best.upper_bound >= 10.0, "{best:?}");
    }

    #[test]
    fn pods_that_exclude_each_other_do_not_share_a_machine() {
        let mut items = [item(0, &[1], 1, 3.0), item(1, &[1], 1, 2.0), item(2, &[1], 1, 1.0)];
        items.iter_mut().take(2).for_each(|item| item.exclusive = Some(7));
        let best = found(&items, &[3], 0.0).pods.expect("some pods");
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
            assert_eq!(best.pods.map_or(0.0, |(value, _)| value), most);
            let unsearched = most_valuable(&items, &capacity, (0.0, 0), &mut Weights::default(), &StepBudget::new(0));
            assert!(unsearched.upper_bound >= most - 1e-9, "{} < {most}", unsearched.upper_bound);
        }
    }
}
