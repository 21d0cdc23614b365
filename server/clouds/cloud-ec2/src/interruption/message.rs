//! The meaning of an EventBridge event about instances (Karpenter's AWS provider: interruption messages).
//!
//! Events are read leniently: only the fields that say which instance ends, why and when are required, and unknown
//! fields are ignored. The version is not compared, because AWS adds fields without a new one.

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use cloud::notice::Notice;
use model::interruption::InterruptionKind;
use model::{Millis, Text, Timestamp};
use serde_json::Value;

/// Time from a warning to the end of the instance (EC2: spot interruption notices).
const WARNING: Millis = Millis::from_mins(2);

/// How old an event may be: the instance of an older warning has ended, and a scheduled change is found by its status.
const MAX_AGE: Millis = Millis::from_mins(15);

/// How far the clocks of AWS and of this program may differ, as for signed calls.
const MAX_SKEW: Millis = Millis::from_mins(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// `source` of the event.
    pub source: &'static str,
    /// `detail-type` of the event.
    pub detail_type: &'static str,
}

const SPOT: EventType = ec2("EC2 Spot Instance Interruption Warning");
const REBALANCE: EventType = ec2("EC2 Instance Rebalance Recommendation");
const STATE: EventType = ec2("EC2 Instance State-change Notification");
const RESERVATION: EventType = ec2("EC2 Capacity Reservation Instance Interruption Warning");
const HEALTH: EventType = EventType { source: "aws.health", detail_type: "AWS Health Event" };

/// The kinds of events that are read; there is a rule for each.
pub const EVENT_TYPES: [EventType; 5] = [SPOT, REBALANCE, STATE, RESERVATION, HEALTH];

const fn ec2(detail_type: &'static str) -> EventType {
    EventType { source: "aws.ec2", detail_type }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Notices about instances, one for each.
    Notices(Vec<Notice>),
    /// An event of a known kind from which nothing follows, such as an instance that is running.
    Ignored,
    /// An event that this queue must not have, or that is too old: why. Anybody who may send to the queue can state
    /// anything.
    Refused(String),
    /// An event of another kind, by its source and `detail-type`.
    Unknown(String),
    /// No event, or one without what it must have: why.
    Malformed(String),
}

/// Where and when a message was received.
#[derive(Debug, Clone, Copy)]
pub struct Reception<'r> {
    /// Number of the account of the queue; `None` if its address does not say it.
    pub account: Option<&'r str>,
    pub region: &'r str,
    /// When the queue received the message. That is the time of a notice whose event has none: it is the same at each
    /// delivery.
    pub queued: Timestamp,
    pub now: Timestamp,
}

impl Reception<'_> {
    /// Why an event that was sent at `sent` is not for this queue, or not any more.
    fn refusal(&self, event: &Value, sent: Timestamp) -> Option<String> {
        let stated = |key: &'static str, own: Option<&str>| {
            let other = own.filter(|own| text(event, key) != *own)?;
            Some(format!("its {key} is {:?}, and the queue is in {other}", text(event, key)))
        };
        let age = self.now - sent;
        let is_old = || (age > MAX_AGE).then(|| format!("it is {} min old", age.as_mins()));
        let is_early = || (age < Millis::ZERO - MAX_SKEW).then(|| "its time has not come yet".to_owned());
        stated("account", self.account)
            .or_else(|| stated("region", Some(self.region)))
            .or_else(is_old)
            .or_else(is_early)
    }
}

/// Reads the body of a message.
#[must_use]
pub fn parse(body: &str, received: &Reception<'_>) -> Message {
    let event: Value = match serde_json::from_str(body) {
        Ok(event) => event,
        Err(error) => return Message::Malformed(format!("the body is no JSON: {error}")),
    };
    let (source, detail_type) = (text(&event, "source"), text(&event, "detail-type"));
    let known = EVENT_TYPES.into_iter().find(|known| known.source == source && known.detail_type == detail_type);
    let Some(known) = known else {
        let is_event = !source.is_empty() && !detail_type.is_empty();
        return if is_event {
            Message::Unknown(format!("{source}/{detail_type}"))
        } else {
            Message::Malformed("the body has no source and detail-type".to_owned())
        };
    };
    let sent = rfc3339(text(&event, "time")).unwrap_or(received.queued);
    match (received.refusal(&event, sent), read(known, &event, sent, received.now)) {
        // What nothing follows from needs no refusal.
        (Some(why), Message::Notices(_)) => Message::Refused(format!("{detail_type}: {why}")),
        (_, message) => message,
    }
}

