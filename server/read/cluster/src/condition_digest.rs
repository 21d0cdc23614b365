//! Digest of the conditions present in a NodeClaim's status. After a takeover it prevents rewriting
//! conditions that the previous owner wrote.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Conditions written by this server, without `Ready`, which follows from them. Others belong to
/// other writers.
const OURS: [&str; 9] = [
    CONSISTENT,
    "Consolidatable",
    "DisruptionReason",
    "Drained",
    DRIFTED,
    "Initialized",
    "InstanceTerminating",
    "Launched",
    "Registered",
];

/// Condition of an initialized machine whose Node has the promised resources.
pub const CONSISTENT: &str = "ConsistentStateFound";

/// Condition of a machine that does not match its NodePool or NodeClass any more.
pub const DRIFTED: &str = "Drifted";

/// Condition of an initialized machine that may be removed when empty.
pub const CONSOLIDATABLE: &str = "Consolidatable";

/// Condition of a machine whose Node is registered.
const REGISTERED: &str = "Registered";

/// Digest of conditions. Equal conditions in any order have equal digests; different ones collide
/// with negligible probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConditionDigest {
    sum: u64,
    consolidatable: bool,
    registered: bool,
}

impl ConditionDigest {
    /// Adds one condition, by its `type`, `status`, `reason` and `message`.
    #[must_use]
    pub fn with(self, kind: &str, status: &str, reason: &str, message: &str) -> Self {
        if !OURS.contains(&kind) {
            return self;
        }
        let mut hasher = FxHasher::default();
        for part in [kind, status, reason, message] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        let holds = kind == CONSOLIDATABLE && status == "True";
        let registered = kind == REGISTERED && status == "True";
        Self {
            sum: self.sum.wrapping_add(hasher.finish()),
            consolidatable: self.consolidatable || holds,
            registered: self.registered || registered,
        }
    }

    /// Whether the condition `Registered` is True.
    #[must_use]
    pub fn is_registered(self) -> bool {
        self.registered
    }

    /// Whether the condition `Consolidatable` is True.
    #[must_use]
    pub fn is_consolidatable(self) -> bool {
        self.consolidatable
    }
}
