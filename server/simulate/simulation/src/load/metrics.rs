//! Measurements of other processes: server metrics and database statistics.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use model::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between polls of a server's metrics.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn read(page: SocketAddr) -> anyhow::Result<Self> {
        let ask = async {
            let mut stream = TcpStream::connect(page).await?;
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(READ_TIMEOUT, ask).await;
        let answer = answer.map_err(|_| anyhow!("http://{page}/metrics does not answer"))?;
        Ok(Self(answer.with_context(|| format!("cannot read http://{page}/metrics"))?))
    }

    /// Clusters with an accepted snapshot, and when it was accepted.
    pub(crate) fn synced(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        // The time of the last snapshot lasts when the agent has gone.
        let synced: BTreeSet<&str> =
            of_clusters(&self.0, "fleetwright_cluster_synced").filter(|(_, is)| *is > 0.0).map(|(of, _)| of).collect();
        let times = of_clusters(&self.0, "fleetwright_cluster_synced_timestamp_seconds");
        let times = times.filter(move |(cluster, seconds)| *seconds > 0.0 && synced.contains(cluster));
        times.map(|(cluster, seconds)| (cluster, Timestamp::from_millis((seconds * 1_000.0).round() as i64)))
    }

    /// The value of the metric `name`, which has no labels; 0 without one.
    pub(super) fn value(&self, name: &str) -> f64 {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        self.0.lines().find_map(value).unwrap_or_default()
    }

    /// Buckets of the histogram `name`.
    pub(super) fn durations(&self, name: &str) -> Durations {
        let prefix = format!("{name}_bucket{{le=\"");
        let read = |line: &str| {
            let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse::<f64>().ok()? * 1_000.0 };
            Some((bound, count.trim().parse().ok()?))
        };
        Durations(self.0.lines().filter_map(read).collect())
    }
}

/// Values of a metric whose label is the cluster.
fn of_clusters<'m>(text: &'m str, name: &'static str) -> impl Iterator<Item = (&'m str, f64)> {
    text.lines().filter_map(move |line| {
        let (cluster, value) = line.strip_prefix(name)?.strip_prefix("{cluster=\"")?.split_once("\"} ")?;
        Some((cluster, value.trim().parse().ok()?))
    })
}

/// Cumulative counts by upper bound in milliseconds; the last bound is infinity.
#[derive(Debug, Clone, Default)]
pub(super) struct Durations(Vec<(f64, u64)>);

impl Durations {
    fn count(&self) -> u64 {
        self.0.last().map_or(0, |(_, all)| *all)
    }

    /// The difference to `before`. A restarted process counts from zero.
    pub(super) fn since(&self, before: &Self) -> Self {
        if before.count() > self.count() || before.0.len() != self.0.len() {
            return self.clone();
        }
        let pairs = self.0.iter().zip(&before.0);
        Self(pairs.map(|((bound, count), (_, then))| (*bound, count.saturating_sub(*then))).collect())
    }

    pub(super) fn and(mut self, other: &Self) -> Self {
        if self.0.is_empty() {
            return other.clone();
        }
        self.0.iter_mut().zip(&other.0).for_each(|((_, count), (_, more))| *count += more);
        self
    }

    /// The upper bound of the given quantile in milliseconds; 0 without durations.
    fn percentile(&self, quantile: f64) -> f64 {
        let wanted = self.count() as f64 * quantile;
        if wanted == 0.0 {
            return 0.0;
        }
        self.0.iter().find(|(_, count)| *count as f64 >= wanted).map_or(f64::INFINITY, |(bound, _)| *bound)
    }

    pub(super) fn to_percentiles(&self) -> Percentiles {
        Percentiles { count: self.count(), p50_ms: self.percentile(0.5), p99_ms: self.percentile(0.99) }
    }
}

