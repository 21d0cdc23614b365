use model::interruption::InterruptionKind;
use serde_json::json;

use super::*;
use crate::faults::Delivery;

const QUEUE: &str = "http://ec2.test/123456789012/events";
const ARN: &str = "arn:aws:sqs:eu-west-1:123456789012:events";

fn sqs(ec2: &mut Fixture, action: &str, mut body: Value) -> Result<Value, String> {
    if body["QueueUrl"].is_null() && body["QueueName"].is_null() {
        body["QueueUrl"] = QUEUE.into();
    }
    ec2.json(Service::Sqs, action, &body).map_err(|error| error.code)
}

fn events(ec2: &mut Fixture, action: &str, body: Value) -> Result<Value, String> {
    ec2.json(Service::EventBridge, action, &body).map_err(|error| error.code)
}

/// Whom a policy allows to send.
fn policy(service: &str) -> String {
    let statement =
        json!({ "Effect": "Allow", "Principal": { "Service": service }, "Action": "sqs:SendMessage", "Resource": ARN });
    json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string()
}

/// An account with a queue, and rules for all events of EC2 and AWS Health that interruptions have.
fn listening() -> Fixture {
    let mut ec2 = Fixture::new();
    let attributes = json!({ "Policy": policy("events.amazonaws.com"), "MessageRetentionPeriod": "300" });
    let made = sqs(&mut ec2, "CreateQueue", json!({ "QueueName": "events", "Attributes": attributes })).unwrap();
    assert_eq!(made["QueueUrl"], QUEUE);
    for (name, source, kind) in [
        ("spot", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
        ("rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
        ("state", "aws.ec2", "EC2 Instance State-change Notification"),
        ("health", "aws.health", "AWS Health Event"),
        ("reservation", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    ] {
        let pattern = json!({ "source": [source], "detail-type": [kind] }).to_string();
        events(&mut ec2, "PutRule", json!({ "Name": name, "EventPattern": pattern })).unwrap();
        events(&mut ec2, "PutTargets", json!({ "Rule": name, "Targets": [{ "Id": "q", "Arn": ARN }] })).unwrap();
    }
    ec2
}

fn receive(ec2: &mut Fixture) -> Vec<Value> {
    let body = json!({ "MaxNumberOfMessages": 10, "VisibilityTimeout": 20 });
    let received = sqs(ec2, "ReceiveMessage", body).unwrap();
    received["Messages"].as_array().cloned().unwrap_or_default()
}

fn delete(ec2: &mut Fixture, message: &Value) {
    let entries = json!([{ "Id": "a", "ReceiptHandle": message["ReceiptHandle"] }]);
    sqs(ec2, "DeleteMessageBatch", json!({ "Entries": entries })).unwrap();
}

/// Detail type and detail of every event in the queue, which is empty afterwards.
fn drain(ec2: &mut Fixture) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    loop {
        let received = receive(ec2);
        if received.is_empty() {
            return found;
        }
        for message in received {
            let event: Value = serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
            found.push((event["detail-type"].as_str().unwrap().to_owned(), event["detail"].clone()));
            delete(ec2, &message);
        }
    }
}

#[test]
fn a_spot_instance_is_told_of_from_its_launch_to_its_end() {
    let mut ec2 = listening();
    let spot = ec2.fleet("spot", 1, &["InstanceType=m5.large&AvailabilityZone=eu-west-1a"]);
    let id = spot.text("fleetInstanceSet/0/instanceIds/0");
    ec2.wait(BOOT_MS);
    let state = |state: &str| {
        ("EC2 Instance State-change Notification".to_owned(), json!({ "instance-id": id, "state": state }))
    };
    assert_eq!(drain(&mut ec2), [state("pending"), state("running")]);
    assert!(ec2.cloud.interrupt(&id, InterruptionKind::RebalanceRecommendation, ec2.now));
    assert!(ec2.cloud.interrupt(&id, InterruptionKind::SpotInterrupted, ec2.now));
    let told = drain(&mut ec2);
    let kinds: std::collections::BTreeSet<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["EC2 Instance Rebalance Recommendation", "EC2 Spot Instance Interruption Warning"]
    );
    let warning = told.iter().find(|(kind, _)| kind.contains("Spot")).unwrap();
    assert_eq!(warning.1, json!({ "instance-id": id, "instance-action": "terminate" }));
    // Two minutes of notice, and the shutdown.
    ec2.wait(120_000 + SHUTDOWN_MS);
    assert_eq!(drain(&mut ec2), [state("shutting-down"), state("terminated")]);
}

#[test]
fn an_event_has_the_published_form() {
    let mut ec2 = listening();
    let id = ec2.launch("m5.large", 1).remove(0);
    ec2.wait(BOOT_MS);
    drain(&mut ec2);
    assert!(ec2.cloud.interrupt(&id, InterruptionKind::ScheduledChange, ec2.now));
    let received = receive(&mut ec2);
    let event: Value = serde_json::from_str(received[0]["Body"].as_str().unwrap()).unwrap();
    assert_eq!(event["version"], "0");
    assert_eq!(event["source"], "aws.health");
    assert_eq!((&event["account"], &event["region"]), (&json!("123456789012"), &json!("eu-west-1")));
    assert_eq!((&event["time"], &event["resources"]), (&json!("2026-09-01T00:00:20Z"), &json!([id])));
    let detail = &event["detail"];
    assert_eq!((&detail["service"], &detail["eventTypeCategory"]), (&json!("EC2"), &json!("scheduledChange")));
    // 2026-09-01 is a Tuesday; maintenance is announced 30 minutes ahead.
    assert_eq!(detail["startTime"], "Tue, 01 Sep 2026 00:30:20 GMT");
    assert_eq!(detail["affectedEntities"], json!([{ "entityValue": id }]));
}

#[test]
fn a_message_reappears_until_its_newest_receipt_deletes_it() {
    let mut ec2 = listening();
    ec2.launch("m5.large", 1);
    let first = receive(&mut ec2).remove(0);
    ec2.account.rules = Rules::new(Location { region: String::new(), account: String::new() });
    assert_eq!(receive(&mut ec2), [Value::Null; 0]);
    ec2.wait(20_000);
    let second = receive(&mut ec2).remove(0);
    assert_eq!(second["Attributes"]["ApproximateReceiveCount"], "2");
    assert_eq!((&second["Body"], &second["MessageId"]), (&first["Body"], &first["MessageId"]));
    delete(&mut ec2, &first);
    ec2.wait(20_000);
    let third = receive(&mut ec2).remove(0);
    let entries = json!([{ "Id": "a", "ReceiptHandle": third["ReceiptHandle"] }, { "Id": "b", "ReceiptHandle": "x" }]);
    let deleted = sqs(&mut ec2, "DeleteMessageBatch", json!({ "Entries": entries })).unwrap();
    assert_eq!(deleted["Successful"], json!([{ "Id": "a" }]));
    assert_eq!(
        (&deleted["Failed"][0]["Id"], &deleted["Failed"][0]["Code"]),
        (&json!("b"), &json!("ReceiptHandleIsInvalid"))
    );
    ec2.wait(20_000);
    assert_eq!(receive(&mut ec2), [Value::Null; 0]);
}

#[test]
fn a_message_is_kept_for_the_retention_of_its_queue() {
    let mut ec2 = listening();
    ec2.cloud.faults_mut().boot_ms = (400_000, 400_000);
    ec2.launch("m5.large", 1);
    let count = |ec2: &mut Fixture| {
        let all = sqs(ec2, "GetQueueAttributes", json!({ "AttributeNames": ["All"] })).unwrap();
        all["Attributes"]["ApproximateNumberOfMessages"].as_str().unwrap().to_owned()
    };
    assert_eq!(count(&mut ec2), "1");
    ec2.wait(300_000);
    assert_eq!(count(&mut ec2), "1");
    ec2.wait(1);
    assert_eq!(count(&mut ec2), "0");
}

#[test]
fn messages_are_duplicated_and_reordered_by_the_switchboard() {
    let mut ec2 = listening();
    ec2.faults(Faults { delivery: Delivery { duplicated_percent: 100, delay_ms: (0, 0) }, ..Faults::default() });
    let first = ec2.launch("m5.large", 1).remove(0);
    let ids = |told: Vec<(String, Value)>| {
        told.into_iter().map(|(_, detail)| detail["instance-id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(drain(&mut ec2)), [first.clone(), first]);
    let delivery = Delivery { duplicated_percent: 0, delay_ms: (0, 10_000) };
    ec2.faults(Faults { seed: 3, delivery, ..Faults::default() });
    let launched = ec2.launch("c5.large", 8);
    // The account sends what has happened at the next call.
    sqs(&mut ec2, "GetQueueUrl", json!({ "QueueName": "events" })).unwrap();
    ec2.wait(10_000);
    let told = ids(drain(&mut ec2));
    let (mut sorted, mut expected) = (told.clone(), launched.clone());
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);
    assert_ne!(told, launched);
}

#[test]
fn a_queue_without_a_policy_and_a_disabled_rule_get_no_event() {
    for (service, state, expected) in [
        ("events.amazonaws.com", "ENABLED", 1),
        ("sqs.amazonaws.com", "ENABLED", 0),
        ("events.amazonaws.com", "DISABLED", 0),
    ] {
        let mut ec2 = listening();
        sqs(&mut ec2, "SetQueueAttributes", json!({ "Attributes": { "Policy": policy(service) } })).unwrap();
        let pattern = json!({ "detail-type": ["EC2 Instance State-change Notification"] }).to_string();
        events(&mut ec2, "PutRule", json!({ "Name": "state", "EventPattern": pattern, "State": state })).unwrap();
        ec2.launch("m5.large", 1);
        assert_eq!(drain(&mut ec2).len(), expected, "{service} {state}");
    }
}

#[test]
fn rules_are_described_and_removed_after_their_targets() {
    let mut ec2 = listening();
    let rule = events(&mut ec2, "DescribeRule", json!({ "Name": "rebalance" })).unwrap();
    assert_eq!(rule["Arn"], "arn:aws:events:eu-west-1:123456789012:rule/rebalance");
    let targets = events(&mut ec2, "ListTargetsByRule", json!({ "Rule": "spot" })).unwrap();
    assert_eq!(targets["Targets"], json!([{ "Id": "q", "Arn": ARN }]));
    let delete = json!({ "Name": "spot" });
    assert_eq!(events(&mut ec2, "DeleteRule", delete.clone()), Err("ValidationException".to_owned()));
    events(&mut ec2, "RemoveTargets", json!({ "Rule": "spot", "Ids": ["q"] })).unwrap();
    assert_eq!(events(&mut ec2, "DeleteRule", delete.clone()), Ok(json!({})));
    assert_eq!(events(&mut ec2, "DescribeRule", delete), Err("ResourceNotFoundException".to_owned()));
    assert_eq!(
        events(&mut ec2, "PutRule", json!({ "Name": "x", "EventPattern": "{}" })),
        Err("InvalidEventPatternException".to_owned())
    );
    assert_eq!(events(&mut ec2, "PutEvents", json!({})), Err("UnknownOperationException".to_owned()));
}

#[test]
fn calls_of_queues_are_checked() {
    let mut ec2 = listening();
    for (action, body, code) in [
        ("GetQueueUrl", json!({ "QueueName": "other" }), Some("QueueDoesNotExist")),
        ("ReceiveMessage", json!({ "QueueUrl": "http://ec2.test/1/other" }), Some("QueueDoesNotExist")),
        ("ReceiveMessage", json!({ "MaxNumberOfMessages": 11 }), Some("InvalidParameterValue")),
        ("CreateQueue", json!({ "QueueName": "events" }), None),
        (
            "CreateQueue",
            json!({ "QueueName": "events", "Attributes": { "VisibilityTimeout": "1" } }),
            Some("QueueNameExists"),
        ),
        ("CreateQueue", json!({ "QueueName": "a.b" }), Some("InvalidParameterValue")),
        ("SetQueueAttributes", json!({ "Attributes": { "Colour": "red" } }), Some("InvalidAttributeName")),
        ("SetQueueAttributes", json!({ "Attributes": { "Policy": "{" } }), Some("InvalidAttributeValue")),
        ("DeleteMessageBatch", json!({ "Entries": [] }), Some("EmptyBatchRequest")),
        ("PurgeQueue", json!({}), Some("UnknownOperationException")),
        ("DeleteQueue", json!({}), None),
        ("DeleteQueue", json!({}), Some("QueueDoesNotExist")),
    ] {
        let found = sqs(&mut ec2, action, body).err();
        assert_eq!(found.as_deref(), code, "{action}");
    }
}
