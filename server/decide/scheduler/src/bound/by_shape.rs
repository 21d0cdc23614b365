//! Bound by shape: existing capacity holds a number of pods of one shape, and the rest need
//! machines that hold a number each.

use std::cmp::Reverse;

use super::demand::{Demand, ShapeDemand};
use super::supply::{Column, Supply};
use model::resources::CPU;

/// Maximum number of shapes evaluated: those with the largest total requests, and those with the
/// largest single requests.
const MAX_SHAPES: usize = 64;

/// The best bound over the largest shapes.
pub(super) fn bound(demand: &Demand<'_>, supply: &Supply) -> i64 {
    let cpu = demand.resources.iter().position(|name| name.as_ref() == CPU);
    candidates(demand).into_iter().map(|shape| bound_of_shape(shape, supply, cpu)).max().unwrap_or(0)
}

fn candidates<'d>(demand: &'d Demand<'_>) -> Vec<&'d ShapeDemand> {
    let totals: Vec<i128> =
        (0..demand.resources.len()).map(|r| demand.amounts.iter().map(|g| g[r]).sum::<i128>().max(1)).collect();
    // Shares in millionths of a millionth of the total, so that they compare as integers.
    let share = |shape: &ShapeDemand| {
        let shares =
            shape.requests.iter().zip(&totals).map(|(amount, total)| i128::from(*amount) * 1_000_000_000_000 / total);
        shares.max().unwrap_or(0)
    };
    let mut single: Vec<(i128, usize)> =
        demand.shapes.iter().enumerate().map(|(at, shape)| (share(shape), at)).collect();
    let mut whole: Vec<(i128, usize)> =
        single.iter().map(|(share, at)| (share * i128::from(demand.shapes[*at].pods), *at)).collect();
    single.sort_by_key(|(share, at)| (Reverse(*share), *at));
    whole.sort_by_key(|(share, at)| (Reverse(*share), *at));
    let mut chosen: Vec<usize> =
        single.iter().take(MAX_SHAPES).chain(whole.iter().take(MAX_SHAPES)).map(|(_, at)| *at).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|at| &demand.shapes[at]).collect()
}

/// How many such pods fit into `free`.
pub(super) fn holds(free: &[i64], shape: &ShapeDemand) -> i64 {
    let each = free.iter().zip(&shape.requests).filter(|(_, wanted)| **wanted > 0);
    each.map(|(free, wanted)| free / wanted).min().unwrap_or(i64::MAX)
}

/// What a machine costs with a number of the pods that are left, for those numbers of which one costs least per
/// pod: as many as it takes, and where surplus credits begin, the last without them and the next one.
fn costs(column: &Column, shape: &ShapeDemand, left: i64, cpu: Option<usize>) -> impl Iterator<Item = (i64, i64)> {
    let most = holds(&column.amounts, shape).min(left);
    let each = cpu.map_or(0, |cpu| shape.requests[cpu]);
    let burstable = column.burstable.filter(|_| each > 0);
    let free = burstable.map_or(most, |burstable| (burstable.baseline / each).min(most));
    let (price, mut counts) = (column.price, vec![free, free.saturating_add(1).min(most), most]);
    counts.dedup();
    let cost = move |pods: i64| price + burstable.map_or(0, |own| own.surplus_credits(pods.saturating_mul(each)).0);
    counts.into_iter().map(move |pods| (cost(pods), pods))
}

fn bound_of_shape(shape: &ShapeDemand, supply: &Supply, cpu: Option<usize>) -> i64 {
    let bit = |groups: u16| groups >> shape.group & 1 == 1;
    let mut left = shape.pods;
    for free in supply.free.iter().filter(|free| bit(free.groups)) {
        left = left.saturating_sub(
            holds(&free.amounts, shape).min(shape.pods).saturating_mul(free.count.clamp(0, shape.pods)),
        );
        if left <= 0 {
            return 0;
        }
    }
    let able = supply.columns.iter().filter(|column| bit(column.groups));
    let able = able.flat_map(|column| costs(column, shape, left, cpu)).filter(|(_, pods)| *pods > 0);
    // Per pod, a machine costs at least its cost over the pods it holds; and at least one machine
    // is paid whole.
    let mut cheapest: Option<(i64, i64)> = None;
    for (price, pods) in able {
        let for_all = i128::from(price) * i128::from(left);
        let for_all = (for_all + i128::from(pods) - 1) / i128::from(pods);
        let for_all = i64::try_from(for_all).unwrap_or(i64::MAX);
        cheapest = Some(cheapest.map_or((price, for_all), |(one, all)| (one.min(price), all.min(for_all))));
    }
    cheapest.map_or(0, |(one, all)| one.max(all))
}
