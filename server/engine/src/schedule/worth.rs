//! What a unit of each resource is worth, by the dual of the covering problem: the prices of resources under which no
//! machine is worth more than it costs, and the demand is worth the most.

use super::classes::Class;
use super::market::PoolSupply;

/// Micro-dollars per hour and unit, for each resource of the axis. Resources that no priced machine has are worth nothing.
pub(super) fn of(classes: &[Class], markets: &[Option<PoolSupply>], resources: usize) -> Vec<f64> {
    let mut demand = vec![0.0; resources];
    for class in classes {
        for (sum, ask) in demand.iter_mut().zip(&class.request) {
            *sum += *ask as f64 * class.pods.len() as f64;
        }
    }
    let mut columns: Vec<(Vec<f64>, f64)> = Vec::new();
    // Pools that sell the same machines at the same prices say the same.
    let mut different: Vec<&PoolSupply> = Vec::new();
    for market in markets.iter().flatten() {
        if !different.iter().any(|known| known.sells_as(market) && known.rooms == market.rooms) {
            different.push(market);
        }
    }
    let machines = different.into_iter().flat_map(|market| market.machines.iter().zip(&market.rooms));
    for (machine, room) in machines {
        if let Some(price) = machine.prices.first().map(|(_, price)| *price).filter(|price| price.0 > 0) {
            let room = room.iter().map(|have| (*have).clamp(0, super::axis::UNLIMITED) as f64).collect();
            columns.push((room, price.0 as f64));
        }
    }
    prices(&demand, &columns)
}

/// Maximises `demand · w` over w ≥ 0 with `room · w ≤ price` for every column, by raising the resources in proportion to
/// demand and then, one by one, as far as the tightest column lets them. The result is feasible and maximal (no single
/// price can rise), which is all that guidance needs; the lower bound solves the problem exactly.
fn prices(demand: &[f64], columns: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let mut worth = vec![0.0; demand.len()];
    if columns.is_empty() {
        return worth;
    }
    let best = |at: usize| {
        columns
            .iter()
            .filter(|(room, _)| room[at] > 0.0)
            .map(|(room, price)| price / room[at])
            .fold(f64::INFINITY, f64::min)
    };
    let direction: Vec<f64> =
        (0..demand.len()).map(|at| if demand[at] > 0.0 && best(at).is_finite() { best(at) } else { 0.0 }).collect();
    raise(&mut worth, &direction, columns);
    for at in 0..demand.len() {
        let mut single = vec![0.0; demand.len()];
        single[at] = direction[at];
        raise(&mut worth, &single, columns);
    }
    worth
}

fn raise(worth: &mut [f64], direction: &[f64], columns: &[(Vec<f64>, f64)]) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let step = columns
        .iter()
        .filter(|(room, _)| dot(room, direction) > 0.0)
        .map(|(room, price)| ((price - dot(room, worth)) / dot(room, direction)).max(0.0))
        .fold(f64::INFINITY, f64::min);
    if step.is_finite() {
        for (value, slope) in worth.iter_mut().zip(direction) {
            *value += step * slope;
        }
    }
}
