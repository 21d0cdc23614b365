//! Documentation of every field, for `fleetwright explain nodepool.spec.disruption`.
//!
//! One table per kind, in the usual order of the fields, from the definitions of [`schema`](crate::schema). [`render`]
//! prints in the format of `kubectl explain`. The conversion of old manifests uses the same tables to decide which fields
//! exist ([`Table::children`]).

use std::sync::LazyLock;

mod catalogue;
mod lookup;
mod render;
mod table;

pub use lookup::{FieldMatch, NotFound, lookup};
pub use render::{render, render_recursive};
pub use table::{Field, Table};

/// The tables of the kinds that have a definition, and of the catalogue.
pub static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let kinds = crate::schema::definitions();
    kinds.iter().map(|definition| definition.table()).chain([catalogue::table()]).collect()
});
