//! Everything that is read at one moment, the system's account of processes among it, and what happened between two moments.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::gauges::{Durations, Metrics, Percentiles};
use super::ground::Ground;
use crate::web::{DECIDED, ORDERED};

/// Ticks of processor time per second (Linux: `USER_HZ`, the same on every architecture that we run on).
const TICKS: f64 = 100.0;

/// What a process has used: seconds of processor time, and memory in bytes, at this moment and at most.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    seconds: f64,
    bytes: u64,
    peak: u64,
}

fn used(pid: &str) -> Option<Used> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (seconds, _) = seconds(&stat)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Used { seconds, bytes: of("VmRSS:")? * 1024, peak: of("VmHWM:")? * 1024 })
}

/// From `/proc/<pid>/stat`: seconds that the process was busy, which are the 14th and 15th field, in user mode and in the
/// system's; and those of its children that have ended and were waited for, the two after them.
fn seconds(stat: &str) -> Option<(f64, f64)> {
    let fields = fields(stat)?;
    let sum = |of: std::ops::Range<usize>| -> Option<f64> {
        fields.get(of)?.iter().map(|field| field.parse::<f64>().ok()).sum()
    };
    Some((sum(11..13)? / TICKS, sum(13..15)? / TICKS))
}

/// The fields of `/proc/<pid>/stat` from the third on: the name before them may hold anything, but ends with the last
/// parenthesis.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

/// A process and its children, those that have ended as well. What they share in memory is counted once for each.
fn used_by_family(pid: u32) -> Option<Used> {
    let mut all = used(&pid.to_string())?;
    let (_, ended) = seconds(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    all.seconds += ended;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(child) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{child}/stat")) else { continue };
        let parent = fields(&stat).and_then(|fields| fields.get(1)?.parse::<u32>().ok());
        if let Some(child) = used(child).filter(|_| parent == Some(pid)) {
            all = Used {
                seconds: all.seconds + child.seconds,
                bytes: all.bytes + child.bytes,
                peak: all.peak + child.peak,
            };
        }
    }
    Some(all)
}

/// Seconds that processors of this machine were busy with anything, and those that they were there, since it was started.
fn machine() -> Option<(f64, f64)> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. What follows is counted among
/// those.
fn busy(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let read: Option<Vec<f64>> = line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
    let read = read.filter(|read| read.len() == 8)?;
    let (all, idle) = (read.iter().sum::<f64>(), read[3] + read[4]);
    Some(((all - idle) / TICKS, all / TICKS))
}

/// Everything at one moment.
pub(super) struct Account {
    at: Instant,
    machine: Option<(f64, f64)>,
    pages: BTreeMap<SocketAddr, [Durations; 2]>,
    servers: BTreeMap<u32, Used>,
    generator: Option<Used>,
    cloud: Option<Used>,
    database: Option<Used>,
    written: Option<(i64, i64)>,
}

/// What happened between two moments.
#[derive(Debug, Default)]
pub(crate) struct Spell {
    /// How long.
    pub(crate) lasted: Duration,
    /// From the end of a batch window to the decision.
    pub(crate) decided: Percentiles,
    /// From the end of a batch window to the order.
    pub(crate) ordered: Percentiles,
    /// All servers; `None` when their processes are not known.
    pub(crate) servers: Option<Usage>,
    /// This process: agents, clusters, balancer.
    pub(crate) generator: Option<Usage>,
    /// The simulated cloud.
    pub(crate) cloud: Option<Usage>,
    /// PostgreSQL with all its processes, when it is ours.
    pub(crate) database: Option<Usage>,
    /// How busy the whole machine was, with everything on it, as processors, and of how many; `None` when it does not tell.
    pub(crate) machine: Option<(f64, f64)>,
    /// Rows and bytes that the database wrote per second; `None` when it is not known.
    pub(crate) written: Option<(f64, f64)>,
    /// The longest that a pod of a burst has waited so far until it ran, in milliseconds.
    pub(crate) longest_wait_ms: i64,
}

/// What a process used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Memory at the end, in bytes.
    pub(crate) bytes: u64,
    /// Memory at most, since the process began.
    pub(crate) peak: u64,
    /// Processors that it kept busy.
    pub(crate) processors: f64,
}

impl Account {
    /// A server that does not answer has nothing to tell.
    pub(super) async fn take(ground: &Ground) -> anyhow::Result<Self> {
        let mut pages = BTreeMap::new();
        for page in ground.pages() {
            if let Ok(metrics) = Metrics::read(page).await {
                pages.insert(page, [DECIDED, ORDERED].map(|name| metrics.durations(name)));
            }
        }
        Ok(Self {
            at: Instant::now(),
            machine: machine(),
            pages,
            servers: ground.servers().into_iter().filter_map(|pid| Some((pid, used(&pid.to_string())?))).collect(),
            generator: used("self"),
            cloud: ground.cloud().and_then(|pid| used(&pid.to_string())),
            database: ground.database.as_ref().and_then(|database| used_by_family(database.pid?)),
            written: match &ground.database {
                Some(database) => Some(database.written().await?),
                None => None,
            },
        })
    }

    /// What happened between `before` and this.
    pub(super) fn since(&self, before: &Self, longest_wait_ms: i64) -> Spell {
        let lasted = self.at.duration_since(before.at);
        let seconds = lasted.as_secs_f64().max(0.001);
        let usage = |now: Option<Used>, then: Option<Used>| {
            let (now, then) = (now?, then.unwrap_or_default());
            Some(Usage { bytes: now.bytes, peak: now.peak, processors: (now.seconds - then.seconds) / seconds })
        };
        let servers = self.servers.iter().map(|(pid, now)| usage(Some(*now), before.servers.get(pid).copied()));
        let written = self.written.zip(before.written);
        Spell {
            lasted,
            decided: self.durations(before, 0).to_percentiles(),
            ordered: self.durations(before, 1).to_percentiles(),
            servers: servers.flatten().reduce(|all, one| Usage {
                bytes: all.bytes + one.bytes,
                peak: all.peak + one.peak,
                processors: all.processors + one.processors,
            }),
            generator: usage(self.generator, before.generator),
            cloud: usage(self.cloud, before.cloud),
            database: usage(self.database, before.database),
            machine: self.machine.zip(before.machine).map(|((busy, all), (busy_before, all_before))| {
                ((busy - busy_before) / seconds, ((all - all_before) / seconds).round())
            }),
            written: written.map(|((rows, bytes), (rows_before, bytes_before))| {
                ((rows - rows_before) as f64 / seconds, (bytes - bytes_before) as f64 / seconds)
            }),
            longest_wait_ms,
        }
    }

    fn durations(&self, before: &Self, which: usize) -> Durations {
        let of_page = |(page, now): (&SocketAddr, &[Durations; 2])| match before.pages.get(page) {
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
    fn a_process_is_not_charged_for_what_its_children_did() {
        // Fields 14 to 17: 150 + 50 ticks of its own are 2 s, 900 + 100 of children that have ended 10 s.
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 150 50 900 100 20 0 4 0 99 0 0";
        assert_eq!(seconds(stat), Some((2.0, 10.0)));
        assert_eq!(seconds("7 (a) S 1 7"), None);
    }

    #[test]
    fn a_machine_is_busy_with_all_that_is_neither_idle_nor_waiting() {
        // In hundredths of a second: 100 + 50 + 30 + 5 + 5 + 10 = 200 busy, 700 idle and 100 waiting beside them.
        let stat = "cpu  100 50 30 700 100 5 5 10 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(stat), Some((2.0, 10.0)));
        assert_eq!(busy("cpu  100 50\n"), None);
    }
}
