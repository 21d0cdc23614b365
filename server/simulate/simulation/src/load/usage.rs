//! A sample of all measurements, including process accounting, and the difference of two samples.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::disruption::DisruptionWaits;
use super::metrics::{Durations, Metrics, Percentiles};
use super::test_bed::TestBed;
use server::process_metrics::{DECIDED, DISRUPTION_PLANNED, ORDERED};

/// Clock ticks per second (Linux: `USER_HZ`, the same on every supported architecture).
const TICKS: f64 = 100.0;

/// Usage of a process: seconds of processor time, current and peak memory in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessUsage {
    seconds: f64,
    bytes: u64,
    peak: u64,
}

fn process_usage(pid: &str) -> Option<ProcessUsage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (seconds, _) = seconds(&stat)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(ProcessUsage { seconds, bytes: of("VmRSS:")? * 1024, peak: of("VmHWM:")? * 1024 })
}

/// From `/proc/<pid>/stat`: seconds of user and system time (fields 14 and 15), and those of
/// children that have exited and were waited for (the two after them).
fn seconds(stat: &str) -> Option<(f64, f64)> {
    let fields = fields(stat)?;
    let sum = |of: std::ops::Range<usize>| -> Option<f64> {
        fields.get(of)?.iter().map(|field| field.parse::<f64>().ok()).sum()
    };
    Some((sum(11..13)? / TICKS, sum(13..15)? / TICKS))
}

/// The fields of `/proc/<pid>/stat` from the third on: the name before them may contain anything
/// but ends with the last parenthesis.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

/// Usage of a process and its children, including exited ones. Shared memory counts once per
/// process.
fn process_tree_usage(pid: u32) -> Option<ProcessUsage> {
    let mut all = process_usage(&pid.to_string())?;
    let (_, ended) = seconds(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    all.seconds += ended;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(child) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{child}/stat")) else { continue };
        let parent = fields(&stat).and_then(|fields| fields.get(1)?.parse::<u32>().ok());
        if let Some(child) = process_usage(child).filter(|_| parent == Some(pid)) {
            all = ProcessUsage {
                seconds: all.seconds + child.seconds,
                bytes: all.bytes + child.bytes,
                peak: all.peak + child.peak,
            };
        }
    }
    Some(all)
}

/// Busy and total processor seconds of this machine since boot.
fn host_processors() -> Option<(f64, f64)> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
/// Later fields are included in these.
fn busy(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let read: Option<Vec<f64>> = line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
    let read = read.filter(|read| read.len() == 8)?;
    let (all, idle) = (read.iter().sum::<f64>(), read[3] + read[4]);
    Some(((all - idle) / TICKS, all / TICKS))
}

pub(super) struct UsageSample {
    at: Instant,
    host_processors: Option<(f64, f64)>,
    pages: BTreeMap<SocketAddr, [Durations; 3]>,
    waits: BTreeMap<SocketAddr, DisruptionWaits>,
    servers: BTreeMap<u32, ProcessUsage>,
    generator: Option<ProcessUsage>,
    cloud: Option<ProcessUsage>,
    database: Option<ProcessUsage>,
    written: Option<(i64, i64)>,
}

#[derive(Debug, Default)]
pub struct Interval {
    pub lasted: Duration,
    /// From the end of a batch window to the decision.
    pub decided: Percentiles,
    /// From the end of a batch window to the order.
    pub ordered: Percentiles,
    /// How long plans of disruption took.
    pub disruption: Percentiles,
    /// How long clusters waited for them.
    pub disruption_waits: DisruptionWaits,
    /// All servers; `None` if their processes are unknown.
    pub servers: Option<Usage>,
    /// This process: agents, clusters, balancer.
    pub generator: Option<Usage>,
    pub cloud: Option<Usage>,
    /// PostgreSQL with all its processes, if started by this run.
    pub database: Option<Usage>,
    /// Busy processors and all processors of the machine; `None` if unknown.
    pub host_processors: Option<(f64, f64)>,
    /// Rows and bytes written by the database per second; `None` if unknown.
    pub written: Option<(f64, f64)>,
    /// Longest time from a burst pod's creation to its running so far, in milliseconds.
    pub longest_wait_ms: i64,
}

/// Usage of a process within an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// Memory at the end, in bytes.
    #[serde(rename = "memoryBytes")]
    pub bytes: u64,
    /// Peak memory since the process started, in bytes.
    #[serde(rename = "peakBytes")]
    pub peak: u64,
    pub processors: f64,
}

