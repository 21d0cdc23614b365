//! What stands in the status of a NodeClaim already. A process that takes a cluster over has said nothing yet, and what its
//! predecessor has said of a hundred machines stands there: it is not said again.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::status::{Content, Verdict};

/// Conditions that are ours to write, but `Ready`, which follows from the others. What else stands there is somebody else's.
const OURS: [&str; 7] =
    ["Consolidatable", "DisruptionReason", "Drained", "Initialized", "InstanceTerminating", "Launched", "Registered"];

/// The condition of a machine in service whose NodePool would let it go if it were empty.
pub const CONSOLIDATABLE: &str = "Consolidatable";

/// The conditions of a NodeClaim in short. Two that say the same are equal, in whichever order they say it; two that do not are
/// all but certainly not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Of the hashes of the conditions.
    sum: u64,
    consolidatable: bool,
}

impl Standing {
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
        let holds = kind == CONSOLIDATABLE && status == Verdict::True.as_str();
        Self { sum: self.sum.wrapping_add(hasher.finish()), consolidatable: self.consolidatable || holds }
    }

    /// Whether `content` is what stands there.
    #[must_use]
    pub fn says(self, content: &Content) -> bool {
        let all = content.conditions.iter().fold(Self::default(), |standing, one| {
            standing.with(one.kind, one.verdict.as_str(), &one.reason, &one.message)
        });
        let Content { usage, zones, conditions: _, hold, release } = content;
        self == all && usage.is_none() && zones.is_none() && hold.is_none() && release.is_none()
    }

    /// Whether the machine is said to be one that may go when it is empty.
    #[must_use]
    pub fn is_consolidatable(self) -> bool {
        self.consolidatable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::status::{Condition, with_root};

    fn content(conditions: Vec<Condition>) -> Content {
        Content { conditions: with_root(conditions, &["Launched"], 0), ..Content::default() }
    }

    #[test]
    fn what_stands_there_is_known_again_in_any_order_and_beside_the_conditions_of_others() {
        let launched = Standing::default()
            .with("NodeProblem", "True", "Somebody", "says so")
            .with("Consolidatable", "False", "Never", "why")
            .with("Ready", "True", "Ready", "")
            .with("Launched", "True", "Launched", "");
        let never = |message: &str| Condition::lacks(CONSOLIDATABLE, Verdict::False, "Never", message, 0);
        let says = |conditions| launched.says(&content(conditions));
        assert!(says(vec![Condition::holds("Launched", 0), never("why")]));
        assert!(!says(vec![Condition::holds("Launched", 0), never("another reason")]));
        assert!(!says(vec![Condition::holds("Launched", 0)]));
        assert!(!says(vec![Condition::holds("Launched", 0), never("why"), Condition::holds("Registered", 0)]));
        assert!(!launched.is_consolidatable());
        // A finalizer is no condition.
        let held = Content { hold: Some("f"), ..content(vec![Condition::holds("Launched", 0), never("why")]) };
        assert!(!launched.says(&held));
    }
}
