//! Reading: bytes of YAML or JSON become typed, validated objects, or errors with their location.
//!
//! Pure: no files, no network, no clock, and no catalogue of instance types. The crate
//! `planning-input` joins the objects with a catalogue.
//!
//! Reading order: [`document`] (bytes to objects), [`cursor`] (typed access, errors with paths),
//! `misplaced` and `quantities` (what was likely meant), [`inventory`] (the objects, each once), [`pod`] and [`cluster`] (Kubernetes objects),
//! `volumes` (what they require of nodes), [`karpenter`] (Karpenter's objects), [`scheduler`] (its
//! configuration). [`legacy`] converts older objects, [`fields`] documents every field, [`schema`]
//! defines the custom resources.

pub mod cluster;
pub mod cursor;
pub mod document;
mod edit_distance;
mod error;
pub mod fields;
pub mod inventory;
pub mod karpenter;
pub mod kinds;
mod kubernetes_fields;
pub mod legacy;
mod misplaced;
pub mod notes;
pub mod pod;
mod quantities;
pub mod scheduler;
pub mod schema;
mod selector;
pub mod syntax;
mod volumes;

pub use cursor::{Cursor, ObjectLocation, Problems};
pub use document::Document;
pub use edit_distance::nearest_step;
pub use error::{InputError, MAX_ERRORS};
pub use volumes::{VolumeUser, Volumes};

/// One input file, or standard input.
#[derive(Debug, Clone)]
pub struct Source {
    /// A path, or `-` for standard input.
    pub name: String,
    /// Content: YAML or JSON, in UTF-8.
    pub bytes: Vec<u8>,
}
