//! Decisions of one cluster, from the record to their execution, and the last ones for the view.
//!
//! Decisions to launch and decisions to remove are queued alike, because one decision may do both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::{Decision, DecisionId};
use model::ClaimName;

/// Number of recent decisions kept for the view.
const RECENT_DECISIONS: usize = 20;

/// Decisions that are not durable yet, and recent decisions.
#[derive(Debug, Default)]
pub(crate) struct DecisionQueue {
    unrecorded: BTreeMap<DecisionId, Arc<Decision>>,
    /// Latest first.
    recent: VecDeque<Arc<Decision>>,
}

impl DecisionQueue {
    /// Adds a decision, which waits to be durable.
    pub fn push(&mut self, decision: Decision) {
        let decision = Arc::new(decision);
        self.recent.push_front(Arc::clone(&decision));
        self.recent.truncate(RECENT_DECISIONS);
        self.unrecorded.insert(decision.id, decision);
    }

    /// Removes and returns a decision that is durable now. `None` if this controller did not make
    /// it, or it was executed already.
    pub fn take_recorded(&mut self, id: DecisionId) -> Option<Arc<Decision>> {
        self.unrecorded.remove(&id)
    }

    /// NodeClaims whose removal is decided and not durable.
    pub fn claims_being_removed(&self) -> BTreeSet<ClaimName> {
        let decided = self.unrecorded.values().flat_map(|decision| &decision.removals);
        decided.map(|removal| removal.claim.clone()).collect()
    }

    /// NodeClaims whose replacements are recorded by decisions that are not durable.
    pub fn replacements_in_writing(&self) -> BTreeSet<ClaimName> {
        let written = self.unrecorded.values().flat_map(|decision| &decision.replacements);
        written.map(|one| one.claim.clone()).collect()
    }

    /// Number of removals that are decided and not durable.
    pub fn removals(&self) -> usize {
        self.unrecorded.values().map(|decision| decision.removals.len()).sum()
    }

    /// The last decisions, latest first.
    pub fn recent(&self) -> impl Iterator<Item = &Arc<Decision>> {
        self.recent.iter()
    }

    pub fn last_id(&self) -> Option<DecisionId> {
        self.recent.front().map(|decision| decision.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecisionReason, Removal};
    use cluster::testing::text;
    use model::Timestamp;
    use model::removal::RemovalReason;

    fn removing(id: u64, claims: &[&str]) -> Decision {
        let removals = claims.iter().map(|claim| Removal { claim: text(claim), node: text("n"), reason: text("") });
        let reason = DecisionReason::Disruption(RemovalReason::Empty);
        let decision = Decision::new(DecisionId(id), text("c"), reason, 0, Timestamp::default());
        Decision { removals: removals.collect(), ..decision }
    }

    #[test]
    fn a_decision_is_executed_once_when_it_is_durable() {
        let mut queue = DecisionQueue::default();
        queue.push(removing(1, &["a", "b"]));
        queue.push(removing(2, &["c"]));
        assert_eq!((queue.removals(), queue.claims_being_removed().len()), (3, 3));
        assert_eq!(queue.take_recorded(DecisionId(1)).map(|decision| decision.id), Some(DecisionId(1)));
        assert_eq!(queue.take_recorded(DecisionId(1)), None);
        assert_eq!(queue.claims_being_removed(), BTreeSet::from([text("c")]));
    }

    #[test]
    fn the_last_decisions_are_kept_whether_they_are_durable_or_not() {
        let mut queue = DecisionQueue::default();
        for id in 0..30 {
            queue.push(removing(id, &[]));
            queue.take_recorded(DecisionId(id));
        }
        let recent: Vec<u64> = queue.recent().map(|decision| decision.id.0).collect();
        assert_eq!(recent, (10..30).rev().collect::<Vec<u64>>());
        assert_eq!(queue.last_id(), Some(DecisionId(29)));
    }
}
