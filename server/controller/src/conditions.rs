//! Comparison of a status patch with the conditions that a NodeClaim already has.

use super::status::StatusPatch;
use crate::cluster::ConditionDigest;

impl ConditionDigest {
    /// Whether the NodeClaim already has `patch`, regardless of the time of the last pod event.
    #[must_use]
    pub fn matches(self, patch: &StatusPatch) -> bool {
        let all = patch
            .conditions
            .iter()
            .fold(Self::default(), |digest, one| digest.with(one.kind, one.status.as_str(), &one.reason, &one.message));
        let StatusPatch { conditions: _, last_pod_event: _, usage, zones, node_class, annotations, .. } = patch;
        let StatusPatch { remove_conditions, add_finalizer, remove_finalizer, .. } = patch;
        let changes_status = usage.is_some() || zones.is_some() || node_class.is_some();
        let changes_more = changes_status || !annotations.is_empty() || !remove_conditions.is_empty();
        self == all && !changes_more && add_finalizer.is_none() && remove_finalizer.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::condition_digest::CONSOLIDATABLE;
    use crate::status::{Condition, ConditionStatus, with_root};

    fn patch(conditions: Vec<Condition>) -> StatusPatch {
        StatusPatch { conditions: with_root(conditions, &["Launched"], 0), ..StatusPatch::default() }
    }

    #[test]
    fn a_digest_matches_in_any_order_and_ignores_conditions_of_other_writers() {
        let launched = ConditionDigest::default()
            .with("NodeProblem", "True", "Somebody", "says so")
            .with("Consolidatable", "False", "Never", "why")
            .with("Ready", "True", "Ready", "")
            .with("Launched", "True", "Launched", "");
        let never = |message: &str| Condition::unmet(CONSOLIDATABLE, ConditionStatus::False, "Never", message, 0);
        let says = |conditions| launched.matches(&patch(conditions));
        assert!(says(vec![Condition::met("Launched", 0), never("why")]));
        assert!(!says(vec![Condition::met("Launched", 0), never("another reason")]));
        assert!(!says(vec![Condition::met("Launched", 0)]));
        assert!(!says(vec![Condition::met("Launched", 0), never("why"), Condition::met("Registered", 0)]));
        assert!(!launched.is_consolidatable());
        // A finalizer is no condition, so the digest cannot match.
        let held = StatusPatch { add_finalizer: Some("f"), ..patch(vec![Condition::met("Launched", 0), never("why")]) };
        assert!(!launched.matches(&held));
        // Neither is an annotation, nor what selectors found.
        let unchanged = || patch(vec![Condition::met("Launched", 0), never("why")]);
        assert!(launched.matches(&unchanged()));
        assert!(!launched.matches(&StatusPatch { annotations: vec![("a".into(), "b".into())], ..unchanged() }));
        assert!(!launched.matches(&StatusPatch { node_class: Some(Arc::default()), ..unchanged() }));
    }
}
