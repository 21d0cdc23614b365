//! Pods of one shape: what stands holds so many of them, the rest need machines that hold so many each.

use std::cmp::Reverse;

use super::demand::{Demand, Kind};
use super::stock::Stock;

/// Shapes that are looked at: those that weigh most in all, and those whose single pods are largest.
const MOST_SHAPES: usize = 64;

/// The best bound over the shapes that matter most.
pub(super) fn bound(demand: &Demand<'_>, stock: &Stock) -> i64 {
    candidates(demand).into_iter().map(|kind| of_kind(kind, stock)).max().unwrap_or(0)
}

fn candidates<'d>(demand: &'d Demand<'_>) -> Vec<&'d Kind> {
    let totals: Vec<i128> =
        (0..demand.resources.len()).map(|r| demand.amounts.iter().map(|g| g[r]).sum::<i128>().max(1)).collect();
    // Shares in millionths of a millionth of the total, so that they compare as integers.
    let share = |kind: &Kind| {
        let shares =
            kind.requests.iter().zip(&totals).map(|(amount, total)| i128::from(*amount) * 1_000_000_000_000 / total);
        shares.max().unwrap_or(0)
    };
    let mut single: Vec<(i128, usize)> = demand.kinds.iter().enumerate().map(|(at, kind)| (share(kind), at)).collect();
    let mut whole: Vec<(i128, usize)> =
        single.iter().map(|(share, at)| (share * i128::from(demand.kinds[*at].pods), *at)).collect();
    single.sort_by_key(|(share, at)| (Reverse(*share), *at));
    whole.sort_by_key(|(share, at)| (Reverse(*share), *at));
    let mut chosen: Vec<usize> =
        single.iter().take(MOST_SHAPES).chain(whole.iter().take(MOST_SHAPES)).map(|(_, at)| *at).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|at| &demand.kinds[at]).collect()
}

/// How many such pods a room holds.
pub(super) fn holds(room: &[i64], kind: &Kind) -> i64 {
    let each = room.iter().zip(&kind.requests).filter(|(_, wanted)| **wanted > 0);
    each.map(|(room, wanted)| room / wanted).min().unwrap_or(i64::MAX)
}

fn of_kind(kind: &Kind, stock: &Stock) -> i64 {
    let bit = |groups: u16| groups >> kind.group & 1 == 1;
    let mut left = kind.pods;
    for free in stock.free.iter().filter(|free| bit(free.groups)) {
        left =
            left.saturating_sub(holds(&free.room, kind).min(kind.pods).saturating_mul(free.count.clamp(0, kind.pods)));
        if left <= 0 {
            return 0;
        }
    }
    let able = stock.columns.iter().filter(|column| bit(column.groups));
    let able = able.map(|column| (column.price, holds(&column.room, kind))).filter(|(_, pods)| *pods > 0);
    // Each machine costs at least its price for each pod that it holds, and one at least must be bought whole.
    let mut cheapest: Option<(i64, i64)> = None;
    for (price, pods) in able {
        let pods = pods.min(left);
        let for_all = i128::from(price) * i128::from(left);
        let for_all = (for_all + i128::from(pods) - 1) / i128::from(pods);
        let for_all = i64::try_from(for_all).unwrap_or(i64::MAX);
        cheapest = Some(cheapest.map_or((price, for_all), |(one, all)| (one.min(price), all.min(for_all))));
    }
    cheapest.map_or(0, |(one, all)| one.max(all))
}
