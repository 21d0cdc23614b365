//! Notices about instances: how they become rows, and what is counted of them.
//!
//! A notice is received by any replica, from the queue of the account and region (`receiver`) or by a poll of
//! instance status, and stored first. Each replica then reads it from the store (`replica::interruptions`).

#[cfg(feature = "ec2")]
pub(crate) mod receiver;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cloud::notice::Notice;
use model::Timestamp;
use model::interruption::InterruptionKind;
#[cfg(any(feature = "ec2", test))]
use store::clock;
use store::interruptions::InterruptionRow;
use store::lease::Scope;

use crate::histogram::{Counter, Histogram};
use crate::metrics::{Family, scope_labels};

/// What this process counts of notices.
pub(crate) static METRICS: LazyLock<InterruptionMetrics> = LazyLock::new(InterruptionMetrics::default);

const RECEIVED: &str = "karpenter_interruption_received_messages_total";
const AGE: &str = "karpenter_interruption_message_queue_duration_seconds";
const AVAILABLE: &str = "fleetwright_interruption_queue_available";

/// Counts since the process started.
#[derive(Debug)]
pub(crate) struct InterruptionMetrics {
    /// Recorded notices of the queue, in the order of [`InterruptionKind::ALL`].
    recorded: [AtomicU64; InterruptionKind::ALL.len()],
    /// Time from the notice to its record.
    age: Histogram,
    pub(crate) ignored: Counter,
    pub(crate) unknown: Counter,
    pub(crate) malformed: Counter,
    pub(crate) deleted: Counter,
    /// Whether the queue of each account and region answers.
    queues: Mutex<BTreeMap<Scope, bool>>,
}

impl Default for InterruptionMetrics {
    fn default() -> Self {
        Self {
            recorded: Default::default(),
            age: Histogram::default(),
            ignored: Counter::new(),
            unknown: Counter::new(),
            malformed: Counter::new(),
            deleted: Counter::new(),
            queues: Mutex::default(),
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

    /// Notes whether the queue of an account and region answers.
    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn set_available(&self, scope: &Scope, is_available: bool) {
        self.queues().insert(scope.clone(), is_available);
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<Scope, bool>> {
        // Every critical section is one map operation or reads, so a poisoned lock guards a consistent map.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metrics.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mut recorded =
            Family::counter(RECEIVED, "Notices of the queue that were recorded, by kind.").labelled(&["message_type"]);
        for (kind, count) in InterruptionKind::ALL.iter().zip(&self.recorded) {
            recorded.push(vec![("message_type", kind.as_str().to_owned())], count.load(Ordering::Relaxed).into());
        }
        let mut queues =
            Family::gauge(AVAILABLE, "Whether the queue of notices of the account and region answers this server.")
                .labelled(&["account", "region"]);
        for (scope, is_available) in &*self.queues() {
            queues.push(scope_labels(scope), (*is_available).into());
        }
        vec![
            recorded,
            self.ignored.family(
                "fleetwright_interruption_messages_ignored_total",
                "Messages of the queue from which nothing follows, such as a running instance.",
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
            queues,
        ]
    }
}

/// The row of a notice.
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
        let text = crate::metrics::series(metrics.families()).join("\n");
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
        assert!(!text.contains(AVAILABLE), "there is no queue");
    }

    #[test]
    fn the_queue_of_each_account_and_region_has_its_own_line() {
        let metrics = InterruptionMetrics::default();
        let scope = |account: &str| Scope::Region { account: account.to_owned(), region: "eu-west-1".to_owned() };
        for (account, is_available) in [("1", true), ("2", true), ("1", false)] {
            metrics.set_available(&scope(account), is_available);
        }
        let text = crate::metrics::encode(metrics.families(), crate::metrics::Format::Prometheus);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(AVAILABLE)).collect();
        let expected = [
            "fleetwright_interruption_queue_available{account=\"1\",region=\"eu-west-1\"} 0",
            "fleetwright_interruption_queue_available{account=\"2\",region=\"eu-west-1\"} 1",
        ];
        assert_eq!(lines, expected);
        assert_eq!(text.matches(&format!("# TYPE {AVAILABLE} gauge")).count(), 1);
    }
}
