//! CPU time of processes, for measurements.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

/// CPU time of a process so far, in seconds.
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = text.rsplit_once(')').context("no process name in /proc/PID/stat")?.1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // utime and stime, in hundredths of a second on Linux.
    Ok((ticks(11) + ticks(12)) / 100.0)
}

/// Share of one processor that a process uses during `time` from now on.
///
/// # Errors
/// The process has ended.
pub fn cpu_share(pid: u32, time: Duration) -> anyhow::Result<f64> {
    let (begun, before) = (Instant::now(), cpu_seconds(pid)?);
    thread::sleep(time);
    Ok((cpu_seconds(pid)? - before) / begun.elapsed().as_secs_f64())
}
