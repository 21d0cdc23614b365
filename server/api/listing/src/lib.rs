//! Lists of resources over rows in memory, on one replica or on several, as the API Improvement Proposals describe them:
//! pages (AIP-158), filters (AIP-160) and orders (AIP-132).
//!
//! A [`Schema`] names the fields of a row type. Each replica makes the same [`Query`] from the same arguments and selects
//! the first rows of a page from the rows that it has ([`Query::select`]). One of them merges these parts into the page
//! ([`Query::merge`]). A page token has the position in the order and nothing else, so that any replica continues the list.
//!
//! ```text
//! let schema = Schema::new("clusters", PageSizes { default: 100, maximum: 1000 }, "name", |row: &Row| &row.name)
//!     .text("region", |row| Some(&row.region))
//!     .int("price_micro_usd", |row| row.price)
//!     .map("labels", |row, key| row.labels.get(key).map(String::as_str));
//! let query = Query::new(&schema, &ListRequest { filter: "region = eu-* AND price_micro_usd > 0", ..request })?;
//! let part = query.select(rows.iter()).into_iter().cloned().collect();
//! let page = query.merge(vec![part, part_of_the_other_replica], |a, b| a.revision.cmp(&b.revision));
//! ```
//!
//! # Filters
//!
//! - `AND`, `OR`, `NOT`, `-`, parentheses. Terms without an operator between them are joined by `AND`, and `OR` binds tighter
//!   than `AND`.
//! - `= != < <= > >=`. `!=` is `NOT` of `=`, so that it also matches rows without a value; the other comparisons match only
//!   rows with a value. Booleans and enums have no `<`. Texts are compared byte by byte.
//! - `field:*` matches rows with a value. `texts:value` matches rows of which one element is equal, and `map:key` rows with
//!   the key. `text:value` matches rows whose text contains the value, without regard to ASCII case; for other types `:` is `=`.
//! - `map.key` is the value of a key; keys may have dots, and other characters in quotes: `labels."a b" = c`.
//! - `*` in a text of `=`, `!=` and `:` stands for any characters; `\*` in quotes is an asterisk.
//! - A literal without a field matches rows whose name contains it, without regard to ASCII case.
//! - Timestamps are those of RFC 3339 with an offset.
//!
//! Bounds are [`MAX_FILTER_BYTES`], [`MAX_FILTER_DEPTH`] and [`MAX_FILTER_TERMS`]. A filter reads no row twice and allocates
//! nothing for it.
//!
//! # Commands
//!
//! - `cargo bench -p fleetwright-listing` prints how long the first page of 100,000 rows takes.
//! - `FUZZ_SECONDS=60 FUZZ_SEED=7 cargo test --release -p fleetwright-listing --test fuzz` passes random filters, orders and
//!   tokens to the parsers and to rows. Without the variables the test is short.
//!
//! Reading order: [`schema`], [`syntax`] (texts of filters), [`filter`] (filters of rows), [`order`], [`page_token`],
//! [`query`] (what a replica selects), [`page`] (what the page is).

pub mod error;
pub mod filter;
pub mod order;
pub mod page;
pub mod page_token;
pub mod query;
pub mod schema;
pub mod syntax;

pub use error::{Argument, ListError};
pub use filter::Filter;
pub use order::OrderBy;
pub use page::Page;
pub use query::{ListRequest, Query};
pub use schema::{PageSizes, Schema};
pub use syntax::{Expression, MAX_FILTER_BYTES, MAX_FILTER_DEPTH, MAX_FILTER_TERMS};

#[cfg(test)]
mod tests;
