//! Process statistics from Linux.

use std::fs;
use std::thread;
use std::time::Duration;

/// CPU time of this thread. The kernel accounts it when the thread is switched, so the thread
/// yields first; otherwise up to a timer tick (1 to 10 ms) is missing.
pub fn thread_cpu() -> Duration {
    thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// CPU time of terminated children, user and system, in hundredths of a second (`USER_HZ`).
pub fn children_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may contain spaces. The fields from the third on follow
    // it; cutime and cstime are the 16th and 17th.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Peak resident memory of `process`, in MiB. `None` once it has ended.
pub fn peak_rss_mib(process: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// Runnable threads over the last minute, and the number of processors.
pub fn load() -> (String, usize) {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    (minute, thread::available_parallelism().map_or(1, usize::from))
}
