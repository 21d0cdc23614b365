//! The gate for removals with the real programs: a cloud whose listings lack machines, Nodes that are not shown any more, a NodePool that
//! is deleted under a freeze and without one, and another server in between. No machine with running pods is lost, and people see what
//! waits, why, and how to release it.

mod played;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::Target;
use e2e::{Board, Folder, Program, Running};
use fleetwright_proto::simulation::v1;
use fleetwright_proto::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::serve::get;
use crate::{PATIENCE, PROGRAM, fleetwright};
use played::{NAME, Played, UID};

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);

struct Server {
    process: Running,
    grpc: SocketAddr,
    http: String,
}

impl Server {
    fn start(settings: &str) -> Self {
        let process = Program::new(PROGRAM, &["serve", "--config", settings]).start();
        let line = process.line_with(&["grpc://", "http://"], PATIENCE);
        let address = |scheme: &str| {
            let rest = line.split(scheme).nth(1).expect("the address stands behind its scheme");
            rest.split([';', '/', ' ', '"']).next().expect("an address").to_owned()
        };
        let grpc = address("grpc://").parse().expect("an address");
        Self { process, grpc, http: address("http://") }
    }
}

/// A cloud, a server, and an agent that speaks for a cluster of machines that stand in the cloud's book.
struct World {
    server: Server,
    cluster: Arc<Played>,
    board: Board,
    runtime: Runtime,
    client: SimulatedCloudServiceClient<Channel>,
    settings: String,
    _cloud: Running,
    _folder: Folder,
}

impl World {
    fn start(machines: usize, frozen: bool) -> Self {
        let flags = ["simulated-cloud", "--until-input-ends", "--boot", "50ms", "--seed", "1"];
        let cloud = Program::new(PROGRAM, &flags).start_telling();
        let address = cloud.told(PATIENCE);
        let runtime = Runtime::new().expect("a runtime");
        let channel = {
            let _inside = runtime.enter();
            Channel::from_shared(address.clone()).expect("the cloud tells an address").connect_lazy()
        };
        let client = SimulatedCloudServiceClient::new(channel);
        let bought = (0..machines).map(|n| buy(&runtime, client.clone(), n)).collect();
        let folder = Folder::new();
        let settings = folder.file("fleetwright.toml", settings(&address));
        let server = Server::start(&settings);
        if frozen {
            freeze(&server);
        }
        let board = Board::to(server.grpc);
        let cluster = Played::new(bought);
        let target = Target {
            server: board.address.clone(),
            credentials: agent::config::Credentials::default(),
            cluster_name: NAME.to_owned(),
            region: "us-east-1".to_owned(),
            karpenter_absent: false,
            seed: 1,
        };
        runtime.spawn(agent::run(Arc::clone(&cluster), target, std::future::pending()));
        let world = Self { server, cluster, board, runtime, client, settings, _cloud: cloud, _folder: folder };
        world.until_shown();
        world
    }

    /// Another server takes over, which knows nothing but what it is shown.
    fn restart(&mut self, frozen: bool) {
        let next = Server::start(&self.settings);
        if frozen {
            freeze(&next);
        }
        self.board.lead_to(next.grpc);
        self.board.cut();
        self.server = next;
        self.until_shown();
    }

    fn until_shown(&self) {
        let all = |shop: &Value| shop["synced"] == true && shop["machines"].as_array().is_some_and(|m| !m.is_empty());
        self.until("the cluster with its machines", all);
    }

    fn weather(&self, wish: v1::WeatherRequest) {
        self.runtime.block_on(self.client.clone().weather(wish)).expect("the cloud takes weather");
    }

    fn book(&self) -> v1::BookResponse {
        self.runtime
            .block_on(self.client.clone().book(v1::BookRequest {}))
            .expect("the cloud shows its book")
            .into_inner()
    }

    /// Calls of this name that the cloud has had.
    fn calls(&self, name: &str) -> u64 {
        self.book().calls.get(name).copied().unwrap_or(0)
    }

    /// Waits for so many further calls of this name.
    fn further(&self, name: &str, more: u64) {
        let wanted = self.calls(name) + more;
        let end = Instant::now() + PATIENCE;
        while self.calls(name) < wanted {
            assert!(Instant::now() < end, "waited for {more} more {name}");
            std::thread::park_timeout(LOOK);
        }
    }

    /// Waits until what the server shows of the cluster is as `wanted`.
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = shown(&self.server.http);
            if wanted(&seen) {
                return seen;
            }
            let logged = self.server.process.read_lines().join("\n");
            let calls = if Instant::now() < end { None } else { Some(self.book().calls) };
            assert!(calls.is_none(), "waited for {what}; calls {calls:?}; the cluster is\n{seen:#}\n{logged}");
            std::thread::park_timeout(LOOK);
        }
    }

    fn until_drained(&self, least: usize) {
        let end = Instant::now() + PATIENCE;
        while self.cluster.done().0.len() < least {
            assert!(Instant::now() < end, "waited for {least} drains, had {:?}", self.cluster.done());
            std::thread::park_timeout(LOOK);
        }
    }

    fn grpc(&self) -> String {
        format!("http://{}", self.server.grpc)
    }
}

fn shown(http: &str) -> Value {
    let answer = get(http, "/api/fleet");
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    // The body may come in chunks; the JSON is its one line that begins with a brace.
    let json = body.lines().find(|line| line.starts_with('{')).unwrap_or("{}");
    let fleet: Value = serde_json::from_str(json).unwrap_or_default();
    fleet["clusters"][0].clone()
}

