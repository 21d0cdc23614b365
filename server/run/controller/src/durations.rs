//! Durations as metrics show them: a histogram, and quantiles of the last minutes.

use std::collections::VecDeque;

use model::{Millis, Timestamp};

/// Upper bounds of a histogram of durations, in milliseconds (Karpenter: duration buckets).
pub const DURATION_BOUNDS: [i64; 45] = [
    5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1_000, 1_250, 1_500, 1_750, 2_000,
    2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000, 15_000, 20_000, 25_000, 30_000,
    40_000, 50_000, 60_000, 120_000, 150_000, 300_000, 450_000, 600_000,
];

/// The quantiles that a summary shows (Karpenter: summary objectives).
pub const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// How far back quantiles look (Prometheus client libraries: the age of a summary).
const WINDOW: Millis = Millis::from_mins(10);

/// Maximum number of durations that quantiles are taken of: the latest ones.
const MAX_RECENT: usize = 512;

/// Counts of durations by upper bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationHistogram {
    /// By upper bound; the last count is of longer ones.
    counts: [u64; DURATION_BOUNDS.len() + 1],
    sum: Millis,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self { counts: [0; DURATION_BOUNDS.len() + 1], sum: Millis::ZERO }
    }
}

impl DurationHistogram {
    /// Counts a duration; a negative one, of clocks that differ, is none.
    pub fn observe(&mut self, took: Millis) {
        let took = took.max(Millis::ZERO);
        let bucket = DURATION_BOUNDS.iter().position(|bound| took.get() <= *bound).unwrap_or(DURATION_BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum = self.sum + took;
    }

    /// The count of each bucket alone, by upper bound; the last one is of longer durations.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    #[must_use]
    pub fn sum(&self) -> Millis {
        self.sum
    }
}

/// Durations of which quantiles of the last ten minutes are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DurationSummary {
    /// When the latest durations ended, and how long they were.
    recent: VecDeque<(Timestamp, Millis)>,
    count: u64,
    sum: Millis,
}

impl DurationSummary {
    /// Counts a duration that ended at `now`; a negative one, of clocks that differ, is none.
    pub fn observe(&mut self, took: Millis, now: Timestamp) {
        let took = took.max(Millis::ZERO);
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((now, took));
        self.count += 1;
        self.sum = self.sum + took;
    }

    /// The [`QUANTILES`] of the durations that ended within ten minutes; `None` if there are none.
    #[must_use]
    pub fn quantiles(&self, now: Timestamp) -> Option<[Millis; QUANTILES.len()]> {
        let recent = self.recent.iter().filter(|(ended, _)| now.duration_since(*ended) < WINDOW);
        let mut durations: Vec<Millis> = recent.map(|(_, took)| *took).collect();
        durations.sort_unstable();
        let last = durations.len().checked_sub(1)?;
        // The nearest rank: the smallest duration that so large a part of all is not longer than.
        let rank = |quantile: f64| ((quantile * durations.len() as f64).ceil() as usize).saturating_sub(1).min(last);
        Some(QUANTILES.map(|quantile| durations[rank(quantile)]))
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    #[must_use]
    pub fn sum(&self) -> Millis {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_bucket_that_it_is_not_longer_than() {
        let mut histogram = DurationHistogram::default();
        for millis in [-3, 5, 6, 600_000, 600_001] {
            histogram.observe(Millis::new(millis));
        }
        let of = |index: usize| histogram.counts()[index];
        assert_eq!((of(0), of(1), of(44), of(45)), (2, 1, 1, 1));
        assert_eq!(histogram.sum(), Millis::new(1_200_012));
    }

    #[test]
    fn quantiles_are_those_of_the_last_ten_minutes() {
        let mut summary = DurationSummary::default();
        assert_eq!(summary.quantiles(Timestamp::default()), None);
        summary.observe(Millis::new(99_000), Timestamp::from_millis(0));
        for number in 1..=100 {
            summary.observe(Millis::new(number * 10), Timestamp::from_millis(number));
        }
        // At ten minutes the first duration is too old: 10 to 1,000 ms are left.
        let quantiles = summary.quantiles(Timestamp::from_millis(600_000));
        assert_eq!(quantiles, Some([10, 500, 900, 990, 1_000].map(Millis::new)));
        assert_eq!((summary.count(), summary.sum()), (101, Millis::new(149_500)));
    }

    #[test]
    fn of_many_durations_the_latest_ones_are_kept() {
        let mut summary = DurationSummary::default();
        for number in 0..1_000 {
            summary.observe(Millis::new(number), Timestamp::from_millis(number));
        }
        let quantiles = summary.quantiles(Timestamp::from_millis(1_000)).map(|of| (of[0], of[4]));
        assert_eq!(quantiles, Some((Millis::new(488), Millis::new(999))));
        assert_eq!(summary.count(), 1_000);
    }
}
