//! Notices from the status of instances: failed status checks, and scheduled events (Karpenter's AWS provider: instance
//! status). EventBridge reports no failed check, and an account may have no rules.
//!
//! EC2 reports a status for as long as it lasts. A notice is repeated once in [`REPEAT`], so that a cluster without an
//! owner meanwhile is not missed; in between it is the same notice, which the store keeps once.

use std::collections::BTreeSet;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{EventCode, InstanceStatus, InstanceStatusSummary, StatusType};
use cloud::notice::Notice;
use model::interruption::InterruptionKind;
use model::{Millis, Text, Timestamp};

/// How long a check fails before it counts.
const IMPAIRED_FOR: Millis = Millis::from_secs(120);

/// Interval between notices of a status that lasts.
const REPEAT: Millis = Millis::from_mins(10);

/// Scheduled events that end or stop the instance.
const EVENTS: [EventCode; 5] = [
    EventCode::InstanceReboot,
    EventCode::SystemReboot,
    EventCode::SystemMaintenance,
    EventCode::InstanceRetirement,
    EventCode::InstanceStop,
];

/// How descriptions of events begin that are over; EC2 shows them for a week.
const OVER: [&str; 2] = ["[Completed]", "[Canceled]"];

/// Name and values of the filters, one for each call, that find all instances with a status of interest. Filters of one call are
/// ANDed.
pub(crate) fn queries() -> [(&'static str, Vec<&'static str>); 3] {
    [
        ("instance-status.status", vec!["impaired"]),
        ("system-status.status", vec!["impaired"]),
        ("event.code", EVENTS.iter().map(EventCode::as_str).collect()),
    ]
}

/// The notices of these statuses at `now`, each once. An instance may be in the answers to several calls.
pub(crate) fn notices(statuses: &[InstanceStatus], now: Timestamp) -> Vec<Notice> {
    let found: BTreeSet<Notice> = statuses.iter().flat_map(|status| of_instance(status, now)).collect();
    found.into_iter().collect()
}

fn of_instance(status: &InstanceStatus, now: Timestamp) -> Vec<Notice> {
    let Some(id) = status.instance_id() else { return Vec::new() };
    let notice = |kind, since, ends| Notice { instance: Text::from(id), kind, sent: repeated(since, now), ends };
    let checks = [status.instance_status(), status.system_status()].into_iter().flatten();
    // The longest failure, so that two failed checks are one notice.
    let failed = checks.filter_map(|check| failing_since(check, now)).min();
    let failed = failed.map(|since| notice(InterruptionKind::StatusCheckFailed, since, None));
    let events = status.events().iter().filter(|event| {
        let is_over = OVER.iter().any(|over| event.description().is_some_and(|text| text.starts_with(over)));
        !is_over && event.code().is_some_and(|code| EVENTS.contains(code))
    });
    // Without a time, the event may happen at once.
    let first = events.map(|event| event.not_before().and_then(timestamp)).min();
    let scheduled = first.map(|at| notice(InterruptionKind::ScheduledChange, Timestamp::from_millis(0), at));
    failed.into_iter().chain(scheduled).collect()
}

/// Since when a check of the summary fails, if that is long enough.
fn failing_since(summary: &InstanceStatusSummary, now: Timestamp) -> Option<Timestamp> {
    let failed = summary.details().iter().filter(|detail| detail.status() == Some(&StatusType::Failed));
    let since = failed.filter_map(|detail| detail.impaired_since().and_then(timestamp)).min()?;
    (now.duration_since(since) >= IMPAIRED_FOR).then_some(since)
}

/// The last repetition, at `now`, of a notice that was first sent at `since`.
fn repeated(since: Timestamp, now: Timestamp) -> Timestamp {
    let lasting = now.duration_since(since).get();
    since + Millis::new(lasting - lasting % REPEAT.get())
}

fn timestamp(at: &DateTime) -> Option<Timestamp> {
    at.to_millis().ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests;
