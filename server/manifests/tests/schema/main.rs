//! Custom resource definitions: what is committed is what the program prints, and what `fleetwright
//! explain` tells of a field is what an API server does with it. What an API server accepts and
//! refuses (`tests/fixtures/crds`) is accepted and refused offline too;
//! `tests/tests/kubernetes/crds.rs` asks a real one.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own input has failed")]

/// The tables of objects that an API server accepts and refuses.
const FIXTURES: &str = "../../tests/fixtures/crds";

mod cases;
mod committed;
mod offline;
mod tables;
