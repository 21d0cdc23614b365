//! A fake EC2 of lookups: form in, XML out, by EC2's API reference. It describes the instance types, zones, prices and
//! resources that it is given, and fails on demand.

pub(crate) mod catalogue;
pub(crate) mod instance_types;
pub(crate) mod selectors;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::routing::post;

pub(crate) type Form = BTreeMap<String, String>;

/// HTTP status and body.
type Answer = (StatusCode, String);

#[derive(Debug, Default)]
struct FakeState {
    catalogue: catalogue::Catalogue,
    requests: Vec<Form>,
}

/// A listening fake; its task ends with the test's runtime.
pub(crate) struct FakeEc2 {
    address: SocketAddr,
    fake: Arc<Mutex<FakeState>>,
}

impl FakeEc2 {
    pub(crate) async fn start() -> Self {
        let fake = Arc::new(Mutex::new(FakeState::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, fake }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn fake(&self) -> MutexGuard<'_, FakeState> {
        self.fake.lock().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Form> {
        self.fake().requests.clone()
    }

    /// Sets what the catalogue actions answer.
    pub(crate) fn serve(&self, catalogue: catalogue::Catalogue) {
        self.fake().catalogue = catalogue;
    }
}

async fn answer(State(fake): State<Arc<Mutex<FakeState>>>, body: String) -> Answer {
    let form = read(&body);
    let mut fake = fake.lock().unwrap();
    fake.requests.push(form.clone());
    match form["Action"].as_str() {
        "DescribeInstanceTypes"
        | "DescribeInstanceTypeOfferings"
        | "DescribeAvailabilityZones"
        | "DescribeSpotPriceHistory" => catalogue::describe(&fake.catalogue, &form),
        other => error(StatusCode::BAD_REQUEST, "InvalidAction", other),
    }
}

/// Parses a form, which is encoded like a URL query.
fn read(body: &str) -> Form {
    let uri: Uri = format!("http://stand.in/?{body}").parse().unwrap();
    Query::try_from_uri(&uri).unwrap().0
}

fn error(status: StatusCode, code: &str, message: &str) -> Answer {
    let error = element("Error", &(element("Code", code) + &element("Message", message)));
    (status, format!("<Response>{}<RequestID>r-1</RequestID></Response>", element("Errors", &error)))
}

fn ok(action: &str, inner: &str) -> Answer {
    let body = format!(
        "<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r-1</requestId>{inner}</{action}Response>"
    );
    (StatusCode::OK, body)
}

fn element(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// The values of `prefix.1`, `prefix.2`, … .
fn numbered<'f>(form: &'f Form, prefix: &str) -> Vec<&'f str> {
    let at = |number: usize| form.get(&format!("{prefix}.{number}")).map(String::as_str);
    (1..).map_while(at).collect()
}
