//! Notices about instances: how they become rows, and what is counted of them.
//!
//! A notice is received by any replica, from the queue of the account and region (`receiver`) or by a poll of
//! instance status, and stored first. Each replica then reads it from the store (`replica::interruptions`).

#[cfg(feature = "ec2")]
pub(crate) mod receiver;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cloud::notice::Notice;
use model::Timestamp;
use model::interruption::InterruptionKind;
#[cfg(any(feature = "ec2", test))]
use store::clock;
use store::interruptions::InterruptionRow;

use metrics::Family;
use metrics::histogram::{Counter, Histogram};

/// What this process counts of notices.
pub(crate) static METRICS: LazyLock<InterruptionMetrics> = LazyLock::new(InterruptionMetrics::default);

const RECEIVED: &str = "karpenter_interruption_received_messages_total";
const AGE: &str = "karpenter_interruption_message_queue_duration_seconds";

/// Counts since the process started.
#[derive(Debug)]
pub(crate) struct InterruptionMetrics {
    /// Recorded notices of the queue, in the order of [`InterruptionKind::ALL`].
    recorded: [AtomicU64; InterruptionKind::ALL.len()],
    /// Time from the notice to its record.
    age: Histogram,
    pub(crate) ignored: Counter,
    pub(crate) refused: Counter,
    pub(crate) unknown: Counter,
    pub(crate) malformed: Counter,
    pub(crate) deleted: Counter,
}

impl Default for InterruptionMetrics {
    fn default() -> Self {
        Self {
            recorded: Default::default(),
            age: Histogram::default(),
            ignored: Counter::new(),
            refused: Counter::new(),
            unknown: Counter::new(),
            malformed: Counter::new(),
            deleted: Counter::new(),
        }
    }
}

impl InterruptionMetrics {
    /// Counts notices of the queue that were recorded at `now`.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn count_recorded<'n>(&self, notices: impl IntoIterator<Item = &'n Notice>, now: Timestamp) {
        for notice in notices {
            if let Some(place) = InterruptionKind::ALL.iter().position(|kind| *kind == notice.kind) {
                self.recorded[place].fetch_add(1, Ordering::Relaxed);
            }
            self.age.observe(clock::duration(now.duration_since(notice.sent)));
        }
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let mut recorded =
            Family::counter(RECEIVED, "Notices of the queue that were recorded, by kind.").labelled(&["message_type"]);
        for (kind, count) in InterruptionKind::ALL.iter().zip(&self.recorded) {
            recorded.push(vec![("message_type", kind.as_str().to_owned())], count.load(Ordering::Relaxed).into());
        }
        vec![
            recorded,
            self.ignored.family(
                "fleetwright_interruption_messages_ignored_total",
                "Messages of the queue from which nothing follows, such as a running instance.",
            ),
            self.refused.family(
                "fleetwright_interruption_messages_refused_total",
                "Messages of the queue that name another account or region, or are too old or of the future.",
            ),
            self.unknown.family(
                "fleetwright_interruption_messages_unknown_total",
                "Messages of the queue that are events of another kind.",
            ),
            self.malformed.family(
                "fleetwright_interruption_messages_malformed_total",
                "Messages of the queue that are no readable events.",
            ),
            self.deleted.family("karpenter_interruption_deleted_messages_total", "Messages deleted from the queue."),
            self.age.family(AGE, "Time from a notice of the cloud to its record in the store."),
        ]
    }
}

pub(crate) fn row(notice: &Notice) -> InterruptionRow {
    InterruptionRow {
        instance: notice.instance.to_string(),
        kind: notice.kind.as_str().to_owned(),
        sent_ms: notice.sent.as_millis(),
        ends_ms: notice.ends.map(Timestamp::as_millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_notices_are_counted_by_kind_with_the_time_since_they_were_sent() {
        let metrics = InterruptionMetrics::default();
        let notice = |kind| Notice { instance: "i-1".into(), kind, sent: Timestamp::from_millis(1_000), ends: None };
        let notices =
            [InterruptionKind::SpotInterrupted, InterruptionKind::SpotInterrupted, InterruptionKind::InstanceStopped];
        metrics.count_recorded(&notices.map(notice), Timestamp::from_millis(1_400));
        let text = metrics::series(metrics.families()).join("\n");
        for line in [
            "karpenter_interruption_received_messages_total{message_type=\"spot_interrupted\"} 2",
            "karpenter_interruption_received_messages_total{message_type=\"instance_stopped\"} 1",
            "karpenter_interruption_received_messages_total{message_type=\"scheduled_change\"} 0",
            // 400 ms each.
            "karpenter_interruption_message_queue_duration_seconds_bucket{le=\"0.4\"} 3",
            "karpenter_interruption_message_queue_duration_seconds_bucket{le=\"0.32\"} 0",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
