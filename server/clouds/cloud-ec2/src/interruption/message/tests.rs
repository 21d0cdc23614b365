use super::*;
use serde_json::json;

/// 2026-08-20T10:15:30Z: 20,685 days after 1970-01-01, and 36,930 seconds.
const SENT: Timestamp = Timestamp::from_millis((20_685 * 86_400 + 36_930) * 1_000);
/// Two minutes later, 10:17:30.
const TWO_MINUTES_LATER: Timestamp = Timestamp::from_millis((20_685 * 86_400 + 37_050) * 1_000);
/// 2026-08-27T05:00:00Z: seven days later, at 18,000 seconds.
const MAINTENANCE: Timestamp = Timestamp::from_millis((20_692 * 86_400 + 18_000) * 1_000);
/// A second after the event was sent.
const QUEUED: Timestamp = Timestamp::from_millis((20_685 * 86_400 + 36_931) * 1_000);
const ID: &str = "i-0123456789abcdef0";

fn event(source: &str, detail_type: &str, detail: Value) -> Value {
    json!({
        "version": "0", "id": "1e5527d7-0000-0000-0000-000000000001", "detail-type": detail_type, "source": source,
        "account": "123456789012", "time": "2026-08-20T10:15:30Z", "region": "eu-west-1",
        "resources": [format!("arn:aws:ec2:eu-west-1a:instance/{ID}")], "detail": detail,
    })
}

fn of_ec2(detail_type: &str, detail: Value) -> Value {
    event("aws.ec2", detail_type, detail)
}

fn of_health(detail: Value) -> Value {
    event("aws.health", "AWS Health Event", detail)
}

fn state(state: &str) -> Value {
    of_ec2("EC2 Instance State-change Notification", json!({"instance-id": ID, "state": state}))
}

fn notice(instance: &str, kind: InterruptionKind, ends: Option<Timestamp>) -> Notice {
    Notice { instance: Text::from(instance), kind, sent: SENT, ends }
}

fn about_one(kind: InterruptionKind, ends: Option<Timestamp>) -> Message {
    Message::Notices(vec![notice(ID, kind, ends)])
}

const RECEIVED: Reception<'static> =
    Reception { account: Some("123456789012"), region: "eu-west-1", queued: QUEUED, now: QUEUED };

fn read(event: &Value) -> Message {
    parse(&event.to_string(), &RECEIVED)
}

fn read_at(event: &Value, now: Timestamp) -> Message {
    parse(&event.to_string(), &Reception { now, ..RECEIVED })
}

fn retirement(entities: Value) -> Value {
    of_health(json!({
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/x", "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": "scheduledChange",
        "startTime": "Thu, 27 Aug 2026 05:00:00 GMT", "endTime": "Thu, 27 Aug 2026 05:00:00 GMT",
        "eventDescription": [{"language": "en_US", "latestDescription": "retired"}], "affectedEntities": entities,
    }))
}

#[test]
fn a_spot_warning_ends_the_instance_two_minutes_after_it_was_sent() {
    let warning = json!({"instance-id": ID, "instance-action": "terminate"});
    let read = read(&of_ec2("EC2 Spot Instance Interruption Warning", warning));
    assert_eq!(read, about_one(InterruptionKind::SpotInterrupted, Some(TWO_MINUTES_LATER)));
}

#[test]
fn a_rebalance_recommendation_sets_no_end() {
    let read = read(&of_ec2("EC2 Instance Rebalance Recommendation", json!({"instance-id": ID})));
    assert_eq!(read, about_one(InterruptionKind::RebalanceRecommendation, None));
}

#[test]
fn states_that_end_an_instance_are_notices_and_others_are_ignored() {
    for (name, kind) in [
        ("stopping", InterruptionKind::InstanceStopped),
        ("stopped", InterruptionKind::InstanceStopped),
        ("shutting-down", InterruptionKind::InstanceTerminated),
        ("terminated", InterruptionKind::InstanceTerminated),
    ] {
        assert_eq!(read(&state(name)), about_one(kind, None), "{name}");
    }
    for name in ["pending", "running"] {
        assert_eq!(read(&state(name)), Message::Ignored, "{name}");
    }
}

#[test]
fn a_reservation_warning_ends_the_instance_at_its_own_time_or_after_two_minutes() {
    let read = |detail: Value| read(&of_ec2("EC2 Capacity Reservation Instance Interruption Warning", detail));
    let own = json!({"instance-id": ID, "instance-action": "terminate", "azId": "euw1-az1",
                     "instance-termination-time": "2026-08-20T10:17:30Z"});
    let expected = about_one(InterruptionKind::CapacityReservationInterrupted, Some(TWO_MINUTES_LATER));
    assert_eq!(read(own), expected);
    assert_eq!(read(json!({"instance-id": ID, "instance-action": "terminate"})), expected);
}

#[test]
fn a_scheduled_change_is_a_notice_for_each_instance_at_its_begin() {
    let entities = json!([{"entityValue": "i-0b"}, {"entityValue": "vol-1"}, {"entityValue": ID}, {"entityValue": ID}]);
    let of = |id: &str| notice(id, InterruptionKind::ScheduledChange, Some(MAINTENANCE));
    // "i-01…" sorts before "i-0b".
    assert_eq!(read(&retirement(entities)), Message::Notices(vec![of(ID), of("i-0b")]));
}

#[test]
fn a_scheduled_change_without_a_readable_time_is_a_notice() {
    let mut event = retirement(json!([{"entityValue": ID}]));
    event["detail"]["startTime"] = json!("next week");
    assert_eq!(read(&event), about_one(InterruptionKind::ScheduledChange, None));
}

