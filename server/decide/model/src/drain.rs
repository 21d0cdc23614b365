//! Drains, as the Nodes that are drained show them.

use super::{ClaimName, Taint, Text, Timestamp};

/// Taint of a Node that is being removed, with the effect `NoSchedule`. Karpenter sets it on candidates of its own
/// commands too, and anybody may set it by hand: it keeps pods away, and proves no drain of this program.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Annotation of a Node that this program drains: the terms of the drain, as JSON. The agent writes it with the taint.
pub const DRAIN: &str = "fleetwright.dev/drain";

/// The drain in the annotation [`DRAIN`] of a Node. It is a drain of the Node's NodeClaim if it names that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedDrain {
    /// NodeClaim that was to be removed.
    pub claim: ClaimName,
    /// When pods are deleted regardless of budgets; `None` without a deadline.
    pub deadline: Option<Timestamp>,
    /// Why it is removed, with the decision. Anyone who may write the Node may write it: it is repeated, and nothing
    /// follows from it.
    pub reason: Text,
}

/// Whether one of `taints` is [`DISRUPTED`].
#[must_use]
pub fn is_disrupted(taints: &[Taint]) -> bool {
    taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED)
}
