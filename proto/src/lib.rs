//! The wire: the generated types of `fleetwright.v1` and nothing else.
//!
//! The contract is in `proto/fleetwright/v1/*.proto`; every message and field says there what it means. No conversion and no
//! rule lives here: the server's `session::decode` and `session::encode` are the only places where these types become the
//! engine's, and the agent passes them on without looking.

/// Messages, clients and servers of `fleetwright.v1`.
#[expect(unused_qualifications, reason = "the generator writes full paths")]
#[expect(clippy::large_enum_variant, reason = "the generator does not box; lists of changes are short-lived")]
pub mod v1 {
    tonic::include_proto!("fleetwright.v1");
}

/// What a simulated cloud in a process of its own is asked; no real installation speaks it.
pub mod simulation {
    /// Messages, clients and servers of `fleetwright.simulation.v1`.
    #[expect(unused_qualifications, reason = "the generator writes full paths")]
    pub mod v1 {
        tonic::include_proto!("fleetwright.simulation.v1");
    }
}

/// The encoded `FileDescriptorSet` of the protocol, comments included, for server reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fleetwright_descriptor.bin"));

/// Messages larger than this, in bytes, are refused by both sides. Senders cut lists so that none comes near: 1,000 changes of a
/// typical 200 bytes are 200 KB, and the largest single record, a manifest, is at most 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
