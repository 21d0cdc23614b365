//! Custom resource definitions: what is committed is what the program prints, and what `fleetwright explain` tells of a field
//! is what an API server does with it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own input has failed")]

mod committed;
mod tables;
