//! Generates the lease holder identity of a replica when `lease.owner` is unset.
//!
//! A process reacquires the leases of its own identity at once, so a restarted server does not wait
//! for expiry. Two processes must therefore never share an identity: a suspended process would
//! continue beside its successor. Unique among running processes is a listening address within a
//! network namespace of a running kernel, and only a listening process acquires leases. Without a
//! fixed port, or where the operating system does not expose the rest, the identity is random and
//! changes with every start.
//!
//! An identity starts with the host name, so that operators recognise it in errors and in the
//! database.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use sha2::{Digest, Sha256};

/// Host name; in a pod, the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Random id of the current boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Id of the network namespace; containers of one pod share it, also across their restarts.
const NETWORK: &str = "/proc/self/ns/net";

/// `<host>.<eight hexadecimal digits>`, for a process that listens on this address.
pub(super) fn of(listens: SocketAddr) -> String {
    let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
    let hash = (listens.port() != 0).then(|| address_hash(listens)).flatten();
    // Randomness of the operating system, mixed with the process id.
    let random = || RandomState::new().hash_one(std::process::id());
    named(host.trim(), hash.unwrap_or_else(random))
}

/// Hash of what only one process at a time can have.
fn address_hash(listens: SocketAddr) -> Option<u64> {
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
    fn an_identity_starts_with_the_host_name() {
        assert_eq!(named("web-0", 0x0123_4567_89ab_cdef), "web-0.01234567");
        assert_eq!(named("", 7), "fleetwright.00000000");
    }

    #[test]
    fn processes_on_one_host_differ_by_their_addresses() {
        assert_ne!(on("127.0.0.1:7450"), on("127.0.0.1:7451"));
        assert_ne!(on("127.0.0.1:7450"), on("0.0.0.0:7450"));
        assert_ne!(on("127.0.0.1:0"), on("127.0.0.1:0"), "the system chooses the port");
    }

    #[test]
    fn a_restarted_process_keeps_its_identity() {
        if address_hash("127.0.0.1:7450".parse().unwrap()).is_some() {
            assert_eq!(on("127.0.0.1:7450"), on("127.0.0.1:7450"));
        }
    }
}