/// Upper bounds of median and 99th percentile.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    pub count: u64,
    /// Median, in milliseconds.
    #[serde(rename = "millisP50")]
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds.
    #[serde(rename = "millisP99")]
    pub p99_ms: f64,
}

pub(super) struct Database {
    pool: PgPool,
    /// Its main process, if started by this run.
    pub(super) pid: Option<u32>,
}

impl Database {
    pub(super) async fn connect(url: &str, pid: Option<u32>) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await;
        Ok(Self { pool: pool.context("cannot connect to the database")?, pid })
    }

    /// Written rows, and bytes of the write-ahead log, in total.
    pub(super) async fn written(&self) -> anyhow::Result<(i64, i64)> {
        let row = sqlx::query(
            "SELECT tup_inserted + tup_updated + tup_deleted, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint \
             FROM pg_stat_database WHERE datname = current_database()",
        )
        .fetch_one(&self.pool)
        .await
        .context("cannot read write statistics of the database")?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Bytes of the first event of each log segment.
    pub(super) async fn whole_inputs(&self) -> anyhow::Result<i64> {
        let whole = "SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM log_chunks WHERE first_sequence = 1";
        let row = sqlx::query(whole)
            .fetch_one(&self.pool)
            .await
            .context("cannot read the decision log's size from the database")?;
        Ok(row.try_get(0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::process_metrics::{DECIDED, ORDERED};

    fn durations(counts: [u64; 3]) -> Durations {
        Durations([1.0, 2.0, f64::INFINITY].into_iter().zip(counts).collect())
    }

    #[test]
    fn percentiles_cover_the_interval_between_two_samples() {
        let before = durations([10, 10, 10]);
        // Since then 90 within 1 ms, 9 within 2 ms, and one beyond.
        let since = durations([100, 109, 110]).since(&before);
        assert_eq!(since.percentile(0.5), 1.0);
        assert_eq!(since.percentile(0.99), 2.0);
        assert_eq!(since.percentile(1.0), f64::INFINITY);
        assert_eq!(before.since(&before).percentile(0.99), 0.0);
    }

    #[test]
    fn a_restarted_process_counts_from_zero_and_replicas_are_summed() {
        let anew = durations([3, 4, 4]).since(&durations([10, 10, 10]));
        assert_eq!(anew.count(), 4);
        let both = Durations::default().and(&anew).and(&durations([1, 1, 2]));
        assert_eq!(both.0, durations([4, 5, 6]).0);
    }

    #[test]
    fn metrics_are_read_as_they_are_rendered() {
        let buckets = [("0.003", 0), ("0.005", 1), ("10.0", 1), ("+Inf", 1)];
        let line = |(bound, count)| format!("{DECIDED}_bucket{{le=\"{bound}\"}} {count}\n");
        let histogram: String = buckets.map(line).concat();
        let name = "fleetwright_cluster_synced_timestamp_seconds";
        let is_synced = "fleetwright_cluster_synced";
        let synced: String = [("a", "1763765432.005", 1), ("b", "0.000", 0), ("c", "1763765432.005", 0)]
            .map(|(of, time, is)| format!("{name}{{cluster=\"{of}\"}} {time}\n{is_synced}{{cluster=\"{of}\"}} {is}\n"))
            .concat();
        // The agent of c has gone.
        let metrics = Metrics(histogram + &synced);
        assert_eq!(metrics.synced().collect::<Vec<_>>(), [("a", Timestamp::from_millis(1_763_765_432_005))]);
        let decided = metrics.durations(DECIDED);
        assert_eq!(decided.0.iter().find(|(_, count)| *count > 0), Some(&(5.0, 1)));
        assert_eq!(decided.percentile(0.99), 5.0);
        assert_eq!(metrics.durations(ORDERED).count(), 0);
        let metrics = Metrics("# HELP a_total Of something.\na_total_more 3\na_total 2.5\n".to_owned());
        assert_eq!([metrics.value("a_total"), metrics.value("b_total")], [2.5, 0.0]);
    }
}
