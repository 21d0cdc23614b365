//! A machine that is removed, and why.

use model::{ClaimName, NodeName, Text};

/// A machine to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Name of the NodeClaim.
    pub claim: ClaimName,
    pub node: NodeName,
    /// The reason, one sentence.
    pub reason: Text,
}
