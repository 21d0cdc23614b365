//! Documentation of every field, for `fleetwright explain nodepool.spec.disruption`.
//!
//! One table per kind, in the usual order of the fields. The tables are data: a field is a line, a
//! kind is a file. [`lookup`] accepts tables as an argument, so that a program can add kinds (the
//! server's configuration is one); [`TABLES`] are those of this crate. [`render`] prints in the
//! format of `kubectl explain`. The conversion of old manifests uses the same tables to decide
//! which fields exist ([`Table::children`]).

mod annotations;
mod catalogue;
mod conditions;
mod lookup;
mod node_claim;
mod node_class;
mod node_class_devices;
mod node_class_status;
mod node_overlay;
mod node_pool;
mod render;
mod table;

pub(crate) use lookup::nearest_within;
pub use lookup::{FieldMatch, NotFound, lookup, nearest_step};
pub use render::{render, render_recursive};
pub use table::{Field, Table};

/// The tables of this crate's objects.
pub const TABLES: &[Table] =
    &[node_pool::TABLE, node_claim::TABLE, node_overlay::TABLE, node_class::TABLE, catalogue::TABLE];
