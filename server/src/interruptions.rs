//! Notices about instances: how they become rows, and what is counted of them.
//!
//! A notice is received by any replica, from the queue of the account and region (`receiver`) or by a poll of
//! instance status, and stored first. Each replica then reads it from the store (`replica::interruptions`).

#[cfg(feature = "ec2")]
pub(crate) mod receiver;

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cloud::notice::Notice;
use model::Timestamp;
use model::interruption::InterruptionKind;
#[cfg(any(feature = "ec2", test))]
use store::clock;
use store::interruptions::InterruptionRow;

use crate::histogram::{Counter, Histogram};

/// What this process counts of notices.
pub(crate) static METRICS: LazyLock<InterruptionMetrics> = LazyLock::new(InterruptionMetrics::default);

const RECEIVED: &str = "fleetwright_interruption_notices_total";
const AGE: &str = "fleetwright_interruption_record_seconds";
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
    /// 0 without a queue, 1 while it fails, 2 while it answers.
    queue: AtomicU64,
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
            queue: AtomicU64::new(0),
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

    /// Notes whether the queue answers.
    #[cfg(feature = "ec2")]
    pub(crate) fn set_available(&self, is_available: bool) {
        self.queue.store(1 + u64::from(is_available), Ordering::Relaxed);
    }

    /// Renders the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let mut text =
            format!("# HELP {RECEIVED} Notices of the queue that were recorded, by kind.\n# TYPE {RECEIVED} counter\n");
        for (kind, count) in InterruptionKind::ALL.iter().zip(&self.recorded) {
            let count = count.load(Ordering::Relaxed);
            // Writing to a String cannot fail.
            let _always = writeln!(text, "{RECEIVED}{{kind=\"{}\"}} {count}", kind.as_str());
        }
        for (counter, name, help) in [
            (&self.ignored, "ignored", "Messages of the queue from which nothing follows, such as a running instance."),
            (&self.unknown, "unknown", "Messages of the queue that are events of another kind."),
            (&self.malformed, "malformed", "Messages of the queue that are no readable events."),
            (&self.deleted, "deleted", "Messages deleted from the queue."),
        ] {
            text.push_str(&counter.render(&format!("fleetwright_interruption_messages_{name}_total"), help));
        }
        text.push_str(&self.age.render(AGE, "Time from a notice of the cloud to its record in the store."));
        let queue = self.queue.load(Ordering::Relaxed);
        if queue > 0 {
            let help = "Whether the queue of interruption.queue answers this server.";
            let _always =
                writeln!(text, "# HELP {AVAILABLE} {help}\n# TYPE {AVAILABLE} gauge\n{AVAILABLE} {}", queue - 1);
        }
        text
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
        let text = metrics.render();
        for line in [
            "fleetwright_interruption_notices_total{kind=\"spot_interrupted\"} 2",
            "fleetwright_interruption_notices_total{kind=\"instance_stopped\"} 1",
            "fleetwright_interruption_notices_total{kind=\"scheduled_change\"} 0",
            // 400 ms each.
            "fleetwright_interruption_record_seconds_bucket{le=\"0.4\"} 3",
            "fleetwright_interruption_record_seconds_bucket{le=\"0.32\"} 0",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(!text.contains(AVAILABLE), "there is no queue");
    }
}
