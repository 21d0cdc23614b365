//! The event recorder: which Kubernetes Events are recorded.
//!
//! Of one series about an object, one Event is recorded in an interval. A cluster gets at most ten Events at once and five a
//! second after that, so that a burst of pods does not overload its API server (Karpenter: event rates). One reason gets at
//! most half of that, and Events that state what is ([`EventReason::is_standing`]) use the burst up to half only: pods that
//! are planned, and nodes that stay, do not crowd out what happens to machines. Events above the rates are dropped; the
//! decision log contains the decisions.

use std::collections::BTreeMap;

use crate::EventReason;
use crate::status::{EventOrder, ObjectRef};
use model::{Millis, Text, Timestamp};

/// Interval of a series without another rule (Karpenter: events).
const USUAL_INTERVAL: Millis = Millis::from_mins(2);
/// Events that may be recorded at once.
const BURST: i64 = 10;
/// Events of one reason that may be recorded at once, and Events that leave the other half to those that happen once.
const HALF_BURST: i64 = BURST / 2;
const EVENT_INTERVAL: Millis = Millis::new(200);
/// Sustained interval between two Events of one reason.
const REASON_INTERVAL: Millis = Millis::new(400);

/// Deduplicates Events and limits their rate.
#[derive(Debug, Default)]
pub(super) struct EventRecorder {
    /// The end of the interval of each series.
    recent: BTreeMap<(ObjectRef, EventReason, Text), Timestamp>,
    /// When the full burst is available again.
    burst_restored_at: Timestamp,
    of_reasons: BTreeMap<EventReason, Timestamp>,
    /// When series that have ended were dropped.
    cleaned_at: Timestamp,
}

impl EventRecorder {
    /// Whether the Event may be recorded now; if so, it counts against the rate.
    pub(super) fn allow(&mut self, event: &EventOrder, now: Timestamp) -> bool {
        self.drop_ended(now);
        let key = (event.subject.clone(), event.reason, event.series.clone());
        if self.recent.contains_key(&key) {
            return false;
        }
        let burst = if event.reason.is_standing() { HALF_BURST } else { BURST };
        let of_reason = self.of_reasons.get(&event.reason).copied().unwrap_or_default();
        let all = restored_at(self.burst_restored_at, burst, EVENT_INTERVAL, now);
        let one = restored_at(of_reason, HALF_BURST, REASON_INTERVAL, now);
        let (Some(all), Some(one)) = (all, one) else { return false };
        self.burst_restored_at = all;
        self.of_reasons.insert(event.reason, one);
        self.recent.insert(key, now + interval(event.reason, &event.subject));
        true
    }

    fn drop_ended(&mut self, now: Timestamp) {
        if self.cleaned_at != now {
            self.cleaned_at = now;
            self.recent.retain(|_, until| *until > now);
            self.of_reasons.retain(|_, restored_at| *restored_at > now);
        }
    }
}

/// When the burst is restored after one more Event; `None` if there is none left.
fn restored_at(restored_at: Timestamp, burst: i64, interval: Millis, now: Timestamp) -> Option<Timestamp> {
    let next = restored_at.max(now) + interval;
    (next <= now + interval * burst).then_some(next)
}

