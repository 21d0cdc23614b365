//! The name that a replica holds leases under, when nobody has given it one.
//!
//! A lease goes back at once to whoever held it under the same name, so two processes must never share one: a copy that was
//! paused would go on acting beside its successor. The name therefore ends with a part of this process's own; it begins with
//! the machine's name, so that people see in errors and in the database who it was.

use std::hash::{BuildHasher, RandomState};

/// Where Linux tells the machine's name; in a pod it is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// `<host>.<eight hexadecimal digits>`, another one in every process.
pub(super) fn unique() -> String {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    // Keys from the system's source of chance, mixed with the process's number.
    let chance = RandomState::new().hash_one(std::process::id());
    named(host.trim(), chance)
}

fn named(host: &str, chance: u64) -> String {
    let host = if host.is_empty() { "fleetwright" } else { host };
    format!("{host}.{:08x}", chance >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_on_one_machine_differ_and_both_say_where_they_are() {
        assert_eq!(named("web-0", 0x0123_4567_89ab_cdef), "web-0.01234567");
        assert_eq!(named("", 7), "fleetwright.00000000");
        assert_ne!(unique(), unique());
    }
}
