//! The custom resource definitions: what an API server accepts, defaults and rejects.
//!
//! Names, versions, fields, types, defaults and rules are those of Karpenter 1.14, so that every
//! object that Karpenter accepts is accepted and stored unchanged. Descriptions come from the
//! tables of [`fields`](crate::fields): every field of a schema has an entry there, and every entry
//! a field.
//!
//! Five differences, all of them compatible:
//! - Messages are Fleetwright's.
//! - Every well-known label of the AWS provider may be required by every kind
//!   ([`well_known_labels`]); Karpenter's schemas omit a few, which its code accepts.
//! - `spec.kubelet` of a class keeps fields of later releases.
//! - An empty `capacityReservationSelectorTerms` equals an absent one.
//! - Errors in patterns are corrected: a `volumeSize` of `18Ti` is a size, a bare `Ti` is none, an
//!   empty eviction threshold is none.
//!
//! Reading order: [`part`] (notation of schemas), [`shared`] (parts of several objects), the
//! objects, [`definition`] (the definition around a schema), [`describe`].
//!
//! [`well_known_labels`]: crate::karpenter::well_known_labels

mod definition;
mod describe;
mod node_claim;
mod node_class;
mod node_overlay;
mod node_pool;
mod part;
mod shared;

pub use definition::Definition;

/// The definitions, in the recommended order of installation.
#[must_use]
pub fn definitions() -> Vec<Definition> {
    vec![node_pool::definition(), node_claim::definition(), node_overlay::definition(), node_class::definition()]
}
