//! What is read: the server's metrics, the system's account of a process, the database's account of what it wrote.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use sqlx::Row;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Plan, Report};
use crate::web::LATENCY;

/// Ticks of processor time per second (Linux: `USER_HZ`, the same on every architecture that we run on).
const TICKS: f64 = 100.0;

/// How long the metrics may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's metrics at one moment.
pub(super) struct Metrics(String);

impl Metrics {
    pub(super) async fn read(page: SocketAddr) -> anyhow::Result<Self> {
        let ask = async {
            let mut stream = TcpStream::connect(page).await?;
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, ask).await;
        let answer = answer.map_err(|_| anyhow!("http://{page}/metrics does not answer"))?;
        Ok(Self(answer.with_context(|| format!("cannot read http://{page}/metrics"))?))
    }

    /// Clusters whose agent is connected.
    pub(super) fn connected(&self) -> usize {
        let mut lines = self.0.lines().filter(|line| line.starts_with("fleetwright_cluster_connected{"));
        lines.by_ref().filter(|line| line.ends_with(" 1")).count()
    }

    /// Decisions so far, by the upper bound of their latency in milliseconds; those beyond every bound under infinity.
    fn latencies(&self) -> Vec<(f64, u64)> {
        let prefix = format!("{LATENCY}_bucket{{le=\"");
        let read = |line: &str| {
            let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse::<f64>().ok()? * 1_000.0 };
            Some((bound, count.trim().parse().ok()?))
        };
        self.0.lines().filter_map(read).collect()
    }
}

/// The bound that `share` of all between `before` and `after` do not exceed, in milliseconds; 0 of none.
fn percentile(before: &[(f64, u64)], after: &[(f64, u64)], share: f64) -> f64 {
    let known: BTreeMap<u64, u64> = before.iter().map(|(bound, count)| (bound.to_bits(), *count)).collect();
    let grown = |(bound, count): &(f64, u64)| (*bound, count - known.get(&bound.to_bits()).copied().unwrap_or(0));
    let grown: Vec<(f64, u64)> = after.iter().map(grown).collect();
    let wanted = grown.last().map_or(0.0, |(_, all)| *all as f64 * share);
    if wanted == 0.0 {
        return 0.0;
    }
    grown.iter().find(|(_, count)| *count as f64 >= wanted).map_or(f64::INFINITY, |(bound, _)| *bound)
}

/// The database, as it tells of itself.
pub(super) struct Database {
    pool: PgPool,
}

impl Database {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await;
        Ok(Self { pool: pool.context("cannot connect to the database of --database-url")? })
    }

    /// Rows that were written, and bytes of the write-ahead log, since the database came to be.
    async fn written(&self) -> anyhow::Result<(i64, i64)> {
        let row = sqlx::query(
            "SELECT tup_inserted + tup_updated + tup_deleted, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint \
             FROM pg_stat_database WHERE datname = current_database()",
        )
        .fetch_one(&self.pool)
        .await
        .context("the database does not tell what it has written")?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}

/// Processor time in seconds and memory in bytes of a process on this machine.
fn process(pid: &str) -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything but ends with the last parenthesis; user and system time are the 14th and 15th field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.split_whitespace().next()?.parse().ok()?;
    Some((ticks / TICKS, kib * 1024))
}

/// Everything at one moment.
pub(super) struct Account {
    at: Instant,
    latencies: Vec<(f64, u64)>,
    server: Option<(f64, u64)>,
    generator: Option<(f64, u64)>,
    written: Option<(i64, i64)>,
}

impl Account {
    pub(super) async fn take(plan: &Plan, database: Option<&Database>) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            latencies: Metrics::read(plan.page).await?.latencies(),
            server: plan.server_pid.and_then(|pid| process(&pid.to_string())),
            generator: process("self"),
            written: match database {
                Some(database) => Some(database.written().await?),
                None => None,
            },
        })
    }

    /// What happened between `before` and this.
    pub(super) fn since(&self, before: &Self, report: &mut Report) {
        report.measured = self.at.duration_since(before.at);
        let seconds = report.measured.as_secs_f64().max(0.001);
        let count = |latencies: &[(f64, u64)]| latencies.last().map_or(0, |(_, all)| *all);
        report.decisions = count(&self.latencies) - count(&before.latencies);
        report.p50_ms = percentile(&before.latencies, &self.latencies, 0.5);
        report.p99_ms = percentile(&before.latencies, &self.latencies, 0.99);
        let busy = |now: Option<(f64, u64)>, then: Option<(f64, u64)>| {
            let (now, then) = (now?, then?);
            Some((now.1, (now.0 - then.0) / seconds))
        };
        report.server = busy(self.server, before.server);
        report.generator = busy(self.generator, before.generator);
        report.written = self.written.zip(before.written).map(|((rows, bytes), (rows_before, bytes_before))| {
            ((rows - rows_before) as f64 / seconds, (bytes - bytes_before) as f64 / seconds)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_came_in_between() {
        let before = [(1.0, 10), (2.0, 10), (f64::INFINITY, 10)];
        // Since then 90 within 1 ms, 9 within 2 ms, and one beyond.
        let after = [(1.0, 100), (2.0, 109), (f64::INFINITY, 110)];
        assert_eq!(percentile(&before, &after, 0.5), 1.0);
        assert_eq!(percentile(&before, &after, 0.99), 2.0);
        assert_eq!(percentile(&before, &after, 1.0), f64::INFINITY);
        assert_eq!(percentile(&before, &before, 0.99), 0.0);
    }

    #[test]
    fn metrics_are_read_as_they_are_rendered() {
        let histogram = crate::measure::Histogram::default();
        histogram.note(Duration::from_millis(4));
        let text = histogram.render(LATENCY, "Something.") + "fleetwright_cluster_connected{cluster=\"a\"} 1\n";
        let metrics = Metrics(text);
        assert_eq!(metrics.connected(), 1);
        let latencies = metrics.latencies();
        assert_eq!(latencies.iter().find(|(_, count)| *count > 0), Some(&(5.0, 1)));
        assert_eq!(percentile(&[], &latencies, 0.99), 5.0);
    }
}
