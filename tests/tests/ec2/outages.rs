//! What the server needs of EC2 fails: credentials, the right to one action, the queue of notices. Each is the first problem
//! within a minute, with its metric, and gone afterwards: a real server, and the switchboard of the simulated EC2. Skipped
//! without PostgreSQL.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use e2e::authority;
use serde_json::Value;
use simulated_ec2::{Effect, FaultRule};

use crate::accounts::QUEUE;
use crate::prices::{EACH_SECOND, TestBed};
use crate::report;

/// Time within which an outage is the first problem.
const NOTICED: Duration = Duration::from_secs(60);

const WITH_QUEUE: [&str; 8] = {
    let [a, b, c, d, e, f] = EACH_SECOND;
    [a, b, c, d, e, f, "--interruption-queue", QUEUE]
};

const CLOUD_UP: &str = "fleetwright_cloud_up{account=\"default\",region=\"us-east-1\"}";
const LAUNCHES_ALLOWED: &str =
    "fleetwright_cloud_action_allowed{account=\"default\",region=\"us-east-1\",action=\"launch\"}";
const QUEUE_AVAILABLE: &str = "fleetwright_interruption_queue_available{account=\"default\",region=\"us-east-1\"}";

/// An outage as operators see it.
struct Outage {
    code: &'static str,
    summary: &'static str,
    reason: &'static str,
    consequence: &'static str,
    /// A gauge that is 1 without the outage and 0 with it.
    gauge: &'static str,
}

/// The answer to a GET request; empty if there is none.
fn get(bed: &TestBed, path: &str) -> String {
    let host = authority(&bed.http);
    let Ok(mut stream) = TcpStream::connect(host) else { return String::new() };
    let mut answer = String::new();
    let asked = stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .and_then(|()| write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))
        .and_then(|()| stream.read_to_string(&mut answer));
    if asked.is_ok() { answer } else { String::new() }
}

/// The problems, worst first; `None` when they cannot be read.
fn problems(bed: &TestBed) -> Option<Vec<Value>> {
    let answer = get(bed, "/v1/problems");
    // The body may be chunked; the JSON is its one line that begins with a brace.
    let body = answer.split("\r\n\r\n").nth(1)?.lines().find(|line| line.starts_with('{'))?;
    let page: Value = serde_json::from_str(body).ok()?;
    Some(page["problems"].as_array().cloned().unwrap_or_default())
}

fn has_metric(bed: &TestBed, gauge: &str, value: u8) -> bool {
    let wanted = format!("{gauge} {value}");
    get(bed, "/metrics").lines().any(|line| line == wanted)
}

impl Outage {
    fn is_among(&self, problems: &[Value]) -> bool {
        problems.iter().any(|problem| problem["code"] == self.code)
    }

    /// Waits until what may fail works.
    async fn wait_for_works(&self, bed: &mut TestBed) {
        let what = format!("{} 1, and no problem {}", self.gauge, self.code);
        bed.wait_until(&what, |bed| {
            let is_absent = !self.is_among(&problems(bed)?);
            (is_absent && has_metric(bed, self.gauge, 1)).then_some(())
        })
        .await;
    }

    /// Causes the outage, and waits until it is the first problem with all that belongs to it.
    async fn notice(&self, bed: &mut TestBed, fault: impl FnOnce(&mut TestBed)) {
        let begun = Instant::now();
        fault(bed);
        let seen = |bed: &mut TestBed| {
            let first = problems(bed)?.into_iter().next()?;
            (first["code"] == self.code && has_metric(bed, self.gauge, 0)).then_some(first)
        };
        let first = bed.wait_until(self.code, seen).await;
        let took = begun.elapsed();
        assert!(took <= NOTICED, "{} was noticed after {took:?}: {first:#}", self.code);
        assert_eq!(first["severity"], "SEVERITY_CRITICAL", "{first:#}");
        for (field, words) in
            [("summary", self.summary), ("reason", self.reason), ("consequence", self.consequence), ("startTime", "Z")]
        {
            assert!(
                first[field].as_str().is_some_and(|text| text.contains(words)),
                "no {words:?} in {field}: {first:#}"
            );
        }
        report(format_args!("figure: {} is the first problem after {:.1} s", self.code, took.as_secs_f64()));
    }
}

fn mend(bed: &TestBed) {
    bed.ec2.change_faults(|faults| faults.rules.clear());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_every_call_refuses_are_the_first_problem_of_an_idle_server() {
    let test = "credentials_that_every_call_refuses_are_the_first_problem_of_an_idle_server";
    let Some(mut bed) = TestBed::start(test, &EACH_SECOND, &[]).await else { return };
    bed.launch().await;
    let outage = Outage {
        code: "CloudCredentialsRefused",
        summary: "the cloud, account default and region us-east-1, has refused the server's credentials since",
        reason: "AuthFailure",
        consequence: "nothing can be launched or removed; last listing of the instances: ",
        gauge: CLOUD_UP,
    };
    outage.wait_for_works(&mut bed).await;
    outage.notice(&mut bed, |bed| bed.ec2.add_fault(FaultRule::always("*", Effect::error("AuthFailure")))).await;
    mend(&bed);
    outage.wait_for_works(&mut bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_is_denied_is_the_first_problem_and_the_cloud_is_up() {
    let test = "an_action_that_is_denied_is_the_first_problem_and_the_cloud_is_up";
    let Some(mut bed) = TestBed::start(test, &EACH_SECOND, &[]).await else { return };
    bed.launch().await;
    let outage = Outage {
        code: "CloudActionDenied",
        summary: "the cloud, account default and region us-east-1, has denied the server the action launch since",
        reason: "CreateFleet",
        consequence: "nothing can be launched",
        gauge: LAUNCHES_ALLOWED,
    };
    outage.wait_for_works(&mut bed).await;
    let denied = FaultRule::always("CreateFleet", Effect::error("UnauthorizedOperation"));
    outage
        .notice(&mut bed, |bed| {
            bed.ec2.add_fault(denied);
            bed.add_pod();
        })
        .await;
    assert!(has_metric(&bed, CLOUD_UP, 1), "a cloud that denies one action answers");
    mend(&bed);
    // The pod whose launch was denied is tried again later than a new one.
    bed.add_pod();
    outage.wait_for_works(&mut bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_does_not_answer_is_the_first_problem_and_the_cloud_is_up() {
    let test = "a_queue_that_does_not_answer_is_the_first_problem_and_the_cloud_is_up";
    let Some(mut bed) = TestBed::start(test, &WITH_QUEUE, &[]).await else { return };
    bed.launch().await;
    let outage = Outage {
        code: "QueueUnavailable",
        summary: "the queue of interruption notices of account default and region us-east-1 has not answered since",
        reason: QUEUE,
        consequence: "an interrupted node is noticed when its instance has ended",
        gauge: QUEUE_AVAILABLE,
    };
    outage.wait_for_works(&mut bed).await;
    outage.notice(&mut bed, |bed| bed.ec2.add_fault(FaultRule::always("ReceiveMessage", Effect::CutBefore))).await;
    assert!(has_metric(&bed, CLOUD_UP, 1), "a cloud without its queue answers");
    mend(&bed);
    outage.wait_for_works(&mut bed).await;
}
