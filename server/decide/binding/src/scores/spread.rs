//! PodTopologySpread, as a score: constraints with `ScheduleAnyway`.

use super::MAX;

/// The weight of a constraint whose key has so many domains among the feasible nodes.
#[expect(clippy::cast_precision_loss, reason = "a number of domains")]
pub(crate) fn domain_weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

/// What `count` selected pods in the domain of a node add to its raw score, in which less is better.
#[expect(clippy::cast_precision_loss, reason = "a number of pods")]
pub(crate) fn points(count: i64, max_skew: i32, weight: f64) -> f64 {
    count as f64 * weight + f64::from(max_skew - 1)
}

/// Raw scores reversed, the least becoming 100; a node without the topology keys, `None`, has 0.
pub(crate) fn normalise(raw: &[Option<i64>], scores: &mut Vec<i64>) {
    let least = raw.iter().flatten().copied().min().unwrap_or(0);
    let most = raw.iter().flatten().copied().max().unwrap_or(0);
    let score = |raw: &Option<i64>| match raw {
        None => 0,
        Some(_) if most == 0 => MAX,
        Some(raw) => MAX * (most + least - raw) / most,
    };
    scores.clear();
    scores.extend(raw.iter().map(score));
}

/// Points as the integer that is normalised.
#[expect(clippy::cast_possible_truncation, reason = "points stay far below 2^53")]
pub(crate) fn rounded(points: f64) -> i64 {
    points.round() as i64
}
