//! Comparison of a status patch with the conditions that a NodeClaim already has.

use super::status::StatusPatch;
use cluster::ConditionDigest;

impl StatusPatch {
    /// Whether a NodeClaim with the conditions of `shown` already has the patch, regardless of the time of the last
    /// pod event.
    #[must_use]
    pub fn is_shown(&self, shown: ConditionDigest) -> bool {
        let all = self.conditions.iter().fold(ConditionDigest::default(), |digest, one| {
            digest.with(one.kind, one.status.as_str(), &one.reason, &one.message)
        });
        let Self { conditions: _, last_pod_event: _, usage, zones, node_class, annotations, .. } = self;
        let Self { remove_conditions, add_finalizer, remove_finalizer, .. } = self;
        let changes_status = usage.is_some() || zones.is_some() || node_class.is_some();
        let changes_more = changes_status || !annotations.is_empty() || !remove_conditions.is_empty();
        shown == all && !changes_more && add_finalizer.is_none() && remove_finalizer.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::status::{Condition, ConditionStatus, with_root};
    use cluster::condition_digest::CONSOLIDATABLE;

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
        let says = |conditions| patch(conditions).is_shown(launched);
        assert!(says(vec![Condition::met("Launched", 0), never("why")]));
        assert!(!says(vec![Condition::met("Launched", 0), never("another reason")]));
        assert!(!says(vec![Condition::met("Launched", 0)]));
        assert!(!says(vec![Condition::met("Launched", 0), never("why"), Condition::met("Registered", 0)]));
        assert!(!launched.is_consolidatable());
        // A finalizer is no condition, so the digest cannot match.
        let held = StatusPatch { add_finalizer: Some("f"), ..patch(vec![Condition::met("Launched", 0), never("why")]) };
        assert!(!held.is_shown(launched));
        // Neither is an annotation, nor what selectors found.
        let unchanged = || patch(vec![Condition::met("Launched", 0), never("why")]);
        assert!(unchanged().is_shown(launched));
        assert!(!StatusPatch { annotations: vec![("a".into(), "b".into())], ..unchanged() }.is_shown(launched));
        assert!(!StatusPatch { node_class: Some(Arc::default()), ..unchanged() }.is_shown(launched));
    }
}
