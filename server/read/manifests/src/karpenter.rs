//! Karpenter's objects: NodePool, NodeClaim, NodeOverlay (`karpenter.sh`) and EC2NodeClass
//! (`karpenter.k8s.aws`), v1.
//!
//! Every parser combines the checks of the API server and of Karpenter's controllers. What the
//! object's schema rejects is reported through the [`Cursor`](crate::Cursor). An object that the
//! API server accepts and Karpenter's own validation rejects is unusable, with the reason
//! ([`model::NotReady`]).
//!
//! Reading order: [`labels`] (restricted and well-known keys), [`requirements`] and [`taints`]
//! (parts of all objects), [`conditions`], then the objects: [`node_pool`] with [`disruption`] and
//! [`opt_in`] (annotations; those of disruption in `opt_in_disruption`), [`node_class`], [`node_claim`], [`node_overlay`].

pub mod conditions;
pub mod disruption;
pub mod duration;
pub mod labels;
pub mod node_claim;
pub mod node_class;
pub mod node_overlay;
pub mod node_pool;
pub mod opt_in;
mod opt_in_disruption;
pub mod requirements;
pub mod taints;

pub use labels::{is_restricted, well_known_labels};
pub use node_claim::NodeClaimManifest;
pub use node_class::NodeClassManifest;
pub use node_overlay::NodeOverlayManifest;
pub use node_pool::NodePoolManifest;
