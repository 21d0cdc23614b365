//! Duration histograms and counters for Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in milliseconds. A percentile read from them is too high by at most
/// one step: half below 25 ms, a quarter up to 400 ms, the target range of decisions, and a factor
/// of 2.5 beyond.
const BOUNDS_MS: [u64; 27] = [
    1, 2, 3, 5, 8, 12, 18, 25, 32, 40, 45, 50, 60, 75, 90, 110, 140, 170, 210, 260, 320, 400, 600, 1_000, 2_000, 5_000,
    10_000,
];

/// Plans that failed their own check since the process started.
pub(crate) static PLANS_FAILING_CHECK: Counter = Counter::new();

/// A monotonic counter.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Renders the Prometheus text format.
    pub fn render(&self, name: &str, help: &str) -> String {
        format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {}\n", self.0.load(Ordering::Relaxed))
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    /// By upper bound; the last bucket has none.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Records one duration.
    pub fn observe(&self, duration: Duration) {
        let millis = duration.as_micros().div_ceil(1_000);
        let bucket = BOUNDS_MS.iter().position(|bound| millis <= u128::from(*bound)).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Renders the Prometheus text format.
    pub fn render(&self, name: &str, help: &str) -> String {
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
        let mut count = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS_MS.get(at).map_or("+Inf".to_owned(), |bound| (*bound as f64 / 1_000.0).to_string());
            // Writing to a String cannot fail.
            let _always = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        let _always = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::default();
        for millis in [1, 4, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let text = histogram.render("x_seconds", "Something.");
        for line in [
            "le=\"0.001\"} 1",
            "le=\"0.003\"} 1",
            "le=\"0.005\"} 2",
            "le=\"10\"} 2",
            "le=\"+Inf\"} 3",
            "x_seconds_count 3",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
