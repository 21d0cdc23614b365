//! Answers requests: delays, faults, the action, and the encoding of its result.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use serde_json::json;
use tower::Service as TowerService;

use super::admin;
use super::incoming::{self, Incoming, plain, respond};
use super::state::{Shared, State};
use crate::account::{Answer, Context};
use crate::api_error::ApiError;
use crate::call_log::{Arrival, FleetProgress, Outcome};
use crate::faults::switchboard::CallFaults;
use crate::query::xml;
use crate::service::Service;
use crate::value::Node;

/// Maximum length of a request body.
const MAX_BODY: usize = 4 << 20;

/// How often a call that waits for messages looks for one.
const POLL: Duration = Duration::from_millis(20);

/// The connection is closed without an answer.
#[derive(Debug)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed by a fault")
    }
}

impl std::error::Error for Cut {}

/// The HTTP service of one connection.
#[derive(Debug, Clone)]
pub(super) struct Front {
    shared: Arc<Shared>,
}

impl Front {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl<B> TowerService<Request<B>> for Front
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<String>;
    type Error = Cut;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Cut>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Cut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = Limited::new(body, MAX_BODY).collect().await else { return Err(Cut) };
            let body = body.to_bytes();
            if let Some(path) = parts.uri.path().strip_prefix("/_simulated/") {
                return Ok(admin::answer(&shared, &parts, path, &body));
            }
            match incoming::read(&parts, &body) {
                // A call that has arrived is executed although its caller disconnects.
                Ok(call) => tokio::spawn(async move { shared.answer(call).await }).await.unwrap_or(Err(Cut)),
                Err(what) => Ok(plain(400, &format!("the simulated EC2 cannot read the request: {what}\n"))),
            }
        })
    }
}

impl Shared {
    async fn answer(&self, call: Incoming) -> Result<Response<String>, Cut> {
        let (number, faults) = self.begin(&call);
        sleep(faults.before_ms).await;
        if faults.cut_before {
            self.state().log.end(number, Outcome::Cut { executed: false }, Vec::new());
            return Err(Cut);
        }
        let result = match faults.error {
            Some(error) => Err(error),
            None => self.execute_within_wait(&call).await,
        };
        self.end(number, &result, faults.cut_after);
        self.report_fleet(&call, number, false);
        sleep(faults.after_ms).await;
        if !faults.cut_after {
            self.report_fleet(&call, number, true);
        }
        if faults.cut_after { Err(Cut) } else { Ok(encode(&call, number, &result)) }
    }

    /// Reports an executed CreateFleet to the observer.
    fn report_fleet(&self, call: &Incoming, number: u64, answered: bool) {
        let Some(observer) = self.fleets.as_ref().filter(|_| call.action == "CreateFleet") else { return };
        let fleet = self.state().log.fleet(number).cloned();
        if let Some(fleet) = fleet {
            // The observer may have ended.
            let _unobserved = observer.send(FleetProgress { number, fleet, answered });
        }
    }

    fn begin(&self, call: &Incoming) -> (u64, CallFaults) {
        let now = self.cloud.now();
        let mut state = self.state();
        let State { account, log, .. } = &mut *state;
        let arrival = Arrival {
            at_ms: now.as_millis(),
            service: call.service.name(),
            action: &call.action,
            caller: &call.caller,
            session: account.session(&call.caller),
            parameters: &call.parameters,
        };
        let number = log.begin(arrival);
        (number, state.switchboard.next_call(&call.action, call.service.throttling_code(), now))
    }

    fn end(&self, number: u64, result: &Result<Answer, ApiError>, cut: bool) {
        let (outcome, instances) = match result {
            Ok(answer) => (Outcome::Answered { status: 200, code: None }, launched(answer)),
            Err(error) => (Outcome::Answered { status: error.status, code: Some(error.code.clone()) }, Vec::new()),
        };
        let outcome = if cut { Outcome::Cut { executed: true } } else { outcome };
        self.state().log.end(number, outcome, instances);
    }

    /// Executes a call; one that receives messages is repeated until there is one or its wait is over.
    async fn execute_within_wait(&self, call: &Incoming) -> Result<Answer, ApiError> {
        let waits = call.service == Service::Sqs && call.action == "ReceiveMessage";
        let seconds = call.body["WaitTimeSeconds"].as_u64().filter(|_| waits).unwrap_or(0);
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let result = self.execute(call);
            let is_empty = matches!(&result, Ok(Answer::Json(body)) if body["Messages"].is_null());
            if !is_empty || Instant::now() >= deadline {
                return result;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn execute(&self, call: &Incoming) -> Result<Answer, ApiError> {
        let mut state = self.state();
        let (now, mut cloud) = (self.cloud.now(), self.cloud.cloud());
        state.follow(&mut cloud, now);
        let State { account, switchboard, .. } = &mut *state;
        let caller = account.authenticate(&call.caller, call.service, now)?;
        account.answer(&mut Context {
            service: call.service,
            action: &call.action,
            parameters: &call.parameters,
            body: &call.body,
            host: &call.host,
            caller: &caller,
            now,
            cloud: &mut cloud,
            faults: switchboard,
        })
    }
}

/// Ids of the instances that a CreateFleet launched.
fn launched(answer: &Answer) -> Vec<String> {
    let Answer::Xml(fields) = answer else { return Vec::new() };
    let groups = fields.items("fleetInstanceSet");
    let ids = groups.iter().filter_map(Node::fields).flat_map(|group| group.items("instanceIds"));
    ids.filter_map(|id| if let Node::Text(id) = id { Some(id.clone()) } else { None }).collect()
}

async fn sleep(millis: i64) {
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis.unsigned_abs())).await;
    }
}

fn encode(call: &Incoming, number: u64, result: &Result<Answer, ApiError>) -> Response<String> {
    let request_id = format!("00000000-0000-4000-8000-{number:012}");
    let dialect = call.service.dialect();
    match (result, call.service) {
        (Ok(Answer::Xml(fields)), _) => respond(200, XML, xml::response(dialect, &call.action, &request_id, fields)),
        (Ok(Answer::Json(body)), _) => respond(200, JSON, body.to_string()),
        (Err(error), Service::Ec2 | Service::Iam | Service::Sts) => {
            respond(error.status, XML, xml::error(dialect, &request_id, error))
        }
        (Err(error), service) => json_error(service, error),
    }
}

/// An error of a JSON service. SQS names the code of its former protocol too.
fn json_error(service: Service, error: &ApiError) -> Response<String> {
    let namespace = if service == Service::Sqs { "com.amazonaws.sqs#" } else { "" };
    let body = json!({ "__type": format!("{namespace}{}", error.code), "message": error.message });
    let mut response = respond(error.status, JSON, body.to_string());
    let former =
        if error.code == "QueueDoesNotExist" { "AWS.SimpleQueueService.NonExistentQueue" } else { &error.code };
    let (name, value) = match service {
        Service::Sqs => ("x-amzn-query-error", format!("{former};Sender")),
        _ => ("x-amzn-errortype", error.code.clone()),
    };
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

const XML: &str = "text/xml;charset=UTF-8";
const JSON: &str = "application/x-amz-json-1.1";