fn freeze(server: &Server) {
    run(&["freeze", "--server", &format!("http://{}", server.grpc), "--reason", "a bad day"]);
}

fn run(arguments: &[&str]) -> String {
    let ended = fleetwright(arguments);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

fn buy(runtime: &Runtime, mut client: SimulatedCloudServiceClient<Channel>, n: usize) -> v1::Instance {
    let request = v1::LaunchRequest {
        token: format!("m{n}-1"),
        cluster: NAME.to_owned(),
        cluster_uid: UID.to_owned(),
        claim: format!("m{n}"),
        pool: "default".to_owned(),
        node_class: "default".to_owned(),
        capacity_type: "on-demand".to_owned(),
        overrides: vec![v1::Override { instance_type: "m5.large".to_owned(), zone: "us-east-1a".to_owned() }],
        reservation: String::new(),
    };
    let bought = runtime.block_on(client.launch(request)).expect("the cloud answers").into_inner();
    bought.instance.expect("a machine")
}

/// Listings come often, and what they lack is looked at soon.
fn settings(cloud: &str) -> String {
    format!(
        r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[cloud]
address = "{cloud}"
[control]
batch-idle = "100ms"
batch-max = "500ms"
collect-after = "1s"
[store]
memory = true
"#
    )
}

fn none() -> (usize, usize, u64) {
    (0, 0, 0)
}

/// Drains, removals and terminations so far.
fn lost(world: &World) -> (usize, usize, u64) {
    let (drained, removed) = world.cluster.done();
    (drained.len(), removed.len(), world.calls("Terminate"))
}

#[test]
fn listings_that_lack_machines_cost_none_of_them_also_over_a_restart() {
    let mut world = World::start(20, false);
    world.cluster.silence(0..10);
    for percent in [100, 70] {
        let lacking = Some(percent);
        world.weather(v1::WeatherRequest { lacking_lists_percent: lacking, ..v1::WeatherRequest::default() });
        let shop = world.until(&format!("the doubt at {percent} %"), |shop| !shop["rails"]["listingDoubted"].is_null());
        let told = shop["rails"]["listingDoubted"].as_str().unwrap_or_default();
        assert!(told.contains("fleetwright removals confirm shop"), "{told}");
        let metrics = get(&world.server.http, "/metrics");
        assert!(metrics.contains("fleetwright_rails_listing_doubted{cluster=\"shop\"} 1"), "{metrics}");
        world.further("List", 4);
        assert_eq!(lost(&world), none());
        world.restart(false);
        world.until("the doubt of the next server", |shop| !shop["rails"]["listingDoubted"].is_null());
        world.further("List", 4);
        assert_eq!(lost(&world), none());
    }
    world.weather(v1::WeatherRequest { lacking_lists_percent: Some(0), ..v1::WeatherRequest::default() });
    world.until("the end of the doubt", |shop| shop["rails"]["listingDoubted"].is_null());
    assert_eq!(lost(&world), none());
}

#[test]
fn machines_whose_nodes_are_not_shown_any_more_wait_with_their_pods() {
    let mut world = World::start(6, false);
    world.cluster.lose_nodes(0..3);
    world.cluster.delete(0..3, true);
    let held = |shop: &Value| shop["rails"]["waitingRemovals"] == 3;
    world.until("three removals that wait", held);
    let listed = run(&["removals", "--server", &world.grpc()]);
    assert!(listed.contains("m1") && listed.contains("its Node is not shown any more"), "{listed}");
    assert!(listed.contains("fleetwright removals confirm shop"), "{listed}");
    world.restart(false);
    world.until("the same with the next server", held);
    world.further("List", 3);
    assert_eq!(lost(&world), none());
    // They are shown again, and drained like any others.
    world.cluster.show_nodes();
    world.until_drained(3);
}

#[test]
fn a_nodepool_that_is_deleted_under_a_freeze_waits_for_a_person_and_then_leaves_by_its_budget() {
    let mut world = World::start(30, true);
    world.cluster.delete(0..30, true);
    let shop = world.until("removals that wait", |shop| shop["rails"]["waitingRemovals"].as_u64() >= Some(27));
    let why = shop["rails"]["waitingBecause"].as_str().unwrap_or_default();
    assert!(why.contains("is frozen by") && why.contains("fleetwright removals confirm shop"), "{why}");
    world.restart(true);
    world
        .until("removals that wait with the next server", |shop| shop["rails"]["waitingRemovals"].as_u64() >= Some(27));
    world.further("List", 2);
    // What a hand may take at any time, if it was shown before the others.
    assert!(world.cluster.done().0.len() <= 3, "{:?}", world.cluster.done());
    run(&["removals", "confirm", "shop", "--server", &world.grpc()]);
    world.until_drained(6);
}

#[test]
fn a_nodepool_that_is_deleted_takes_its_nodes_along_by_its_budget_only() {
    let world = World::start(30, false);
    world.cluster.delete(0..30, true);
    world.until_drained(3);
    // They go on as others have gone: a tenth of 30 at one time, and each takes the cloud seconds.
    let shop = world.until("removals that wait", |shop| shop["rails"]["waitingRemovals"].as_u64() > Some(0));
    let leaving = |shop: &Value| {
        let machines = shop["machines"].as_array().cloned().unwrap_or_default();
        machines.iter().filter(|machine| !machine["leaves"].is_null()).count()
    };
    assert!(leaving(&shop) <= 3, "{shop:#}");
    let why = shop["rails"]["waitingBecause"].as_str().unwrap_or_default();
    assert!(why.contains("machines were deleted by hand or with their NodePool within 10 min"), "{why}");
}
