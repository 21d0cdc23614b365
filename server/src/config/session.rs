//! `session.*`: what agents may make a server remember.

use std::fs;

use super::{ConfigError, Layers};
use crate::session::Ledger;

/// Where Linux says what a process may use: its control group, and the machine.
const GROUP: &str = "/sys/fs/cgroup/memory.max";
const MACHINE: &str = "/proc/meminfo";
/// When neither says anything.
const UNKNOWN: u64 = 2 << 30;

pub(super) fn ledger(layers: &Layers) -> Result<Ledger, ConfigError> {
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1 << 20);
    let total = match layers.number("session.memory-total")? {
        0 => {
            let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
            usable(&text(GROUP), &text(MACHINE)) / 2
        }
        given => bytes(given),
    };
    Ok(Ledger::new(bytes(layers.number("session.memory")?), total))
}

/// Bytes that this process may use.
fn usable(group: &str, machine: &str) -> u64 {
    let group = group.trim().parse().ok();
    let total = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    group.into_iter().chain(kibibytes.map(|kib| kib * 1024)).min().unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::usable;

    #[test]
    fn the_smaller_of_group_and_machine_is_what_may_be_used() {
        let machine = "MemTotal:        1000 kB\nMemFree: 5 kB\n";
        assert_eq!(usable("max\n", machine), 1_024_000);
        assert_eq!(usable("2048\n", machine), 2_048);
        assert_eq!(usable("", ""), 2 << 30);
    }
}
