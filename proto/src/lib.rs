//! The generated messages of the protocol and nothing else; clients and servers are in
//! `fleetwright_rpc` (`proto/rpc`).
//!
//! The contract is in `proto/fleetwright/v1/*.proto`, with the meaning of every message and field.
//! This crate has no conversion and no rule: only `agent_session::decode` and
//! `agent_session::encode` convert these types to those of `model`, and the agent passes them on
//! unread.

#![warn(missing_docs)]

/// Messages of `fleetwright.v1`.
#[expect(clippy::large_enum_variant, reason = "the generator does not box; lists of changes are short-lived")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/fleetwright.v1.rs"));
}

/// The protocol of the simulated cloud process; no real installation uses it.
pub mod simulation {
    /// Messages of `fleetwright.simulation.v1`.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/fleetwright.simulation.v1.rs"));
    }
}

/// The encoded `FileDescriptorSet` of `fleetwright.v1`, comments included, for server reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fleetwright_descriptor.bin"));
