//! The resource cover: weights for each group's resources under which the value of no machine
//! exceeds its price.
//!
//! With such weights, the value of all pods is at most the cost of their machines, hence a lower
//! bound. On a machine, a unit of a resource can serve one group only, so its value is at most the
//! highest weight among the groups that may use the machine. A machine costs its price and
//! its surplus credits. The linear program finds good weights;
//! [`Cover::of`] then shrinks them until integer arithmetic proves them.

use rustc_hash::FxHashMap;

use super::demand::Demand;
use super::supply::{Column, Supply};
use crate::simplex::Simplex;
use model::resources::CPU;

const MAX_STEPS: usize = 400;
/// Weights are integers in units of 2^-60 micro-dollars.
pub(super) const SCALE_BITS: u32 = 60;

pub(super) struct Cover {
    /// By group and resource, in 2^-60 micro-dollars per unit.
    weights: Vec<Vec<i128>>,
}

impl Cover {
    pub(super) fn of(demand: &Demand<'_>, supply: &Supply) -> Self {
        let totals: Vec<f64> = (0..demand.resources.len())
            .map(|r| demand.amounts.iter().map(|group| group[r] as f64).sum::<f64>().max(1.0))
            .collect();
        let columns = by_cpu_use(demand, supply);
        let prices = solve(demand, (supply, &columns), &totals);
        let mut shrink = 1.0;
        loop {
            let scale = 2_f64.powi(SCALE_BITS.cast_signed()) * shrink;
            let exact = |(price, total): (&f64, &f64)| (price.max(0.0) / total * scale) as i128;
            let weights: Vec<Vec<i128>> =
                prices.iter().map(|group| group.iter().zip(&totals).map(exact).collect()).collect();
            match worst_ratio(&weights, &columns) {
                Some(ratio) => shrink = shrink * ratio * (1.0 - 1e-12),
                None => return Self { weights },
            }
            if shrink < 1e-12 {
                return Self { weights: vec![vec![0; totals.len()]; prices.len()] };
            }
        }
    }

    /// The value of the demand beyond free capacity, rounded down to micro-dollars. Resource by
    /// resource, free capacity serves the highest weights among the groups that may use any of it.
    pub(super) fn bound(&self, demand: &Demand<'_>, supply: &Supply) -> i64 {
        let mut value: i128 = 0;
        for resource in 0..demand.resources.len() {
            let (mut room, allowed) = free_amount(supply, resource);
            let mut groups: Vec<usize> = (0..demand.groups.len()).collect();
            groups.sort_by_key(|group| (std::cmp::Reverse(self.weights[*group][resource]), *group));
            for group in groups {
                let needed = demand.amounts[group][resource];
                let taken = if allowed >> group & 1 == 1 { needed.min(room) } else { 0 };
                room -= taken;
                value += (needed - taken) * self.weights[group][resource];
            }
        }
        i64::try_from(value >> SCALE_BITS).unwrap_or(i64::MAX)
    }

    /// The value of `requests` in `group`, in units of 2^-60 micro-dollars.
    pub(super) fn value(&self, group: usize, requests: &[i64]) -> i128 {
        self.weights[group].iter().zip(requests).map(|(weight, amount)| weight * i128::from(*amount)).sum()
    }

    /// The highest weight of each resource, in micro-dollars per unit.
    pub(super) fn prices(&self) -> Vec<f64> {
        let resources = self.weights.first().map_or(0, Vec::len);
        let highest = |r: usize| self.weights.iter().map(|group| group[r]).max().unwrap_or(0);
        (0..resources).map(|r| highest(r) as f64 / 2_f64.powi(SCALE_BITS.cast_signed())).collect()
    }
}

/// The columns, a burstable machine as two: one with the CPU of its baseline at its price, and one with all
/// its CPU at the price and the credits for that. Any use in between is a mean of the two, in cost as in
/// CPU, so that weights under which neither is worth more than it costs hold for the machine.
fn by_cpu_use(demand: &Demand<'_>, supply: &Supply) -> Vec<Column> {
    let Some(cpu) = demand.resources.iter().position(|name| name.as_ref() == CPU) else {
        return supply.columns.clone();
    };
    let both = |column: &Column| {
        let credits = column.burstable.map_or(0, |burstable| burstable.surplus_credits(column.amounts[cpu]).0);
        if credits == 0 {
            return [Some(column.clone()), None];
        }
        // Credits are rounded down to micro-dollars: one less on both sides is below them everywhere.
        let (mut least, mut most) = (column.clone(), column.clone());
        least.amounts[cpu] = column.burstable.map_or(0, |burstable| burstable.baseline.max(0));
        least.price = (column.price - 1).max(0);
        most.price = (column.price + credits - 1).max(0);
        [Some(least), Some(most)]
    };
    supply.columns.iter().flat_map(both).flatten().collect()
}

