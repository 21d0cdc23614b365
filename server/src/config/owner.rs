//! The name that a replica holds leases under, when nobody has given it one.
//!
//! A lease goes back at once to whoever held it under the same name, so that a server which is started again after a crash
//! goes on without waiting. Two processes must therefore never share a name: a copy that was paused would go on acting beside
//! its successor. What no two processes have at one time is an address to listen on, in one network, of one running kernel;
//! and leases are taken by nobody who does not listen. Without a fixed port, or where the system does not tell of the others,
//! the name is left to chance and differs from start to start.
//!
//! A name begins with the machine's, so that people see in errors and in the database who it was.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use sha2::{Digest, Sha256};

/// Where Linux tells the machine's name; in a pod it is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Where Linux tells what is another one whenever it starts.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// What Linux calls the network that this process sees; containers of one pod share one, also across their restarts.
const NETWORK: &str = "/proc/self/ns/net";

/// `<host>.<eight hexadecimal digits>`, for a process that listens on this address.
pub(super) fn of(listens: SocketAddr) -> String {
    let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
    let place = (listens.port() != 0).then(|| place(listens)).flatten();
    // Keys from the system's source of chance, mixed with the process's number.
    let chance = || RandomState::new().hash_one(std::process::id());
    named(host.trim(), place.unwrap_or_else(chance))
}

/// What only one process at a time can have.
fn place(listens: SocketAddr) -> Option<u64> {
    let boot = fs::read_to_string(BOOT).ok()?;
    let network = fs::read_link(NETWORK).ok()?;
    let digest = Sha256::digest(format!("{} {} {listens}", boot.trim(), network.display()));
    Some(u64::from_be_bytes(*digest.first_chunk()?))
}

fn named(host: &str, part: u64) -> String {
    let host = if host.is_empty() { "fleetwright" } else { host };
    format!("{host}.{:08x}", part >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(address: &str) -> String {
        of(address.parse().unwrap())
    }

    #[test]
    fn a_name_says_where_its_process_is() {
        assert_eq!(named("web-0", 0x0123_4567_89ab_cdef), "web-0.01234567");
        assert_eq!(named("", 7), "fleetwright.00000000");
    }

    #[test]
    fn two_processes_on_one_machine_differ_as_their_addresses_do() {
        assert_ne!(on("127.0.0.1:7450"), on("127.0.0.1:7451"));
        assert_ne!(on("127.0.0.1:7450"), on("0.0.0.0:7450"));
        assert_ne!(on("127.0.0.1:0"), on("127.0.0.1:0"), "the system chooses the port");
    }

    #[test]
    fn a_process_that_is_started_again_in_its_place_keeps_its_name() {
        if place("127.0.0.1:7450".parse().unwrap()).is_some() {
            assert_eq!(on("127.0.0.1:7450"), on("127.0.0.1:7450"));
        }
    }
}
