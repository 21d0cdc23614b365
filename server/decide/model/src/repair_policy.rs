//! When a Node is unhealthy enough to be repaired (Karpenter: node repair).

use crate::Millis;

/// Condition type, status and toleration of each repair policy (Karpenter's AWS provider: repair policies).
const POLICIES: [(&str, &str, Millis); 7] = [
    ("Ready", "False", Millis::from_mins(30)),
    ("Ready", "Unknown", Millis::from_mins(30)),
    ("AcceleratedHardwareReady", "False", Millis::from_mins(10)),
    ("StorageReady", "False", Millis::from_mins(30)),
    ("NetworkingReady", "False", Millis::from_mins(30)),
    ("KernelReady", "False", Millis::from_mins(30)),
    ("ContainerRuntimeReady", "False", Millis::from_mins(30)),
];

/// Repairs are blocked in a NodePool when more than so many percent of its Nodes, rounded up, are unhealthy
/// (Karpenter: node repair, circuit breaker).
pub const MAX_UNHEALTHY_PERCENT: usize = 20;

/// How long a Node may have the condition `kind` with this status; `None` if no policy matches it.
#[must_use]
pub fn toleration(kind: &str, status: &str) -> Option<Millis> {
    let matches = |(known, bad, _): &&(&str, &str, Millis)| *known == kind && *bad == status;
    POLICIES.iter().find(matches).map(|(_, _, toleration)| *toleration)
}

/// Whether `unhealthy` of `nodes` are too many for a repair.
#[must_use]
pub fn is_blocked(unhealthy: usize, nodes: usize) -> bool {
    unhealthy > (nodes * MAX_UNHEALTHY_PERCENT).div_ceil(100)
}