/// Free amounts of one resource, and the groups that may use some of it.
fn free_amount(supply: &Supply, resource: usize) -> (i128, u16) {
    let mut sum = (0, 0);
    for free in supply.free.iter().filter(|free| free.groups != 0) {
        sum.0 += i128::from(free.amounts[resource]) * i128::from(free.count.max(0));
        sum.1 |= free.groups;
    }
    sum
}

/// Price over value of the column whose value exceeds its price most; `None` when none does.
fn worst_ratio(weights: &[Vec<i128>], columns: &[Column]) -> Option<f64> {
    let mut highest: FxHashMap<u16, Vec<i128>> = FxHashMap::default();
    let mut worst: Option<f64> = None;
    for column in columns {
        let weights = highest.entry(column.groups).or_insert_with(|| {
            let resources = 0..column.amounts.len();
            resources.map(|r| members(column.groups).map(|group| weights[group][r]).max().unwrap_or(0)).collect()
        });
        let value: i128 = weights.iter().zip(&column.amounts).map(|(weight, room)| weight * i128::from(*room)).sum();
        let price = i128::from(column.price) << SCALE_BITS;
        if value > price {
            let ratio = price as f64 / value as f64;
            worst = Some(worst.map_or(ratio, |least: f64| least.min(ratio)));
        }
    }
    worst
}

fn members(groups: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |group| groups >> group & 1 == 1)
}

/// Dual prices of each group's share of each resource's total, from the linear program.
fn solve(demand: &Demand<'_>, (supply, columns): (&Supply, &[Column]), totals: &[f64]) -> Vec<Vec<f64>> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    let (mut need, mut cost) = (Vec::new(), Vec::new());
    for (resource, total) in totals.iter().enumerate() {
        let left = 1.0 - free_amount(supply, resource).0 as f64 / total;
        for group in 0..demand.groups.len() {
            let share = demand.amounts[group][resource] as f64 / total * left.max(0.0);
            let useful =
                columns.iter().filter(|column| column.groups >> group & 1 == 1 && column.amounts[resource] > 0);
            let unit = useful.map(|column| column.price as f64 / (column.amounts[resource] as f64 / total));
            if let (true, Some(unit)) = (share > 0.0, unit.min_by(f64::total_cmp)) {
                rows.push((group, resource));
                need.push(share);
                cost.push(unit);
            }
        }
    }
    let mut simplex = Simplex::new(need, cost);
    let mut prices = vec![vec![0.0; totals.len()]; demand.groups.len()];
    // Column generation: the column with the largest gain at the present prices enters.
    for _ in 0..MAX_STEPS {
        let row_prices = simplex.row_prices();
        for ((group, resource), price) in rows.iter().zip(&row_prices) {
            prices[*group][*resource] = *price;
        }
        let found = most_profitable(&prices, columns, totals);
        let entered = match found {
            Some(column) => {
                simplex.enter(&fill_rows(&columns[column], &prices, totals, &rows), columns[column].price as f64)
            }
            None => match surplus(&row_prices) {
                Some(row) => simplex.enter(&[(row, -1.0)], 0.0),
                None => break,
            },
        };
        if !entered {
            break;
        }
    }
    prices
}

/// The column whose value exceeds its price most.
fn most_profitable(prices: &[Vec<f64>], columns: &[Column], totals: &[f64]) -> Option<usize> {
    let mut highest: FxHashMap<u16, Vec<f64>> = FxHashMap::default();
    let mut best: Option<(f64, usize)> = None;
    for (at, column) in columns.iter().enumerate() {
        let value = highest.entry(column.groups).or_insert_with(|| {
            let of = |r: usize| members(column.groups).map(|group| prices[group][r]).fold(0.0, f64::max) / totals[r];
            (0..totals.len()).map(of).collect()
        });
        let value: f64 = value.iter().zip(&column.amounts).map(|(value, room)| value * *room as f64).sum();
        let gain = value - column.price as f64;
        if gain > 1e-7 * (1.0 + column.price as f64) && best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, at));
        }
    }
    best.map(|(_, at)| at)
}

/// What a machine contributes to each row when every resource serves the group that prices it
/// highest.
fn fill_rows(column: &Column, prices: &[Vec<f64>], totals: &[f64], rows: &[(usize, usize)]) -> Vec<(usize, f64)> {
    let mut filled = Vec::new();
    for (resource, total) in totals.iter().enumerate() {
        let best = members(column.groups)
            .filter(|group| prices[*group][resource] > 0.0)
            .max_by(|a, b| prices[*a][resource].total_cmp(&prices[*b][resource]).then(b.cmp(a)));
        let row = best.and_then(|group| rows.iter().position(|row| *row == (group, resource)));
        filled.extend(row.map(|row| (row, column.amounts[resource] as f64 / total)));
    }
    filled
}

/// A row with a negative price: covering it beyond its need lowers the cost.
fn surplus(row_prices: &[f64]) -> Option<usize> {
    let negative = row_prices.iter().enumerate().filter(|(_, price)| **price < -1e-9);
    negative.min_by(|a, b| a.1.total_cmp(b.1)).map(|(row, _)| row)
}
