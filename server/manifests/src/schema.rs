//! The custom resource definitions of our objects: what an API server accepts, what it fills in, and what it refuses.
//!
//! Names, versions, fields, types, defaults and rules are Karpenter's (1.14), so that whatever it accepts is accepted and
//! stored as it was sent. Descriptions come from the tables of [`fields`](crate::fields): a field that has no line there
//! has no place in a schema, and the other way round.
//!
//! Five things differ, all of them harmless to whoever comes from Karpenter:
//! - Messages are our own.
//! - Every well-known label of the AWS provider may be required by every kind ([`well_known_labels`]); Karpenter's schemas
//!   leave out a few, which its code knows.
//! - `spec.kubelet` of a class keeps fields that later releases may know.
//! - An empty `capacityReservationSelectorTerms` is what it is without the field.
//! - Slips in patterns are mended: a `volumeSize` of `18Ti` is a size, a bare `Ti` is none, an empty eviction threshold is
//!   none.
//!
//! Reading order: [`part`] (how a schema is written down), [`shared`] (parts that several objects have), the objects,
//! [`definition`] (what stands around a schema), [`describe`].
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

/// The definitions, in the order in which they are best installed.
#[must_use]
pub fn definitions() -> Vec<Definition> {
    vec![node_pool::definition(), node_claim::definition(), node_overlay::definition(), node_class::definition()]
}
