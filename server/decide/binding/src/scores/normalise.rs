//! Raw scores made comparable: 0 to 100 over the feasible nodes.

use super::MAX;

/// In proportion to the largest (`helper.DefaultNormalizeScore`): NodeAffinity.
pub(crate) fn by_largest(scores: &mut [i64]) {
    let largest = scores.iter().copied().max().unwrap_or(0);
    if largest > 0 {
        scores.iter_mut().for_each(|score| *score = MAX * *score / largest);
    }
}

/// The same in reverse, the fewest best: TaintToleration.
pub(crate) fn by_largest_reversed(scores: &mut [i64]) {
    by_largest(scores);
    scores.iter_mut().for_each(|score| *score = MAX - *score);
}

/// From the least to the largest: InterPodAffinity. All are 0 if they are equal.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "kube-scheduler computes with doubles; sums of weights stay far below 2^53"
)]
pub(crate) fn by_range(scores: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let range = scores.iter().copied().max().unwrap_or(0) - least;
    for score in scores {
        let share = if range > 0 { (*score - least) as f64 / range as f64 } else { 0.0 };
        *score = (MAX as f64 * share) as i64;
    }
}
