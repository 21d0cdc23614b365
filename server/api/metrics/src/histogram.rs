//! Duration histograms and counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use prometheus_client::metrics::exemplar::HistogramWithExemplars;

use crate::{Family, Labels, Value};

/// Upper bounds of the buckets, in milliseconds. A percentile read from them is too high by at most
/// one step: half below 25 ms, a quarter up to 400 ms, the target range of decisions, and a factor
/// of 2.5 beyond.
const BOUNDS_MS: [u64; 27] = [
    1, 2, 3, 5, 8, 12, 18, 25, 32, 40, 45, 50, 60, 75, 90, 110, 140, 170, 210, 260, 320, 400, 600, 1_000, 2_000, 5_000,
    10_000,
];

/// Plans that failed their own check since the process started.
pub static PLANS_FAILING_CHECK: Counter = Counter::new();

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn family(&self, name: &'static str, help: &'static str) -> Family {
        Family::counter(name, help).of(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
pub struct Histogram {
    /// By upper bound; the last bucket has none.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, duration: Duration) {
        let millis = duration.as_micros().div_ceil(1_000);
        let bucket = BOUNDS_MS.iter().position(|bound| millis <= u128::from(*bound)).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn family(&self, name: &'static str, help: &'static str) -> Family {
        Family::histograms(name, help).with(Vec::new(), self.value())
    }

    pub fn value(&self) -> Value {
        let bound = |at: usize| BOUNDS_MS.get(at).map_or(f64::INFINITY, |bound| *bound as f64 / 1_000.0);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets = counts.enumerate().map(|(at, count)| (bound(at), count)).collect();
        Value::Histogram { sum: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6, buckets }
    }
}

/// A histogram of durations, of which each bucket names the trace of the last one that it counted.
#[derive(Debug, Clone)]
pub struct TracedHistogram(HistogramWithExemplars<Labels>);

impl Default for TracedHistogram {
    fn default() -> Self {
        Self(HistogramWithExemplars::new(BOUNDS_MS.into_iter().map(|bound| bound as f64 / 1_000.0)))
    }
}

impl TracedHistogram {
    /// Records one duration, of the trace with this id; an empty id is no trace.
    pub fn observe(&self, duration: Duration, trace_id: String) {
        let exemplar = (!trace_id.is_empty()).then(|| vec![("trace_id", trace_id)]);
        let at = exemplar.is_some().then(SystemTime::now);
        self.0.observe(duration.as_secs_f64(), exemplar, at);
    }

    pub fn family(&self, name: &'static str, help: &'static str) -> Family {
        Family::histograms(name, help).with(Vec::new(), Value::Traced(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_names_the_trace_of_the_last_duration_that_it_counted() {
        let histogram = TracedHistogram::default();
        for (millis, trace) in [(4, "a"), (5, "b"), (5, ""), (300, "c"), (7, "")] {
            histogram.observe(Duration::from_millis(millis), trace.to_owned());
        }
        let encoded = |format| crate::encode(vec![histogram.family("x_seconds", "Something.")], format);
        let (open, plain) = (encoded(crate::Format::OpenMetrics), encoded(crate::Format::Prometheus));
        for line in [
            "x_seconds_count 5",
            "x_seconds_bucket{le=\"0.003\"} 0\n",
            "x_seconds_bucket{le=\"0.005\"} 3 # {trace_id=\"b\"} 0.005 ",
            "x_seconds_bucket{le=\"0.008\"} 4\n",
            "x_seconds_bucket{le=\"0.32\"} 5 # {trace_id=\"c\"} 0.3 ",
            "x_seconds_bucket{le=\"+Inf\"} 5\n",
        ] {
            assert!(open.contains(line), "{line} is missing in:\n{open}");
        }
        // The format of Prometheus has no exemplars.
        assert!(!plain.contains("trace_id") && plain.contains("x_seconds_bucket{le=\"0.005\"} 3\n"), "{plain}");
    }

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::default();
        for millis in [1, 4, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let text = crate::series(vec![histogram.family("x_seconds", "Something.")]).join("\n");
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
