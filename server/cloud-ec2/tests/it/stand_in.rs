//! A small EC2: a form in, XML out, by EC2's API reference. It keeps client tokens and machines, sells the first override
//! that is not sold out, and fails when it is told to.

mod fleet;
mod listing;

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

/// A machine.
#[derive(Debug, Clone)]
struct Machine {
    instance_type: String,
    zone: String,
    spot: bool,
    state: &'static str,
    tags: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct World {
    machines: BTreeMap<String, Machine>,
    /// The form that was sent with each token, and its answer.
    tokens: BTreeMap<String, (Form, Answer)>,
    sold_out: BTreeSet<(String, String)>,
    failures: VecDeque<Answer>,
    page: Option<usize>,
    second_page_fails: bool,
    heard: Vec<Form>,
}

/// A stand-in that listens; its task ends with the test's runtime.
pub(crate) struct StandIn {
    address: SocketAddr,
    world: Arc<Mutex<World>>,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&world));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, world }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Every call so far.
    pub(crate) fn heard(&self) -> Vec<Form> {
        self.world().heard.clone()
    }

    /// Machines that were ever sold.
    pub(crate) fn sold(&self) -> usize {
        self.world().machines.len()
    }

    pub(crate) fn sell_out(&self, instance_type: &str, zone: &str) {
        self.world().sold_out.insert((instance_type.to_owned(), zone.to_owned()));
    }

    /// The next call fails.
    pub(crate) fn fail_next(&self, status: u16, code: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        self.world().failures.push_back(error(status, code, "the stand-in was told to fail"));
    }

    /// A page of a listing has at most so many machines.
    pub(crate) fn page_by(&self, machines: usize) {
        self.world().page = Some(machines);
    }

    /// Pages after the first fail.
    pub(crate) fn fail_second_page(&self) {
        self.world().second_page_fails = true;
    }

    /// Every machine that is starting is up.
    pub(crate) fn boot(&self) {
        let mut world = self.world();
        world.machines.values_mut().filter(|m| m.state == "pending").for_each(|machine| machine.state = "running");
    }

    /// The machine is gone.
    pub(crate) fn end(&self, id: &str) {
        self.world().machines.get_mut(id).unwrap().state = "terminated";
    }
}

async fn answer(State(world): State<Arc<Mutex<World>>>, body: String) -> Answer {
    let form = read(&body);
    let mut world = world.lock().unwrap();
    world.heard.push(form.clone());
    if let Some(failure) = world.failures.pop_front() {
        return failure;
    }
    match form["Action"].as_str() {
        "CreateFleet" => fleet::create(&mut world, &form),
        "TerminateInstances" => listing::terminate(&mut world, &form),
        "DescribeInstances" => listing::describe(&world, &form),
        other => error(StatusCode::BAD_REQUEST, "InvalidAction", other),
    }
}

/// A form is written as the query of an address is.
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
