//! Prices of pods by what the resources of machines cost: where the prices of patterns begin.

use super::covering::Covering;
use crate::simplex::Simplex;

/// Steps of the simplex at most.
const MAX_STEPS: usize = 100;

/// Prices of one pod, by row, at which no machine is worth more than it costs: those of the resources at
/// the least cost at which machines, cut into parts, have the resources of all `left` pods.
pub(super) fn pod_prices(covering: &Covering, left: &[u32]) -> Vec<f64> {
    let prices = unit_prices(covering, left);
    let price = |request: &[i64]| request.iter().zip(&prices).map(|(ask, price)| *ask as f64 * price).sum();
    covering.rows.iter().map(|row| price(&row.request)).collect()
}

/// Prices of one unit of each resource.
fn unit_prices(covering: &Covering, left: &[u32]) -> Vec<f64> {
    let resources = covering.machines.first().map_or(0, |machine| machine.capacity.len());
    let mut totals = vec![0.0; resources];
    for (row, pods) in covering.rows.iter().zip(left) {
        totals.iter_mut().zip(&row.request).for_each(|(sum, ask)| *sum += *ask as f64 * f64::from(*pods));
    }
    let used: Vec<usize> = (0..resources).filter(|at| totals[*at] > 0.0).collect();
    let columns: Vec<(Vec<(usize, f64)>, f64)> = covering
        .open_machines()
        .map(|(_, machine)| {
            let part = |(place, at): (usize, &usize)| (place, machine.capacity[*at] as f64 / totals[*at]);
            (used.iter().enumerate().map(part).filter(|(_, part)| *part > 0.0).collect(), machine.price)
        })
        .collect();
    let mut prices = vec![0.0; resources];
    for (at, price) in used.iter().zip(solve(used.len(), &columns)) {
        prices[*at] = price.max(0.0) / totals[*at];
    }
    prices
}

/// Prices of the whole demand for each resource.
fn solve(resources: usize, columns: &[(Vec<(usize, f64)>, f64)]) -> Vec<f64> {
    let alone = |place: usize| {
        let parts =
            columns.iter().filter_map(|(parts, price)| Some(price / parts.iter().find(|part| part.0 == place)?.1));
        parts.fold(f64::INFINITY, f64::min)
    };
    let alone: Vec<f64> = (0..resources).map(alone).map(|cost| if cost.is_finite() { cost } else { 0.0 }).collect();
    let mut simplex = Simplex::new(vec![1.0; resources], alone);
    for _ in 0..MAX_STEPS {
        let prices = simplex.row_prices();
        let gain =
            |parts: &[(usize, f64)], price: f64| parts.iter().map(|(at, part)| prices[*at] * part).sum::<f64>() - price;
        let gains = columns.iter().map(|(parts, price)| (gain(parts, *price), parts, *price));
        let best = gains
            .filter(|(gain, _, price)| *gain > 1e-9 * (1.0 + price))
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let negative = prices.iter().position(|price| *price < -1e-9);
        let entered = match (best, negative) {
            (Some((_, parts, price)), _) => simplex.enter(parts, price),
            (None, Some(place)) => simplex.enter(&[(place, -1.0)], 0.0),
            (None, None) => false,
        };
        if !entered {
            break;
        }
    }
    simplex.row_prices()
}