impl UsageSample {
    /// Takes a sample. A server that does not answer is skipped.
    pub(super) async fn collect(test_bed: &TestBed) -> anyhow::Result<Self> {
        let (mut pages, mut waits) = (BTreeMap::new(), BTreeMap::new());
        for page in test_bed.pages() {
            if let Ok(metrics) = Metrics::read(page).await {
                waits.insert(page, DisruptionWaits::read(&metrics));
                pages.insert(page, [DECIDED, ORDERED, DISRUPTION_PLANNED].map(|name| metrics.durations(name)));
            }
        }
        Ok(Self {
            at: Instant::now(),
            host_processors: host_processors(),
            pages,
            waits,
            servers: test_bed
                .servers()
                .into_iter()
                .filter_map(|pid| Some((pid, process_usage(&pid.to_string())?)))
                .collect(),
            generator: process_usage("self"),
            cloud: test_bed.cloud().and_then(|pid| process_usage(&pid.to_string())),
            database: test_bed.database.as_ref().and_then(|database| process_tree_usage(database.pid?)),
            written: match &test_bed.database {
                Some(database) => Some(database.written().await?),
                None => None,
            },
        })
    }

    /// The difference from `before` to this sample.
    pub(super) fn since(&self, before: &Self, longest_wait_ms: i64) -> Interval {
        let lasted = self.at.duration_since(before.at);
        let seconds = lasted.as_secs_f64().max(0.001);
        // Counters of a process that started in between begin at zero.
        let usage = |now: Option<ProcessUsage>, then: Option<ProcessUsage>| {
            let (now, then) = (now?, then.unwrap_or_default());
            Some(Usage { bytes: now.bytes, peak: now.peak, processors: (now.seconds - then.seconds) / seconds })
        };
        let servers = self.servers.iter().map(|(pid, now)| usage(Some(*now), before.servers.get(pid).copied()));
        let written = self.written.zip(before.written);
        Interval {
            lasted,
            decided: self.durations(before, 0).to_percentiles(),
            ordered: self.durations(before, 1).to_percentiles(),
            disruption: self.durations(before, 2).to_percentiles(),
            disruption_waits: self.disruption_waits(before),
            servers: servers.flatten().reduce(|all, one| Usage {
                bytes: all.bytes + one.bytes,
                peak: all.peak + one.peak,
                processors: all.processors + one.processors,
            }),
            generator: usage(self.generator, before.generator),
            cloud: usage(self.cloud, before.cloud),
            database: usage(self.database, before.database),
            host_processors: self.host_processors.zip(before.host_processors).map(
                |((busy, all), (busy_before, all_before))| {
                    ((busy - busy_before) / seconds, ((all - all_before) / seconds).round())
                },
            ),
            written: written.map(|((rows, bytes), (rows_before, bytes_before))| {
                ((rows - rows_before) as f64 / seconds, (bytes - bytes_before) as f64 / seconds)
            }),
            longest_wait_ms,
        }
    }

    fn disruption_waits(&self, before: &Self) -> DisruptionWaits {
        let since = |(page, now): (&SocketAddr, &DisruptionWaits)| {
            now.since(before.waits.get(page).copied().unwrap_or_default())
        };
        self.waits.iter().map(since).fold(DisruptionWaits::default(), DisruptionWaits::and)
    }

    fn durations(&self, before: &Self, which: usize) -> Durations {
        let of_page = |(page, now): (&SocketAddr, &[Durations; 3])| match before.pages.get(page) {
            Some(then) => now[which].since(&then[which]),
            None => now[which].clone(),
        };
        self.pages.iter().map(of_page).fold(Durations::default(), |all, one| all.and(&one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_children_is_not_charged_to_the_process() {
        // Fields 14 to 17: 150 + 50 ticks of its own are 2 s, 900 + 100 of exited children 10 s.
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 150 50 900 100 20 0 4 0 99 0 0";
        assert_eq!(seconds(stat), Some((2.0, 10.0)));
        assert_eq!(seconds("7 (a) S 1 7"), None);
    }

    #[test]
    fn busy_time_is_all_time_except_idle_and_iowait() {
        // In hundredths of a second: 100 + 50 + 30 + 5 + 5 + 10 = 200 busy, 700 idle and 100 waiting beside them.
        let stat = "cpu  100 50 30 700 100 5 5 10 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(stat), Some((2.0, 10.0)));
        assert_eq!(busy("cpu  100 50\n"), None);
    }
}
