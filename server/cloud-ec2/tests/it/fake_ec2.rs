//! A fake EC2: form in, XML out, by EC2's API reference. It stores client tokens and instances,
//! launches the first override with capacity, describes the instance types it is given, and fails
//! on demand.

pub(crate) mod catalogue;
mod fleet;
pub(crate) mod instance_types;
mod listing;
pub(crate) mod selectors;
mod templates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::routing::post;

/// Parameters of a call.
pub(crate) type Form = BTreeMap<String, String>;

/// HTTP status and body.
type Answer = (StatusCode, String);

/// An instance of the fake, with its form parameters.
#[derive(Debug, Clone)]
struct Machine {
    instance_type: String,
    zone: String,
    spot: bool,
    state: &'static str,
    tags: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct FakeState {
    machines: BTreeMap<String, Machine>,
    /// Form and response of each token.
    tokens: BTreeMap<String, (Form, Answer)>,
    unavailable: BTreeSet<(String, String)>,
    failures: VecDeque<Answer>,
    page: Option<usize>,
    second_page_fails: bool,
    catalogue: catalogue::Catalogue,
    requests: Vec<Form>,
    /// Launch templates by name.
    templates: BTreeMap<String, Form>,
    /// All calls about launch templates.
    template_calls: Vec<Form>,
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

    /// All calls so far.
    pub(crate) fn requests(&self) -> Vec<Form> {
        self.fake().requests.clone()
    }

    /// All calls about launch templates so far.
    pub(crate) fn template_calls(&self) -> Vec<Form> {
        self.fake().template_calls.clone()
    }

    /// Forgets all client tokens, as EC2 does after a while.
    pub(crate) fn forget_tokens(&self) {
        self.fake().tokens.clear();
    }

    /// Deletes all launch templates, as an operator may.
    pub(crate) fn delete_templates(&self) {
        self.fake().templates.clear();
    }

    /// Number of launched instances.
    pub(crate) fn launched_count(&self) -> usize {
        self.fake().machines.len()
    }

    pub(crate) fn exhaust(&self, instance_type: &str, zone: &str) {
        self.fake().unavailable.insert((instance_type.to_owned(), zone.to_owned()));
    }

    /// Makes the next call fail.
    pub(crate) fn fail_next(&self, status: u16, code: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        self.fake().failures.push_back(error(status, code, "an injected failure"));
    }

    /// Sets what the catalogue actions answer.
    pub(crate) fn serve(&self, catalogue: catalogue::Catalogue) {
        self.fake().catalogue = catalogue;
    }

    /// Sets the page size of listings.
    pub(crate) fn page_by(&self, machines: usize) {
        self.fake().page = Some(machines);
    }

    /// Makes pages after the first fail.
    pub(crate) fn fail_second_page(&self) {
        self.fake().second_page_fails = true;
    }

    /// Completes the boot of all pending instances.
    pub(crate) fn boot(&self) {
        let mut fake = self.fake();
        fake.machines.values_mut().filter(|m| m.state == "pending").for_each(|machine| machine.state = "running");
    }

    /// Terminates the instance.
    pub(crate) fn end(&self, id: &str) {
        self.fake().machines.get_mut(id).unwrap().state = "terminated";
    }
}

async fn answer(State(fake): State<Arc<Mutex<FakeState>>>, body: String) -> Answer {
    let form = read(&body);
    let mut fake = fake.lock().unwrap();
    // Tests of fleets count fleet calls; those of templates look at these.
    if form["Action"].ends_with("LaunchTemplate") {
        return templates::answer(&mut fake, &form);
    }
    fake.requests.push(form.clone());
    if let Some(failure) = fake.failures.pop_front() {
        return failure;
    }
    match form["Action"].as_str() {
        "CreateFleet" => fleet::create(&mut fake, &form),
        "TerminateInstances" => listing::terminate(&mut fake, &form),
        "DescribeInstances" => listing::describe(&fake, &form),
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
