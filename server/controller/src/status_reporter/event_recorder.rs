//! The event recorder: which Kubernetes Events are recorded.
//!
//! The same Event is recorded at most once in two minutes (five for pods without a place). A
//! cluster gets at most ten Events at once and five a second after that, so that a burst of pods
//! does not overload its API server (Karpenter: event rates). Events above the rate are dropped;
//! the decision log contains the decisions.

use std::collections::BTreeMap;

use crate::status::{EventOrder, ObjectRef};
use model::{Millis, Text, Timestamp};

const REPEAT_INTERVAL: Millis = Millis::from_mins(2);
const UNPLACED_REPEAT_INTERVAL: Millis = Millis::from_mins(5);
/// Events that may be recorded at once.
const BURST: i64 = 10;
/// Sustained interval between two Events.
const EVENT_INTERVAL: Millis = Millis::new(200);

/// Deduplicates Events and limits their rate.
#[derive(Debug, Default)]
pub(super) struct EventRecorder {
    recent: BTreeMap<(ObjectRef, &'static str, Text), Timestamp>,
    /// When the full burst is available again.
    burst_restored_at: Timestamp,
}

impl EventRecorder {
    /// Whether the Event may be recorded now; if so, it counts against the rate.
    pub(super) fn allow(&mut self, event: &EventOrder, now: Timestamp) -> bool {
        self.recent.retain(|_, until| *until > now);
        let key = (event.subject.clone(), event.reason, event.message.clone());
        let base = self.burst_restored_at.max(now);
        if self.recent.contains_key(&key) || base + EVENT_INTERVAL > now + EVENT_INTERVAL * BURST {
            return false;
        }
        self.burst_restored_at = base + EVENT_INTERVAL;
        let repeat = if event.reason == "FailedScheduling" { UNPLACED_REPEAT_INTERVAL } else { REPEAT_INTERVAL };
        self.recent.insert(key, now + repeat);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, message: &str) -> EventOrder {
        let (subject, message) = (ObjectRef::Node(name.into()), Text::from(message));
        EventOrder { subject, uid: Text::default(), warning: false, reason: "FailedDraining", message }
    }

    #[test]
    fn the_same_event_is_recorded_once_in_two_minutes_and_another_at_once() {
        let mut recorder = EventRecorder::default();
        let mut may = |message: &str, at: i64| recorder.allow(&event("n", message), Timestamp::from_millis(at));
        assert_eq!([may("a", 0), may("a", 119_999), may("b", 119_999), may("a", 120_000)], [true, false, true, true]);
    }

    #[test]
    fn ten_events_at_once_and_then_one_every_fifth_of_a_second() {
        let mut recorder = EventRecorder::default();
        let mut many = |from: usize, at: i64| {
            (from..from + 100)
                .filter(|name| recorder.allow(&event(&name.to_string(), "m"), Timestamp::from_millis(at)))
                .count()
        };
        assert_eq!([many(0, 0), many(100, 199), many(200, 200), many(300, 1_200)], [10, 0, 1, 5]);
    }
}
