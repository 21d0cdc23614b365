//! `session.*`: memory limits for objects of agents.

use std::fs;

use super::layers::Layers;
use agent_session::SessionMemory;
use settings::ConfigError;

/// Memory limit of the control group, and total memory of the host.
const CGROUP_LIMIT: &str = "/sys/fs/cgroup/memory.max";
const HOST_MEMORY: &str = "/proc/meminfo";
/// Fallback when neither is available.
const FALLBACK_BYTES: u64 = 2 << 30;

pub(super) fn memory(layers: &Layers) -> Result<SessionMemory, ConfigError> {
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1 << 20);
    let total = match layers.number("session.memory-total")? {
        0 => {
            let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
            available_bytes(&text(CGROUP_LIMIT), &text(HOST_MEMORY)) / 2
        }
        given => bytes(given),
    };
    Ok(SessionMemory::new(bytes(layers.number("session.memory")?), total))
}

/// Bytes of memory available to this process.
fn available_bytes(group: &str, machine: &str) -> u64 {
    let group = group.trim().parse().ok();
    let total = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    group.into_iter().chain(kibibytes.map(|kib| kib * 1024)).min().unwrap_or(FALLBACK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::available_bytes;

    #[test]
    fn the_smaller_of_cgroup_and_host_limit_applies() {
        let machine = "MemTotal:        1000 kB\nMemFree: 5 kB\n";
        assert_eq!(available_bytes("max\n", machine), 1_024_000);
        assert_eq!(available_bytes("2048\n", machine), 2_048);
        assert_eq!(available_bytes("", ""), 2 << 30);
    }
}
