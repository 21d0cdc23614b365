//! What launches of this process showed lately, for estimates of launches to come: what became of them in each offering, and
//! how long their nodes took to be ready. Whoever estimates takes it; what nobody takes is dropped, the oldest first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{CapacityType, InstanceTypeName, Millis, RefusalCause, Timestamp};

use crate::unavailable_offerings::{Offering, OfferingOutcome};

/// Number of outcomes and of ready nodes that wait to be taken: more than a large burst of launches in some seconds.
const WAITING: usize = 20_000;

/// What became of a launch in one offering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchEvidence {
    pub offering: Offering,
    /// How many instances were asked for.
    pub asked: u32,
    /// How many of them were launched.
    pub launched: u32,
    /// Whether it says something about this account alone: a quota, for example.
    pub is_of_account: bool,
    /// When it was known.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyNode {
    pub instance_type: InstanceTypeName,
    pub capacity_type: CapacityType,
    /// Time from the creation of its NodeClaim to its initialization.
    pub took: Millis,
}

/// Evidence that was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct RecentEvidence {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    outcomes: VecDeque<LaunchEvidence>,
    ready: VecDeque<ReadyNode>,
}

impl RecentEvidence {
    /// Records what became of a launch.
    pub fn record_outcome(&self, outcome: &OfferingOutcome, now: Timestamp) {
        let OfferingOutcome { offering, asked, launched, refusal } = outcome;
        let is_of_account = refusal.as_ref().is_some_and(|(cause, _)| *cause == RefusalCause::Account);
        let evidence =
            LaunchEvidence { offering: offering.clone(), asked: *asked, launched: *launched, is_of_account, at: now };
        push(&mut self.lock().outcomes, evidence);
    }

    /// Records a node that became ready.
    pub fn record_ready(&self, node: ReadyNode) {
        push(&mut self.lock().ready, node);
    }

    /// The outcomes since the last call, in their order.
    pub fn take_outcomes(&self) -> Vec<LaunchEvidence> {
        std::mem::take(&mut self.lock().outcomes).into()
    }

    /// The nodes since the last call, in their order.
    pub fn take_ready(&self) -> Vec<ReadyNode> {
        std::mem::take(&mut self.lock().ready).into()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every critical section is one call, so a poisoned lock guards a consistent value.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(queue: &mut VecDeque<T>, value: T) {
    if queue.len() == WAITING {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_dropped_from_the_oldest_on() {
        let evidence = RecentEvidence::default();
        for seconds in 0..=20_000 {
            let took = Millis::from_secs(seconds);
            evidence.record_ready(ReadyNode {
                instance_type: "m5.large".into(),
                capacity_type: CapacityType::Spot,
                took,
            });
        }
        let taken = evidence.take_ready();
        assert_eq!((taken.len(), taken[0].took), (20_000, Millis::from_secs(1)));
        assert_eq!(evidence.take_ready(), []);
    }
}
