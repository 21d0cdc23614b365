//! Reading: bytes of YAML or JSON become one [`PlanningInput`](engine::input::PlanningInput), notes for the reader, or
//! errors that say where and what.
//!
//! Pure: no files, no network, no clock. Whoever calls [`read`] has opened the files; what comes out depends on the
//! bytes and the [`Options`] alone, never on the order of sources or documents.
//!
//! Reading order: [`document`] (bytes to objects), [`cursor`] (typed looks at an object, errors with paths).

pub mod cluster;
pub mod cursor;
pub mod document;
mod error;
pub mod fields;
mod inventory;
pub mod karpenter;
mod kinds;
mod notes;
pub mod pod;
mod selector;
pub mod syntax;

pub use cursor::{Cursor, Problems, Site};
pub use document::Document;
pub use error::InputError;

/// One input as the caller opened it.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name as the user knows it: a path, or `-` for standard input.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
