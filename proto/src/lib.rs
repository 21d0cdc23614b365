//! The generated types of `fleetwright.v1` and nothing else.
//!
//! The contract is in `proto/fleetwright/v1/*.proto`, with the meaning of every message and field.
//! This crate has no conversion and no rule: only the server's `session::decode` and
//! `session::encode` convert these types to the engine's, and the agent passes them on unread.

/// Messages, clients and servers of `fleetwright.v1`.
#[expect(unused_qualifications, reason = "the generator writes full paths")]
#[expect(clippy::large_enum_variant, reason = "the generator does not box; lists of changes are short-lived")]
pub mod v1 {
    tonic::include_proto!("fleetwright.v1");
}

/// The protocol of the simulated cloud process; no real installation uses it.
pub mod simulation {
    /// Messages, clients and servers of `fleetwright.simulation.v1`.
    #[expect(unused_qualifications, reason = "the generator writes full paths")]
    pub mod v1 {
        tonic::include_proto!("fleetwright.simulation.v1");
    }
}

/// The encoded `FileDescriptorSet` of the protocol, comments included, for server reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fleetwright_descriptor.bin"));

/// Largest message in bytes; both sides refuse larger ones. Senders split lists far below it: 1,000
/// changes of a typical 200 bytes are 200 KB, and the largest single record, a manifest, is at most
/// 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
