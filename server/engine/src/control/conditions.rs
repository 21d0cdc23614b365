//! Whether what would be said of a NodeClaim stands in its status already.

use super::status::StatusPatch;
use crate::cluster::ConditionDigest;

impl ConditionDigest {
    /// Whether `content`, the moment of the last pod event apart, is what stands there.
    #[must_use]
    pub fn says(self, content: &StatusPatch) -> bool {
        let all = content.conditions.iter().fold(Self::default(), |standing, one| {
            standing.with(one.kind, one.verdict.as_str(), &one.reason, &one.message)
        });
        let StatusPatch { usage, zones, last_pod_event: _, conditions: _, hold, release } = content;
        self == all && usage.is_none() && zones.is_none() && hold.is_none() && release.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::condition_digest::CONSOLIDATABLE;
    use crate::control::status::{Condition, ConditionStatus, with_root};

    fn content(conditions: Vec<Condition>) -> StatusPatch {
        StatusPatch { conditions: with_root(conditions, &["Launched"], 0), ..StatusPatch::default() }
    }

    #[test]
    fn what_stands_there_is_known_again_in_any_order_and_beside_the_conditions_of_others() {
        let launched = ConditionDigest::default()
            .with("NodeProblem", "True", "Somebody", "says so")
            .with("Consolidatable", "False", "Never", "why")
            .with("Ready", "True", "Ready", "")
            .with("Launched", "True", "Launched", "");
        let never = |message: &str| Condition::lacks(CONSOLIDATABLE, ConditionStatus::False, "Never", message, 0);
        let says = |conditions| launched.says(&content(conditions));
        assert!(says(vec![Condition::holds("Launched", 0), never("why")]));
        assert!(!says(vec![Condition::holds("Launched", 0), never("another reason")]));
        assert!(!says(vec![Condition::holds("Launched", 0)]));
        assert!(!says(vec![Condition::holds("Launched", 0), never("why"), Condition::holds("Registered", 0)]));
        assert!(!launched.is_consolidatable());
        // A finalizer is no condition.
        let held = StatusPatch { hold: Some("f"), ..content(vec![Condition::holds("Launched", 0), never("why")]) };
        assert!(!launched.says(&held));
    }
}
