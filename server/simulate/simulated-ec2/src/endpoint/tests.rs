//! The bytes of requests and answers.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::call_log::Outcome;
use crate::faults::{Effect, Throttle};
use crate::settings::TemplateSeed;

async fn serve() -> (SimulatedEc2, SocketAddr) {
    let mut settings = AccountSettings::new("eu-west-1", "blue");
    let image = settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().id.clone();
    let data = [("ImageId".to_owned(), image)].into();
    settings.launch_templates.push(TemplateSeed { name: "nodes".to_owned(), data });
    let ec2 = SimulatedEc2::builder(settings).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = ec2.clone();
    tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
    (ec2, address)
}

/// Sends a request, and returns all bytes until the end of the connection.
async fn send(address: SocketAddr, request_line: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head =
        format!("{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A closed connection may also end with a reset.
    let _reset = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn form(address: SocketAddr, body: &str) -> String {
    send(address, "POST /", "", &format!("Version=2016-11-15&{body}")).await
}

const FLEET: &str = "Action=CreateFleet&ClientToken=t&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&\
                     TargetCapacitySpecification.DefaultTargetCapacityType=on-demand&\
                     LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes&\
                     LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large";

fn launched_count(ec2: &SimulatedEc2) -> usize {
    ec2.cloud().cloud().ledger().launched_count()
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_the_call_without_a_byte() {
    let (ec2, address) = serve().await;
    ec2.add_fault(FaultRule::times("CreateFleet", 1, Effect::CutBefore));
    assert_eq!(form(address, FLEET).await, "");
    assert_eq!(launched_count(&ec2), 0);
    ec2.add_fault(FaultRule::times("CreateFleet", 1, Effect::CutAfter));
    assert_eq!(form(address, FLEET).await, "");
    assert_eq!(launched_count(&ec2), 1);
    let answer = form(address, FLEET).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(launched_count(&ec2), 1);
    let outcomes: Vec<Outcome> = ec2.calls().into_iter().map(|call| call.outcome).collect();
    let cut = |executed| Outcome::Cut { executed };
    assert_eq!(outcomes, [cut(false), cut(true), Outcome::Answered { status: 200, code: None }]);
    // The answer names the instance of the call that was cut.
    let instances: Vec<Vec<String>> =
        ec2.calls().into_iter().filter_map(|call| call.fleet).map(|fleet| fleet.instances).collect();
    assert_eq!(instances[1], instances[2]);
    assert!(answer.contains(&format!("<instanceIds><item>{}</item></instanceIds>", instances[2][0])), "{answer}");
}

#[tokio::test]
async fn a_call_is_executed_although_its_caller_has_gone() {
    let (ec2, address) = serve().await;
    ec2.add_fault(FaultRule::always("CreateFleet", Effect::Delay { before_ms: (100, 100), after_ms: (0, 0) }));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = format!("Version=2016-11-15&{FLEET}");
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    while ec2.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(stream);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while launched_count(&ec2) == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the call is not executed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn throttled_and_refused_calls_have_the_status_and_shape_of_their_service() {
    let (ec2, address) = serve().await;
    let none = Throttle { burst: 0, refill_ms: 3_600_000 };
    ec2.change_faults(|faults| {
        faults.throttles.extend([("DescribeSubnets".to_owned(), none), ("GetParameter".to_owned(), none)])
    });
    let answer = form(address, "Action=DescribeSubnets").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("<Code>RequestLimitExceeded</Code>"), "{answer}");
    let answer = send(address, "POST /", "x-amz-target: AmazonSSM.GetParameter\r\n", "{}").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\"__type\":\"ThrottlingException\""), "{answer}");
    ec2.add_fault(FaultRule::always("GetInstanceProfile", Effect::error("AccessDenied")));
    let answer =
        send(address, "POST /", "", "Version=2010-05-08&Action=GetInstanceProfile&InstanceProfileName=x").await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("<ErrorResponse>"), "{answer}");
    let answer = send(address, "GET /clusters/green", "", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 404") && answer.contains("x-amzn-errortype: ResourceNotFoundException"),
        "{answer}"
    );
    let answer = form(address, "Action=DescribeVolumes").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("<Code>InvalidAction</Code>"), "{answer}");
}

