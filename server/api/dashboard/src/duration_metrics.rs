//! How long pods wait and nodes take to go.

use controller::durations::{DURATION_BOUNDS, DurationHistogram, DurationSummary, QUANTILES};
use controller::view::{ClusterView, PoolView};
use model::{Millis, Timestamp};

use super::metric_labels::{cluster, with};
use metrics::{Family, Value};

/// The metrics at `now`.
pub(crate) fn families(views: &[&ClusterView], now: Timestamp) -> Vec<Family> {
    let startup = views.iter().map(|view| (cluster(view), summary(&view.measured.pod_durations.startup, now)));
    let unknown = DurationSummary::default();
    let of_pool = |view: &ClusterView, pool: &PoolView| {
        let of = view.measured.lifecycle.node_terminations.get(&pool.name).unwrap_or(&unknown);
        (with(view, [("nodepool", &pool.name)]), summary(of, now))
    };
    let terminations = views.iter().flat_map(|view| view.pools.iter().map(|pool| of_pool(view, pool)));
    vec![
        Family::summary(
            "karpenter_pods_startup_duration_seconds",
            "Time from the creation of a pod until it is ready; quantiles of the last ten minutes.",
        )
        .labelled(&["cluster"])
        .all(startup),
        Family::summary(
            "karpenter_nodes_termination_duration_seconds",
            "Time from the begin of the termination of a node until it is gone; quantiles of the last ten minutes.",
        )
        .labelled(&["cluster", "nodepool"])
        .all(terminations),
        Family::histograms(
            "karpenter_pods_bound_duration_seconds",
            "Time from the creation of a pod until it is bound, of all clusters.",
        )
        .with(Vec::new(), sum(views.iter().map(|view| &view.measured.pod_durations.bound))),
    ]
}

/// Without a duration in the last minutes quantiles are not numbers, as client libraries of Prometheus have it.
fn summary(of: &DurationSummary, now: Timestamp) -> Value {
    let values = of.quantiles(now).map_or([f64::NAN; QUANTILES.len()], |values| values.map(seconds));
    Value::Summary { quantiles: QUANTILES.into_iter().zip(values).collect(), sum: seconds(of.sum()), count: of.count() }
}

/// Of all clusters together: a histogram for each would be most of their series.
fn sum<'h>(histograms: impl Iterator<Item = &'h DurationHistogram>) -> Value {
    let mut counts = [0; DURATION_BOUNDS.len() + 1];
    let mut sum = Millis::ZERO;
    for histogram in histograms {
        sum = sum + histogram.sum();
        counts.iter_mut().zip(histogram.counts()).for_each(|(count, of_cluster)| *count += of_cluster);
    }
    let bounds = DURATION_BOUNDS.iter().map(|bound| *bound as f64 / 1_000.0).chain([f64::INFINITY]);
    Value::Histogram { sum: seconds(sum), buckets: bounds.zip(counts).collect() }
}

fn seconds(duration: Millis) -> f64 {
    duration.get() as f64 / 1_000.0
}
