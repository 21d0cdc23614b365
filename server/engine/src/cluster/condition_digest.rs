//! What stands in the status of a NodeClaim already. A process that takes a cluster over has said nothing yet, and what its
//! predecessor has said of a hundred machines stands there: it is not said again.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Conditions that are ours to write, but `Ready`, which follows from the others. What else stands there is somebody else's.
const OURS: [&str; 7] =
    ["Consolidatable", "DisruptionReason", "Drained", "Initialized", "InstanceTerminating", "Launched", "Registered"];

/// The condition of a machine in service whose NodePool would let it go if it were empty.
pub const CONSOLIDATABLE: &str = "Consolidatable";

/// The condition of a machine whose Node has joined.
const REGISTERED: &str = "Registered";

/// The conditions of a NodeClaim in short. Two that say the same are equal, in whichever order they say it; two that do not are
/// all but certainly not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConditionDigest {
    /// Of the hashes of the conditions.
    sum: u64,
    consolidatable: bool,
    registered: bool,
}

impl ConditionDigest {
    /// With one condition more, as Kubernetes writes its `type`, `status`, `reason` and `message`.
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

    /// Whether its Node is said to have joined.
    #[must_use]
    pub fn is_registered(self) -> bool {
        self.registered
    }

    /// Whether the machine is said to be one that may go when it is empty.
    #[must_use]
    pub fn is_consolidatable(self) -> bool {
        self.consolidatable
    }
}