/// Minimum time between two Events of one series (Karpenter: events).
pub(super) fn interval(reason: EventReason, subject: &ObjectRef) -> Millis {
    match (reason, subject) {
        (EventReason::NoCompatibleInstanceTypes, _) | (EventReason::DisruptionBlocked, ObjectRef::Pool(_)) => {
            Millis::from_mins(1)
        }
        (EventReason::FailedScheduling, _) => Millis::from_mins(5),
        (EventReason::Unconsolidatable | EventReason::NodeRepairBlocked, _) => Millis::from_mins(15),
        _ => USUAL_INTERVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: EventReason, name: &str, message: &str, series: &str) -> EventOrder {
        let (subject, message) = (ObjectRef::Node(name.into()), Text::from(message));
        EventOrder { subject, uid: Text::default(), reason, message, series: Text::from(series) }
    }

    #[test]
    fn one_event_of_a_series_is_recorded_in_two_minutes_and_another_series_at_once() {
        let mut recorder = EventRecorder::default();
        let mut may = |series: &str, at: i64| {
            recorder.allow(&event(EventReason::FailedDraining, "n", "m", series), Timestamp::from_millis(at))
        };
        assert_eq!([may("a", 0), may("a", 119_999), may("b", 119_999), may("a", 120_000)], [true, false, true, true]);
    }

    #[test]
    fn a_message_with_another_number_is_no_other_event() {
        let mut recorder = EventRecorder::default();
        let mut may = |message: &str, at: i64| {
            recorder.allow(&event(EventReason::FailedScheduling, "n", message, "a"), Timestamp::from_millis(at))
        };
        assert_eq!(
            [may("(decision 1)", 0), may("(decision 2)", 299_999), may("(decision 3)", 300_000)],
            [true, false, true]
        );
    }

    #[test]
    fn intervals_are_those_of_karpenter() {
        let minutes = |reason, subject: &ObjectRef| interval(reason, subject).as_mins();
        let (pool, node) = (ObjectRef::Pool("p".into()), ObjectRef::Node("n".into()));
        assert_eq!(minutes(EventReason::NoCompatibleInstanceTypes, &pool), 1);
        assert_eq!(
            [&pool, &node].map(|subject| minutes(EventReason::DisruptionBlocked, subject)),
            [1, 2],
            "the NodePool's is repeated earlier"
        );
        assert_eq!(minutes(EventReason::FailedScheduling, &node), 5);
        assert_eq!(minutes(EventReason::Unconsolidatable, &node), 15);
        assert_eq!(minutes(EventReason::NodeRepairBlocked, &node), 15);
    }

    /// How many of 100 Events of `reason` about objects from number `from` on are recorded.
    fn recorded(recorder: &mut EventRecorder, reason: EventReason, from: usize, at: i64) -> usize {
        let allowed =
            |name: &usize| recorder.allow(&event(reason, &name.to_string(), "m", "s"), Timestamp::from_millis(at));
        (from..from + 100).filter(allowed).count()
    }

    #[test]
    fn ten_events_at_once_and_then_one_every_fifth_of_a_second() {
        let mut recorder = EventRecorder::default();
        let mut many = |from: usize, at: i64| {
            recorded(&mut recorder, EventReason::Nominated, from, at)
                + recorded(&mut recorder, EventReason::FailedDraining, from, at)
        };
        // Two reasons share the burst. One more of any is restored after 200 ms, one of the same reason after 400 ms: at
        // 400 ms two of any, and one of each; 1,000 ms later five of any, and two of each.
        assert_eq!([many(0, 0), many(100, 199), many(200, 400), many(300, 1_400)], [10, 0, 2, 4]);
    }

    #[test]
    fn one_reason_gets_half_and_then_one_every_two_fifths_of_a_second() {
        let mut recorder = EventRecorder::default();
        let mut many = |from: usize, at: i64| recorded(&mut recorder, EventReason::Nominated, from, at);
        assert_eq!([many(0, 0), many(100, 399), many(200, 400), many(300, 2_400)], [5, 0, 1, 5]);
        assert_eq!(recorded(&mut recorder, EventReason::Launched, 0, 2_400), 5, "the other half");
    }

    #[test]
    fn block_events_do_not_exhaust_the_event_budget() {
        let mut recorder = EventRecorder::default();
        let standing = [EventReason::Unconsolidatable, EventReason::DisruptionBlocked, EventReason::Condition("Ready")];
        let count: usize = standing.into_iter().map(|reason| recorded(&mut recorder, reason, 0, 0)).sum();
        assert_eq!(count, 5, "three reasons share half of the burst");
        assert_eq!(recorded(&mut recorder, EventReason::Launched, 0, 0), 5);
        assert_eq!(recorded(&mut recorder, EventReason::Unconsolidatable, 100, 1_000), 0);
    }
}