async fn admin(address: SocketAddr, request_line: &str, body: &str) -> Value {
    let answer = send(address, request_line, "", body).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn other_processes_set_faults_and_read_calls_and_the_ledger() {
    let (_ec2, address) = serve().await;
    let order = json!({ "pools": [{ "instanceType": "m5.large", "available": 1 }] }).to_string();
    let set = admin(address, "POST /_simulated/faults", &order).await;
    assert_eq!(set["pools"][0]["available"], 1);
    form(address, FLEET).await;
    assert_eq!(admin(address, "GET /_simulated/faults", "").await["pools"][0]["available"], 0);
    let calls = admin(address, "GET /_simulated/calls", "").await;
    assert_eq!(calls[0]["fleet"]["overrides"][0]["instanceType"], "m5.large");
    assert_eq!(calls[0]["outcome"], json!({ "kind": "answered", "status": 200, "code": null }));
    assert_eq!(admin(address, "GET /_simulated/calls?after=1", "").await, json!([]));
    let ledger = admin(address, "GET /_simulated/ledger", "").await;
    assert_eq!((ledger[0]["token"].as_str(), ledger[0]["endedMs"].is_null()), (Some("t"), true));
    let order = json!({ "instance": ledger[0]["id"], "kind": "instance_terminated" }).to_string();
    assert_eq!(admin(address, "POST /_simulated/interrupt", &order).await["announced"], true);
    for (line, body) in [
        ("POST /_simulated/faults", "{\"fault\": 1}"),
        ("POST /_simulated/interrupt", "{\"instance\":\"i-1\",\"kind\":\"x\"}"),
    ] {
        let answer = send(address, line, "", body).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

#[tokio::test]
async fn answers_are_well_formed_xml() {
    let (_ec2, address) = serve().await;
    for action in [
        "DescribeImages",
        "DescribeInstanceTypes&MaxResults=100",
        "DescribeSubnets",
        "DescribeLaunchTemplates",
        "DescribeVolumes",
    ] {
        let answer = form(address, &format!("Action={action}")).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut depth = 0_i32;
        for token in xmlparser::Tokenizer::from(body) {
            match token.unwrap() {
                xmlparser::Token::ElementStart { .. } => depth += 1,
                xmlparser::Token::ElementEnd { end: xmlparser::ElementEnd::Close(..), .. } => depth -= 1,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "{action}");
    }
}

async fn sqs(address: SocketAddr, action: &str, body: Value) -> String {
    send(address, "POST /", &format!("x-amz-target: AmazonSQS.{action}\r\n"), &body.to_string()).await
}

#[tokio::test]
async fn a_receive_waits_for_the_first_message() {
    let (_ec2, address) = serve().await;
    let statement = json!({
        "Effect": "Allow", "Principal": { "Service": "events.amazonaws.com" }, "Action": "sqs:SendMessage",
    });
    let attributes = json!({ "Policy": json!({ "Statement": [statement] }).to_string() });
    let made = sqs(address, "CreateQueue", json!({ "QueueName": "q", "Attributes": attributes })).await;
    let target = json!({ "Id": "q", "Arn": "arn:aws:sqs:eu-west-1:123456789012:q" });
    for (action, body) in [
        ("PutRule", json!({ "Name": "r", "EventPattern": json!({ "source": ["aws.ec2"] }).to_string() })),
        ("PutTargets", json!({ "Rule": "r", "Targets": [target] })),
    ] {
        let header = format!("x-amz-target: AWSEvents.{action}\r\n");
        let answer = send(address, "POST /", &header, &body.to_string()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let url = "http://x/123456789012/q".to_owned();
    assert!(made.contains(&url), "{made}");
    let waiting = tokio::spawn(sqs(address, "ReceiveMessage", json!({ "QueueUrl": url, "WaitTimeSeconds": 20 })));
    let began = tokio::time::Instant::now();
    // The second call is sent after the first has been found to be waiting.
    sqs(address, "ReceiveMessage", json!({ "QueueUrl": url })).await;
    assert!(!waiting.is_finished());
    form(address, FLEET).await;
    let received = waiting.await.unwrap();
    assert!(received.contains("EC2 Instance State-change Notification"), "{received}");
    assert!(began.elapsed() < Duration::from_secs(15));
    let answer = sqs(address, "ReceiveMessage", json!({ "QueueUrl": "http://x/1/other" })).await;
    assert!(answer.contains("\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\""), "{answer}");
    assert!(answer.contains("x-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender"), "{answer}");
}
