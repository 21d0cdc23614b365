//! What a queue of interruption notices and its rules are.

use serde_json::{Value, json};

use crate::interruption::message::{EVENT_TYPES, EventType};

/// `Id` of the queue's policy, by which a queue that was set up here is recognised.
pub(super) const POLICY_ID: &str = "fleetwright-interruptions";

/// Description of the rules, by which rules that were set up here are recognised.
pub(super) const RULE_DESCRIPTION: &str = "Interruption notices for Fleetwright, made by fleetwright ec2 setup";

/// Id of the queue among the targets of a rule.
pub(super) const TARGET_ID: &str = "fleetwright";

/// Seconds that a message is kept: an older notice is about an instance that has ended.
const RETENTION: &str = "300";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleTemplate {
    /// Its name: that of the queue and of the kind of event.
    pub(super) name: String,
    /// Its event pattern, JSON.
    pub(super) pattern: String,
}

/// The rules of a queue, one for each kind of event.
pub(super) fn rules(queue: &str) -> Vec<RuleTemplate> {
    let rule = |event: EventType| RuleTemplate {
        name: format!("{queue}-{}", suffix(event)),
        pattern: json!({"source": [event.source], "detail-type": [event.detail_type]}).to_string(),
    };
    EVENT_TYPES.into_iter().map(rule).collect()
}

/// The words of an event type that distinguish it, short enough for the name of a rule (64 characters).
fn suffix(event: EventType) -> &'static str {
    match event.detail_type {
        "EC2 Spot Instance Interruption Warning" => "spot-interruption",
        "EC2 Instance Rebalance Recommendation" => "rebalance",
        "EC2 Instance State-change Notification" => "state-change",
        "EC2 Capacity Reservation Instance Interruption Warning" => "reservation-interruption",
        _ => "health",
    }
}

/// The attributes of the queue with this ARN, the policy last.
pub(super) fn attributes(arn: &str) -> [(&'static str, String); 3] {
    [
        ("MessageRetentionPeriod", RETENTION.to_owned()),
        ("SqsManagedSseEnabled", "true".to_owned()),
        ("Policy", policy(arn).to_string()),
    ]
}

/// EventBridge may send; calls without TLS are denied.
fn policy(arn: &str) -> Value {
    json!({
        "Version": "2012-10-17",
        "Id": POLICY_ID,
        "Statement": [
            {
                "Sid": "SendEvents", "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage", "Resource": arn,
            },
            {
                "Sid": "DenyWithoutTls", "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    })
}