/// Reads an event of a known kind, sent at `sent`.
fn read(event_type: EventType, event: &Value, sent: Timestamp, now: Timestamp) -> Message {
    let detail = &event["detail"];
    let (kind, ends) = match event_type {
        SPOT => (InterruptionKind::SpotInterrupted, Some(sent + WARNING)),
        REBALANCE => (InterruptionKind::RebalanceRecommendation, None),
        RESERVATION => {
            let set = rfc3339(text(detail, "instance-termination-time"));
            (InterruptionKind::CapacityReservationInterrupted, Some(set.unwrap_or(sent + WARNING)))
        }
        STATE => match text(detail, "state") {
            "stopping" | "stopped" => (InterruptionKind::InstanceStopped, None),
            "shutting-down" | "terminated" => (InterruptionKind::InstanceTerminated, None),
            "" => return Message::Malformed(format!("{} has no state", event_type.detail_type)),
            _ => return Message::Ignored,
        },
        _ => {
            let is_of_ec2 = text(detail, "service") == "EC2";
            if !is_of_ec2 || text(detail, "eventTypeCategory") != "scheduledChange" {
                return Message::Ignored;
            }
            let starts = start_of_change(text(detail, "startTime"));
            if is_over(detail, starts, now) {
                return Message::Ignored;
            }
            (InterruptionKind::ScheduledChange, starts)
        }
    };
    let instances = instances(event_type, event);
    if instances.is_empty() {
        return Message::Malformed(format!("{} names no instance", event_type.detail_type));
    }
    let notice = |id: &str| Notice { instance: Text::from(id), kind, sent, ends };
    Message::Notices(instances.into_iter().map(notice).collect())
}

/// Whether a scheduled change is over. AWS Health tells about an event again when it closes; the end is what a change
/// without a status has, and a change without either is over once it should have begun.
fn is_over(detail: &Value, starts: Option<Timestamp>, now: Timestamp) -> bool {
    let is_past = |at: Option<Timestamp>| at.is_some_and(|at| at < now);
    match text(detail, "statusCode") {
        "closed" => true,
        "open" | "upcoming" => is_past(start_of_change(text(detail, "endTime"))),
        _ => is_past(start_of_change(text(detail, "endTime")).or(starts)),
    }
}

/// Ids of the instances that the event is about, each once. Health events list them as affected entities, which may
/// be other resources.
fn instances(event_type: EventType, event: &Value) -> Vec<&str> {
    let detail = &event["detail"];
    let mut found: Vec<&str> = if event_type == HEALTH {
        let entities = detail["affectedEntities"].as_array().into_iter().flatten();
        entities.map(|entity| text(entity, "entityValue")).filter_map(instance_id).collect()
    } else {
        instance_id(text(detail, "instance-id")).into_iter().collect()
    };
    if found.is_empty() {
        found = resources(&event["resources"]).into_iter().filter_map(instance_id).collect();
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The resources of an event: a list, or one text.
fn resources(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        _ => value.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    }
}

/// The instance id that `value` is, or that it ends with, as an ARN does.
fn instance_id(value: &str) -> Option<&str> {
    let id = value.rsplit('/').next().unwrap_or(value);
    let hexadecimal = id.strip_prefix("i-")?;
    let is_id = !hexadecimal.is_empty() && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

/// When a scheduled change begins: health events have an RFC 1123 date, and other ones RFC 3339.
fn start_of_change(value: &str) -> Option<Timestamp> {
    date(value, DateTimeFormat::HttpDate).or_else(|| rfc3339(value))
}

fn rfc3339(value: &str) -> Option<Timestamp> {
    date(value, DateTimeFormat::DateTimeWithOffset)
}

fn date(value: &str, format: DateTimeFormat) -> Option<Timestamp> {
    let millis = DateTime::from_str(value, format).ok()?.to_millis().ok()?;
    Some(Timestamp::from_millis(millis))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
