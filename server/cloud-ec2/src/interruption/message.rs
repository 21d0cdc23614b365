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

/// A kind of event.
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

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Notices about instances, one for each.
    Notices(Vec<Notice>),
    /// An event of a known kind from which nothing follows, such as an instance that is running.
    Ignored,
    /// An event of another kind, by its source and `detail-type`.
    Unknown(String),
    /// No event, or one without what it must have: why.
    Malformed(String),
}

/// Reads the body of a message, which the queue received at `queued`. That is the time of the notice if the event
/// has none: it is the same at each delivery.
#[must_use]
pub fn parse(body: &str, queued: Timestamp) -> Message {
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
    let sent = rfc3339(text(&event, "time")).unwrap_or(queued);
    read(known, &event, sent)
}

/// Reads an event of a known kind, sent at `sent`.
fn read(event_type: EventType, event: &Value, sent: Timestamp) -> Message {
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
            (InterruptionKind::ScheduledChange, start_of_change(text(detail, "startTime")))
        }
    };
    let instances = instances(event_type, event);
    if instances.is_empty() {
        return Message::Malformed(format!("{} names no instance", event_type.detail_type));
    }
    let notice = |id: &str| Notice { instance: Text::from(id), kind, sent, ends };
    Message::Notices(instances.into_iter().map(notice).collect())
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