#[test]
fn a_change_that_is_over_is_ignored_and_one_that_is_open_or_upcoming_is_not() {
    let told = |status: Option<&str>, start: &str, end: &str| {
        let mut event = retirement(json!([{"entityValue": ID}]));
        event["detail"]["startTime"] = json!(start);
        event["detail"]["endTime"] = json!(end);
        if let Some(status) = status {
            event["detail"]["statusCode"] = json!(status);
        }
        read(&event)
    };
    let (past, begun) = ("Thu, 20 Aug 2026 08:00:00 GMT", "Thu, 20 Aug 2026 09:00:00 GMT");
    let (soon, later) = ("Thu, 20 Aug 2026 11:00:00 GMT", "Thu, 27 Aug 2026 05:00:00 GMT");
    for (status, start, end) in [
        (Some("closed"), past, begun),
        (Some("closed"), soon, later),
        (Some("open"), past, begun),
        (None, past, begun),
        (None, past, "never"),
    ] {
        assert_eq!(told(status, start, end), Message::Ignored, "{status:?} {start} {end}");
    }
    for (status, start, end) in [
        (Some("upcoming"), later, later),
        (Some("open"), past, soon),
        (Some("open"), begun, "never"),
        (None, soon, later),
    ] {
        let told = told(status, start, end);
        assert!(matches!(&told, Message::Notices(found) if found.len() == 1), "{status:?} {start} {end}: {told:?}");
    }
}

#[test]
fn a_message_of_another_account_or_region_is_refused() {
    for (key, other) in [("account", "999999999999"), ("region", "us-east-1"), ("account", ""), ("region", "")] {
        let mut event = of_ec2("EC2 Spot Instance Interruption Warning", json!({"instance-id": ID}));
        event[key] = json!(other);
        let read = read(&event);
        assert!(matches!(&read, Message::Refused(why) if why.contains(key)), "{key}: {read:?}");
    }
    let mut running = state("running");
    running["region"] = json!("us-east-1");
    assert_eq!(read(&running), Message::Ignored, "nothing follows from it");
}

#[test]
fn a_message_is_refused_when_it_is_older_than_fifteen_minutes_or_of_the_future() {
    let warning = of_ec2("EC2 Spot Instance Interruption Warning", json!({"instance-id": ID}));
    let at = |minutes: i64| read_at(&warning, SENT + Millis::from_mins(minutes));
    let is_notice = |message: &Message| matches!(message, Message::Notices(_));
    assert!(is_notice(&at(0)) && is_notice(&at(15)) && is_notice(&at(-5)));
    for minutes in [16, -6] {
        assert!(matches!(at(minutes), Message::Refused(_)), "{minutes}");
    }
    for time in ["2020-08-20T10:15:30Z", "2099-08-20T10:15:30Z"] {
        let mut forged = state("terminated");
        forged["time"] = json!(time);
        assert!(matches!(read(&forged), Message::Refused(_)), "{time}");
    }
}

#[test]
fn health_events_of_other_services_and_categories_are_ignored() {
    let mut other_service = retirement(json!([{"entityValue": ID}]));
    other_service["detail"]["service"] = json!("RDS");
    assert_eq!(read(&other_service), Message::Ignored);
    let mut issue = retirement(json!([{"entityValue": ID}]));
    issue["detail"]["eventTypeCategory"] = json!("issue");
    assert_eq!(read(&issue), Message::Ignored);
}

#[test]
fn an_instance_is_found_in_resources_that_are_a_list_or_a_text() {
    let mut event = of_ec2("EC2 Instance Rebalance Recommendation", json!({}));
    assert_eq!(read(&event), about_one(InterruptionKind::RebalanceRecommendation, None));
    event["resources"] = json!(format!("arn:aws:ec2:eu-west-1:123456789012:instance/{ID}"));
    assert_eq!(read(&event), about_one(InterruptionKind::RebalanceRecommendation, None));
}

#[test]
fn an_event_without_a_time_was_sent_when_it_was_queued() {
    let mut event = state("stopping");
    event["time"] = json!("yesterday");
    let expected = Notice { sent: QUEUED, ..notice(ID, InterruptionKind::InstanceStopped, None) };
    assert_eq!(read(&event), Message::Notices(vec![expected]));
}

#[test]
fn other_events_are_unknown_and_other_texts_malformed() {
    let volume = event("aws.ec2", "EBS Volume Notification", json!({}));
    assert_eq!(read(&volume), Message::Unknown("aws.ec2/EBS Volume Notification".to_owned()));
    // Anybody may send an event; only the source of AWS counts.
    let forged = event("com.example", "EC2 Spot Instance Interruption Warning", json!({"instance-id": ID}));
    assert_eq!(read(&forged), Message::Unknown("com.example/EC2 Spot Instance Interruption Warning".to_owned()));
    for body in ["", "{", "[]", "null", "{\"source\":\"aws.ec2\"}"] {
        assert!(matches!(parse(body, &RECEIVED), Message::Malformed(_)), "{body}");
    }
    let mut nameless = of_ec2("EC2 Instance Rebalance Recommendation", json!({"instance-id": "x"}));
    nameless["resources"] = json!([]);
    assert!(matches!(read(&nameless), Message::Malformed(_)));
    let stateless = of_ec2("EC2 Instance State-change Notification", json!({"instance-id": ID}));
    assert!(matches!(read(&stateless), Message::Malformed(_)));
}
