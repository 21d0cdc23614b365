//! The generated clients and servers of the services in `proto/`, and nothing else.
//!
//! Their messages are the types of `fleetwright_proto`, under the same names of modules. A crate
//! that only converts messages depends on `fleetwright_proto`, and so not on tonic.
//!
//! `forward_fleet_service!(Api, Access)` implements `FleetService` for `Api`: each method asks `Access::of` what the request
//! may see and act on, and awaits the answer of the method of `Api` that has its name with `_now` at the end.

/// Clients and servers of `fleetwright.v1`.
#[expect(unused_qualifications, reason = "the generator writes full paths")]
pub mod v1 {
    tonic::include_proto!("fleetwright.v1");
}

/// The protocol of the simulated cloud process; no real installation uses it.
pub mod simulation {
    /// Clients and servers of `fleetwright.simulation.v1`.
    #[expect(unused_qualifications, reason = "the generator writes full paths")]
    pub mod v1 {
        tonic::include_proto!("fleetwright.simulation.v1");
    }
}

/// Largest message in bytes; both sides refuse larger ones. Senders split lists far below it: 1,000
/// changes of a typical 200 bytes are 200 KB, and the largest single record, a manifest, is at most
/// 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
