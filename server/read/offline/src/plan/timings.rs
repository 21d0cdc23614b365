//! `--timings`: time and memory of parsing and planning, from Linux's `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Output of `--timings`, one JSON line on stderr.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timings {
    read_ms: f64,
    decide_ms: f64,
    decide_cpu_ms: f64,
    search_steps: u64,
    peak_rss_mib: f64,
}

/// Wall and CPU time since its start.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    fn wall_ms(&self) -> f64 {
        milliseconds(self.wall.elapsed())
    }

    fn cpu_ms(&self) -> f64 {
        milliseconds(cpu_time().saturating_sub(self.cpu))
    }
}

/// Measures one run: first parsing, then planning.
pub struct Measurement {
    phase: Stopwatch,
    read_ms: f64,
}

impl Measurement {
    pub fn start() -> Self {
        Self { phase: Stopwatch::start(), read_ms: 0.0 }
    }

    /// Ends the parsing phase.
    pub(crate) fn reading_ended(&mut self) {
        self.read_ms = self.phase.wall_ms();
        self.phase = Stopwatch::start();
    }

    /// Ends the planning phase.
    pub(crate) fn deciding_ended(self, search_steps: u64) -> Timings {
        Timings {
            read_ms: self.read_ms,
            decide_ms: self.phase.wall_ms(),
            decide_cpu_ms: self.phase.cpu_ms(),
            search_steps,
            peak_rss_mib: peak_rss_mib(),
        }
    }
}

/// CPU time of all living threads, in the resolution of the kernel's scheduler (nanoseconds).
fn cpu_time() -> Duration {
    // The kernel accounts a running thread's time on a switch or tick; yielding forces it.
    std::thread::yield_now();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Peak resident memory of this process, in MiB.
fn peak_rss_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
    round(kib.unwrap_or(0.0) / 1024.0)
}

fn milliseconds(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1000.0)
}

/// Rounds to three decimals for output.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
