//! A machine that is removed, and why.

use model::{ClaimName, NodeName, Text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub claim: ClaimName,
    pub node: NodeName,
    /// The reason, one sentence.
    pub reason: Text,
}
