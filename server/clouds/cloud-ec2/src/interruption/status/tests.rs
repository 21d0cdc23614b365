use super::*;
use aws_sdk_ec2::types::builders::InstanceStatusBuilder;
use aws_sdk_ec2::types::{InstanceStatusDetails, InstanceStatusEvent};

/// Ten minutes times 100, so that repetitions of events are at whole multiples.
const NOW: Timestamp = Timestamp::from_millis(60_000_000);

fn check(status: StatusType, since_secs_ago: i64) -> InstanceStatusSummary {
    let since = DateTime::from_millis(NOW.as_millis() - since_secs_ago * 1_000);
    let details = InstanceStatusDetails::builder().status(status).impaired_since(since).build();
    InstanceStatusSummary::builder().details(details).build()
}

fn event(code: EventCode, not_before_secs: i64, description: &str) -> InstanceStatusEvent {
    let at = DateTime::from_secs(not_before_secs);
    InstanceStatusEvent::builder().code(code).not_before(at).description(description).build()
}

fn instance(id: &str) -> InstanceStatusBuilder {
    InstanceStatus::builder().instance_id(id)
}

fn notice(id: &str, kind: InterruptionKind, sent: Timestamp, ends: Option<Timestamp>) -> Notice {
    Notice { instance: Text::from(id), kind, sent, ends }
}

#[test]
fn a_check_that_has_failed_for_two_minutes_is_a_notice() {
    let failing = |seconds| instance("i-1").system_status(check(StatusType::Failed, seconds)).build();
    assert_eq!(notices(&[failing(119)], NOW), []);
    let since = NOW - Millis::from_secs(120);
    assert_eq!(notices(&[failing(120)], NOW), [notice("i-1", InterruptionKind::StatusCheckFailed, since, None)]);
    let passing = instance("i-1").instance_status(check(StatusType::Passed, 500)).build();
    assert_eq!(notices(&[passing], NOW), []);
}

#[test]
fn two_failed_checks_and_two_answers_are_one_notice() {
    let status = instance("i-1")
        .instance_status(check(StatusType::Failed, 200))
        .system_status(check(StatusType::Failed, 300))
        .build();
    let since = NOW - Millis::from_secs(300);
    let expected = [notice("i-1", InterruptionKind::StatusCheckFailed, since, None)];
    assert_eq!(notices(&[status.clone(), status], NOW), expected);
}

#[test]
fn a_notice_is_the_same_for_ten_minutes_and_then_repeated() {
    let since = NOW - Millis::from_secs(300);
    let status = instance("i-1").instance_status(check(StatusType::Failed, 300)).build();
    let sent = |now| notices(std::slice::from_ref(&status), now)[0].sent;
    // 599 s and 600 s after it began to fail.
    assert_eq!(sent(NOW + Millis::from_secs(299)), since);
    assert_eq!(sent(NOW + Millis::from_secs(300)), since + Millis::from_secs(600));
}

#[test]
fn a_scheduled_event_ends_the_instance_at_its_earliest_time() {
    let events = [
        event(EventCode::InstanceRetirement, 90_000, "The instance is on degraded hardware"),
        event(EventCode::SystemReboot, 70_000, "Scheduled reboot"),
    ];
    let status = instance("i-1").set_events(Some(events.to_vec())).build();
    let ends = Some(Timestamp::from_millis(70_000_000));
    assert_eq!(notices(&[status], NOW), [notice("i-1", InterruptionKind::ScheduledChange, NOW, ends)]);
}

#[test]
fn events_that_are_over_are_no_notices() {
    for description in ["[Completed] Scheduled reboot", "[Canceled] Scheduled reboot"] {
        let status = instance("i-1").events(event(EventCode::SystemReboot, 50_000, description)).build();
        assert_eq!(notices(&[status], NOW), [], "{description}");
    }
}
