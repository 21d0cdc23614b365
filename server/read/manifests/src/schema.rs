//! Reading order: [`part`] (notation of schemas), [`definition`] (the definition around a schema).
//!
//! [`well_known_labels`]: crate::karpenter::well_known_labels

pub(crate) mod definition;
pub(crate) mod part;

pub use definition::Definition;

use crate::karpenter::{node_claim, node_class, node_overlay, node_pool};

/// The definitions, in the recommended order of installation.
#[must_use]
pub fn definitions() -> Vec<Definition> {
    vec![node_pool::definition(), node_claim::definition(), node_overlay::definition(), node_class::definition()]
}
