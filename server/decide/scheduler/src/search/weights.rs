//! Weights of the resources of one machine, and the bound on the value of its pods that follows from
//! them.
//!
//! At any weights, the filling that takes fractions of pods and keeps the weighted capacity only is
//! worth at least as much as every filling. The best weights are in proportion to the prices of the
//! resources in the pricing problem with fractions.

use smallvec::SmallVec;

use super::fractional_knapsack::{self, Column, Vector};
use super::item::Item;
use crate::step_budget::StepBudget;
use crate::topology::GroupId;

/// Adjustments of the weights of a machine to pods that exclude each other.
const ADJUSTMENTS: u32 = 4;
/// Least weight of a resource, so that every pod takes some of the machine.
const LEAST: f64 = 1e-9;

/// Weights of the resources; they are positive, and their sum is 1.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights {
    weights: Vector,
    /// Prices of one unit of each resource when the weights were adjusted, and of the whole machine.
    unit_prices: Vector,
    price: f64,
}

/// A filling that takes fractions of pods and keeps the weighted capacity only.
#[derive(Debug)]
pub(super) struct Relaxation {
    pub(super) value: f64,
    /// What a larger machine would be worth more, by share.
    pub(super) marginal: f64,
    pub(super) pods: SmallVec<[(usize, f64); 16]>,
    /// Parts of each resource that it uses.
    used: Vector,
}

impl Relaxation {
    fn unbounded() -> Self {
        Self { value: f64::INFINITY, marginal: 0.0, pods: SmallVec::new(), used: SmallVec::new() }
    }
}

impl Weights {
    /// Share of a machine with `capacity` that one pod takes at these weights.
    pub(super) fn share(&self, request: &[i64], capacity: &[i64]) -> f64 {
        let parts = request.iter().zip(capacity).zip(&self.weights).filter(|((ask, _), _)| **ask > 0);
        parts.map(|((ask, have), weight)| weight * part(*ask, *have)).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// The filling at these weights, after they are adjusted to the items if the present ones do not
    /// prove that nothing is worth more than `enough`.
    pub(super) fn relax(
        &mut self,
        items: &[Item<'_>],
        capacity: &[i64],
        enough: f64,
        steps: &StepBudget,
    ) -> Relaxation {
        steps.consume(items.len() / 4);
        let bound = self.bound_at_known_prices(items);
        if bound <= enough {
            return Relaxation { value: bound, ..Relaxation::unbounded() };
        }
        *self = Self::of_prices(items, capacity, steps);
        let mut best = self.fractional_filling(items, capacity);
        if best.value > enough && items.iter().any(|item| item.exclusive.is_some()) {
            best = self.adjust_to_exclusion(items, capacity, best, steps);
        }
        best
    }

    /// No filling is worth more than the machine and what its pods are worth beyond their resources.
    fn bound_at_known_prices(&self, items: &[Item<'_>]) -> f64 {
        if self.unit_prices.is_empty() {
            return f64::INFINITY;
        }
        let gain = |item: &Item<'_>| {
            let cost: f64 = item.request.iter().zip(&self.unit_prices).map(|(ask, price)| *ask as f64 * price).sum();
            (item.value - cost).max(0.0) * f64::from(item.most)
        };
        self.price + items.iter().map(gain).sum::<f64>()
    }

    /// Weights in proportion to what the resources are worth to fractions of pods.
    fn of_prices(items: &[Item<'_>], capacity: &[i64], steps: &StepBudget) -> Self {
        let column = |item: &Item<'_>| {
            let parts = item.request.iter().zip(capacity).map(|(ask, have)| part(*ask, *have));
            Column::new(parts.collect(), item.most, item.value)
        };
        let mut columns: Vec<Column> = items.iter().map(column).collect();
        let (prices, rounds) = fractional_knapsack::resource_prices(capacity.len(), &mut columns);
        steps.consume(items.len() * (1 + rounds / 4));
        let price: f64 = prices.iter().sum();
        let unit_price = |(price, have): (&f64, &i64)| price / (*have).max(1) as f64;
        let least = LEAST * price.max(f64::MIN_POSITIVE);
        let sum: f64 = prices.iter().map(|price| price.max(least)).sum();
        Self {
            weights: prices.iter().map(|price| price.max(least) / sum).collect(),
            unit_prices: prices.iter().zip(capacity).map(unit_price).collect(),
            price,
        }
    }

    /// Pods that exclude each other are worth less together: resources that the filling exceeds get
    /// heavier, the others lighter.
    fn adjust_to_exclusion(
        &mut self,
        items: &[Item<'_>],
        capacity: &[i64],
        known: Relaxation,
        steps: &StepBudget,
    ) -> Relaxation {
        let (mut best, mut used, mut current) = (known, None, self.clone());
        for round in 0..ADJUSTMENTS {
            let rate = 1.0 / f64::from(1 + round);
            for (weight, used) in current.weights.iter_mut().zip(used.as_ref().unwrap_or(&best.used)) {
                *weight = (*weight * (rate * (used - 1.0).clamp(-2.0, 2.0)).exp()).max(LEAST);
            }
            let sum: f64 = current.weights.iter().sum();
            current.weights.iter_mut().for_each(|weight| *weight /= sum);
            steps.consume(items.len());
            let found = current.fractional_filling(items, capacity);
            used = Some(found.used.clone());
            if found.value < best.value {
                (best, *self) = (found, current.clone());
            }
        }
        best
    }

    fn fractional_filling(&self, items: &[Item<'_>], capacity: &[i64]) -> Relaxation {
        let mut order: SmallVec<[(f64, f64, usize); 64]> = SmallVec::new();
        for (at, item) in items.iter().enumerate() {
            let share = self.share(item.request, capacity);
            order.push((item.value / share, share, at));
        }
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.2.cmp(&other.2)));
        let mut filling =
            Relaxation { value: 0.0, used: SmallVec::from_elem(0.0, capacity.len()), ..Relaxation::unbounded() };
        let mut room = 1.0;
        let mut groups: SmallVec<[GroupId; 4]> = SmallVec::new();
        for (density, share, at) in order {
            let item = &items[at];
            if item.exclusive.is_some_and(|group| groups.contains(&group)) {
                continue;
            }
            groups.extend(item.exclusive);
            // Members of a group exclude each other, so the densest member and its largest value
            // bound the group: a pod of a group is counted by its density as long as room is left.
            let value = item.largest_of_group(items);
            let share = if item.exclusive.is_none() { share } else { value / density };
            let pods = (room / share.max(f64::MIN_POSITIVE)).min(f64::from(item.most));
            filling.value += pods * value;
            room -= pods * share;
            filling.pods.push((at, pods));
            for ((sum, ask), have) in filling.used.iter_mut().zip(item.request).zip(capacity) {
                *sum += pods * part(*ask, *have);
            }
            if room <= 1e-12 {
                filling.marginal = density;
                break;
            }
        }
        filling
    }
}

/// The part of a resource that a request takes.
fn part(ask: i64, have: i64) -> f64 {
    ask as f64 / have.max(1) as f64
}
