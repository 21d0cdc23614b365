//! Shadow prices of resources: a dual solution of the covering problem. At these prices no instance
//! type is worth more than it costs, and the demand has the highest value.

use super::classes::Class;
use super::pool_supply::PoolSupply;
use super::resource_vector::{CPU_AT, UNLIMITED};
use model::MicroUsd;

/// Shadow prices in micro-dollars per hour and unit, by position in the resource order; zero for
/// resources that no priced type has.
pub(super) fn compute(classes: &[Class], supplies: &[Option<PoolSupply>], resources: usize) -> Vec<f64> {
    let mut demand = vec![0.0; resources];
    for class in classes {
        for (sum, ask) in demand.iter_mut().zip(&class.request) {
            *sum += *ask as f64 * class.pods.len() as f64;
        }
    }
    let mut columns: Vec<(Vec<f64>, f64)> = Vec::new();
    // Pools with equal offerings and capacities give equal columns.
    let mut different: Vec<&PoolSupply> = Vec::new();
    for supply in supplies.iter().flatten() {
        if !different.iter().any(|known| {
            known.shares_catalogue_with(supply)
                && known.overhead == supply.overhead
                && known.net_allocatable == supply.net_allocatable
        }) {
            different.push(supply);
        }
    }
    for supply in different {
        for (at, instance_type) in supply.instance_types.iter().enumerate() {
            if let Some((_, price)) = instance_type.prices.first().filter(|(_, price)| price.0 > 0) {
                let full = supply.net_allocatable[at][CPU_AT].max(0);
                columns.push(column(supply, at, *price, full));
                // Any use between both columns costs what their mixture costs.
                if supply.credits(at, full).0 > 0 {
                    columns.push(column(supply, at, *price, supply.cpu_without_credits(at)));
                }
            }
        }
    }
    solve(&demand, &columns)
}

/// Amounts and cost of a machine of type `at` whose pods use at most `cpu` millicores.
fn column(supply: &PoolSupply, at: usize, price: MicroUsd, cpu: i64) -> (Vec<f64>, f64) {
    let mut amounts: Vec<f64> =
        supply.net_allocatable[at].iter().map(|have| (*have).clamp(0, UNLIMITED) as f64).collect();
    amounts[CPU_AT] = cpu as f64;
    (amounts, supply.cost(at, price, cpu).0 as f64)
}

/// Maximises `demand · w` over w ≥ 0 with `allocatable · w ≤ price` for every column: raises all
/// prices in proportion to demand, and then each one until the tightest column limits it. The
/// result is feasible and maximal (no single price can rise), which suffices for guidance; the
/// lower bound solves the problem exactly.
fn solve(demand: &[f64], columns: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let mut prices = vec![0.0; demand.len()];
    if columns.is_empty() {
        return prices;
    }
    let best = |at: usize| {
        columns
            .iter()
            .filter(|(allocatable, _)| allocatable[at] > 0.0)
            .map(|(allocatable, price)| price / allocatable[at])
            .fold(f64::INFINITY, f64::min)
    };
    let direction: Vec<f64> =
        (0..demand.len()).map(|at| if demand[at] > 0.0 && best(at).is_finite() { best(at) } else { 0.0 }).collect();
    raise_prices(&mut prices, &direction, columns);
    for at in 0..demand.len() {
        let mut single = vec![0.0; demand.len()];
        single[at] = direction[at];
        raise_prices(&mut prices, &single, columns);
    }
    prices
}

fn raise_prices(prices: &mut [f64], direction: &[f64], columns: &[(Vec<f64>, f64)]) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let step = columns
        .iter()
        .filter(|(allocatable, _)| dot(allocatable, direction) > 0.0)
        .map(|(allocatable, price)| ((price - dot(allocatable, prices)) / dot(allocatable, direction)).max(0.0))
        .fold(f64::INFINITY, f64::min);
    if step.is_finite() {
        for (value, slope) in prices.iter_mut().zip(direction) {
            *value += step * slope;
        }
    }
}
