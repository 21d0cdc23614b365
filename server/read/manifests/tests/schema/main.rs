//! Custom resource definitions: the committed files are what the program prints, and the
//! documentation of `fleetwright explain` agrees with the schemas. Objects that an API server
//! accepts and rejects (`tests/fixtures/crds`) are accepted and rejected offline too;
//! `tests/tests/kubernetes/crds.rs` sends them to a real API server.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own input has failed")]

/// The tables of objects that an API server accepts and rejects.
const FIXTURES: &str = "../../../tests/fixtures/crds";

mod cases;
mod committed;
mod offline;
mod tables;
