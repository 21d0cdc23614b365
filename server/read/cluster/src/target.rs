//! What a pod is assigned to: a NodeClaim from its creation on, or a Node that has none.

use model::{ClaimName, NodeName, Text};

/// Target of an assignment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The machine of this NodeClaim, with or without Node.
    Claim(ClaimName),
    Node(NodeName),
}

impl Target {
    /// The NodeClaim, if the target is one.
    #[must_use]
    pub fn claim(&self) -> Option<&ClaimName> {
        match self {
            Self::Claim(claim) => Some(claim),
            Self::Node(_) => None,
        }
    }

    /// Name of the NodeClaim or Node.
    #[must_use]
    pub fn name(&self) -> &Text {
        match self {
            Self::Claim(claim) => claim.as_text(),
            Self::Node(node) => node.as_text(),
        }
    }
}
