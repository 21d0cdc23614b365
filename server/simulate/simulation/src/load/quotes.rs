//! Quotes over all clusters while their load goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_client::CapacityServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::metrics::Percentiles;
use crate::pod_template::pod_template;

/// Pods of a quote. They request more than the nodes of a cluster, which are full, have left.
const PODS: i32 = 10;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests one quote after another from the server at `target`, `interval` apart, for the duration of a measurement. The
/// durations are those of the client: with the network of this machine, and the whole answer read.
///
/// # Errors
/// When a quote fails, or does not consider all clusters.
pub(super) async fn request_quotes(
    target: String,
    clusters: usize,
    interval: Duration,
    measured_for: Duration,
) -> anyhow::Result<Percentiles> {
    let channel =
        Endpoint::from_shared(target)?.timeout(TIMEOUT).connect().await.context("no connection for quotes")?;
    let mut client = CapacityServiceClient::new(channel);
    let end = Instant::now() + measured_for;
    let mut durations = Vec::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while Instant::now() < end {
        ticks.tick().await;
        durations.push(request_quote(&mut client, clusters).await?);
    }
    durations.sort_unstable();
    Ok(percentiles(&durations))
}

async fn request_quote(client: &mut CapacityServiceClient<Channel>, clusters: usize) -> anyhow::Result<Duration> {
    let pods = v1::PodSet {
        name: "workers".to_owned(),
        namespace: "default".to_owned(),
        count: PODS,
        template: Some(pod_template("3")),
    };
    let request = v1::QuoteClustersRequest { pod_sets: vec![pods], ..v1::QuoteClustersRequest::default() };
    let begin = Instant::now();
    let answer =
        client.quote_clusters(request).await.map_err(|status| anyhow!("a quote failed: {status}"))?.into_inner();
    let took = begin.elapsed();
    if usize::try_from(answer.cluster_count) != Ok(clusters) {
        return Err(anyhow!("a quote considered {} of {clusters} clusters", answer.cluster_count));
    }
    Ok(took)
}

/// Of sorted durations.
fn percentiles(durations: &[Duration]) -> Percentiles {
    let at = |percent: usize| {
        let index = (durations.len() * percent).div_ceil(100).saturating_sub(1);
        durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1_000.0)
    };
    Percentiles { count: durations.len() as u64, p50_ms: at(50), p99_ms: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let durations: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let found = percentiles(&durations);
        assert_eq!((found.count, found.p50_ms, found.p99_ms), (200, 100.0, 198.0));
        assert_eq!(percentiles(&[]).count, 0);
    }
}
