//! Removal guardrails with the real programs: lists of the cloud that lack instances, Nodes that
//! disappear, a NodePool deleted with and without a freeze, and a restart in between. No instance
//! with running pods is lost, and the API shows waiting removals, the reason and the command that
//! releases them.

mod fake_cluster;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::Target;
use e2e::{Program, RunningProcess, TcpProxy, TempDir, authority};
use fleetwright_proto::simulation::v1;
use fleetwright_rpc::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::serve::{get, json, only_cluster};
use crate::{SIMULATOR, TIMEOUT, fleetwright};
use fake_cluster::FakeCluster;
pub(crate) use fake_cluster::{NAME, UID};

/// UID of a cluster that had the name before.
pub(crate) const OTHER_UID: &str = "uid of an earlier shop";

/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct Server {
    process: RunningProcess,
    grpc: SocketAddr,
    http: String,
}

impl Server {
    /// Starts a server with a file of settings on the cloud at an address.
    pub(crate) fn start(settings: &str, cloud: &str) -> Self {
        let process = Program::new(SIMULATOR, &["serve", "--config", settings, "--cloud-address", cloud]).start();
        let [grpc, dashboard] = process.wait_for_urls(TIMEOUT);
        let grpc = authority(&grpc).parse().expect("an address");
        Self { process, grpc, http: authority(&dashboard).to_owned() }
    }

    pub(crate) fn grpc(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// What it has logged since the last call.
    pub(crate) fn logged(&self) -> String {
        self.process.take_stderr_lines().join("\n")
    }
}

/// A simulated cloud, a server, and an agent of a fake cluster whose instances are in the cloud's
/// ledger.
pub(crate) struct Environment {
    server: Server,
    cluster: Arc<FakeCluster>,
    proxy: TcpProxy,
    runtime: Runtime,
    client: SimulatedCloudServiceClient<Channel>,
    settings: String,
    cloud_address: String,
    _cloud: RunningProcess,
    _folder: TempDir,
}

impl Environment {
    fn start(machines: usize, frozen: bool) -> Self {
        Self::start_with(&vec![UID; machines], frozen)
    }

    /// Starts with an instance for each of these UIDs of clusters, which its tags have.
    pub(crate) fn start_with(uids: &[&str], frozen: bool) -> Self {
        let flags = ["simulated-cloud", "--until-input-ends", "--boot", "50ms", "--seed", "1"];
        let cloud = Program::new(SIMULATOR, &flags).start_with_stdout();
        let address = cloud.next_stdout_line(TIMEOUT);
        let runtime = Runtime::new().expect("a runtime");
        let channel = {
            let _inside = runtime.enter();
            Channel::from_shared(address.clone()).expect("the cloud logs its address").connect_lazy()
        };
        let client = SimulatedCloudServiceClient::new(channel);
        // Instances exist before the server starts, so that its first listing has them.
        let instances =
            uids.iter().enumerate().map(|(n, uid)| launch_instance(&runtime, client.clone(), n, uid)).collect();
        let folder = TempDir::new();
        let settings = folder.write_file("fleetwright.toml", SETTINGS);
        let server = Server::start(&settings, &address);
        if frozen {
            freeze(&server);
        }
        let proxy = TcpProxy::start(server.grpc);
        let cluster = FakeCluster::new(instances);
        let target = Target {
            server: proxy.address.clone(),
            credentials: agent::config::Credentials::default(),
            cluster_name: NAME.to_owned(),
            region: "us-east-1".to_owned(),
            karpenter_absent: false,
            seed: 1,
        };
        runtime.spawn(agent::run(Arc::clone(&cluster), target, std::future::pending()));
        let environment = Self {
            server,
            cluster,
            proxy,
            runtime,
            client,
            settings,
            cloud_address: address,
            _cloud: cloud,
            _folder: folder,
        };
        environment.wait_until_shown();
        environment
    }

    /// Starts another server without any state.
    fn restart(&mut self, frozen: bool) {
        let next = Server::start(&self.settings, &self.cloud_address);
        if frozen {
            freeze(&next);
        }
        self.proxy.set_target(next.grpc);
        self.proxy.drop_connections();
        self.server = next;
        self.wait_until_shown();
    }

    fn wait_until_shown(&self) {
        let all = |cluster: &Value| cluster["synced"] == true && cluster["machineCount"].as_u64() > Some(0);
        self.wait_until("the cluster with its machines", all);
    }

    fn set_faults(&self, faults: v1::SetFaultProfileRequest) {
        self.runtime
            .block_on(self.client.clone().set_fault_profile(faults))
            .expect("the cloud accepts the fault profile");
    }

    fn ledger(&self) -> v1::ReadLedgerResponse {
        self.runtime
            .block_on(self.client.clone().read_ledger(v1::ReadLedgerRequest {}))
            .expect("the cloud returns its ledger")
            .into_inner()
    }

    /// Number of calls of this method that the cloud has received.
    fn calls(&self, name: &str) -> u64 {
        self.ledger().calls.get(name).copied().unwrap_or(0)
    }

    /// Waits for so many further calls of this method.
    fn wait_for_calls(&self, name: &str, more: u64) {
        let matches = self.calls(name) + more;
        let end = Instant::now() + TIMEOUT;
        while self.calls(name) < matches {
            assert!(Instant::now() < end, "waited for {more} more {name}");
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Waits until `matches` accepts the server's view of the cluster.
    fn wait_until(&self, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + TIMEOUT;
        loop {
            let view = only_cluster(&self.server.http);
            if matches(&view) {
                return view;
            }
            let logged = self.server.process.take_stderr_lines().join("\n");
            let calls = if Instant::now() < end { None } else { Some(self.ledger().calls) };
            assert!(calls.is_none(), "waited for {what}; calls {calls:?}; the cluster is\n{view:#}\n{logged}");
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    fn wait_until_drained(&self, least: usize) {
        let end = Instant::now() + TIMEOUT;
        while self.cluster.executed().0.len() < least {
            assert!(Instant::now() < end, "waited for {least} drains, had {:?}", self.cluster.executed());
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    fn grpc(&self) -> String {
        self.server.grpc()
    }

    pub(crate) fn http(&self) -> &str {
        &self.server.http
    }

    pub(crate) fn freeze(&self) {
        freeze(&self.server);
    }

    /// Launches an instance that no NodeClaim has.
    pub(crate) fn launch(&self, n: usize) {
        launch_instance(&self.runtime, self.client.clone(), n, UID);
    }

    pub(crate) fn delete_claims(&self, machines: std::ops::Range<usize>) {
        self.cluster.delete_claims(machines, false);
    }
}

/// Why the first removal waits, and what ends the wait.
fn why_waiting(cluster: &Value) -> String {
    let removal = &cluster["guardrails"]["waitingRemovals"][0];
    format!("{} {}", removal["reason"].as_str().unwrap_or_default(), removal["release"].as_str().unwrap_or_default())
}

fn freeze(server: &Server) {
    run(&["freeze", "--server", &format!("http://{}", server.grpc), "--reason", "a bad day"]);
}

fn run(arguments: &[&str]) -> String {
    let ended = fleetwright(arguments);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

pub(crate) fn launch_instance(
    runtime: &Runtime,
    mut client: SimulatedCloudServiceClient<Channel>,
    n: usize,
    uid: &str,
) -> v1::Instance {
    let request = v1::LaunchRequest {
        token: format!("m{n}-1"),
        cluster: NAME.to_owned(),
        cluster_uid: uid.to_owned(),
        claim: format!("m{n}"),
        pool: "default".to_owned(),
        node_class: "default".to_owned(),
        capacity_type: "on-demand".to_owned(),
        overrides: vec![v1::Override { instance_type: "m5.large".to_owned(), zone: "us-east-1a".to_owned() }],
        reservation: String::new(),
    };
    let instances = runtime.block_on(client.launch(request)).expect("the cloud answers").into_inner();
    instances.instance.expect("a machine")
}

/// Frequent lists, and a short delay of garbage collection.
const SETTINGS: &str = r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[control]
batch-idle = "100ms"
batch-max = "500ms"
gc-after = "1s"
[store]
memory = true
"#;

fn no_losses() -> (usize, usize, u64) {
    (0, 0, 0)
}

/// Drains, removals and terminations so far.
fn losses(environment: &Environment) -> (usize, usize, u64) {
    let (drained, removed) = environment.cluster.executed();
    (drained.len(), removed.len(), environment.calls("Terminate"))
}

#[test]
fn listings_that_lack_instances_remove_none_of_them_also_across_a_restart() {
    let mut environment = Environment::start(20, false);
    environment.cluster.mark_not_ready(0..10);
    // Both percentages exceed the share of missing instances at which the server distrusts a
    // listing.
    for percent in [100, 70] {
        let lacking = Some(percent);
        environment.set_faults(v1::SetFaultProfileRequest {
            lacking_lists_percent: lacking,
            ..v1::SetFaultProfileRequest::default()
        });
        let cluster = environment.wait_until(&format!("the distrusted listing at {percent} %"), |cluster| {
            cluster["guardrails"]["listingRejectedReason"] != ""
        });
        let output = cluster["guardrails"]["listingRejectedReason"].as_str().unwrap_or_default();
        assert!(output.contains("fleetwright removals confirm shop"), "{output}");
        let metrics = get(&environment.server.http, "/metrics");
        assert!(metrics.contains("fleetwright_guardrails_listing_doubted{cluster=\"shop\"} 1"), "{metrics}");
        environment.wait_for_calls("List", 4);
        assert_eq!(losses(&environment), no_losses());
        environment.restart(false);
        environment.wait_until("the distrusted listing of the next server", |cluster| {
            cluster["guardrails"]["listingRejectedReason"] != ""
        });
        environment.wait_for_calls("List", 4);
        assert_eq!(losses(&environment), no_losses());
    }
    environment.set_faults(v1::SetFaultProfileRequest {
        lacking_lists_percent: Some(0),
        ..v1::SetFaultProfileRequest::default()
    });
    environment.wait_until("a trusted listing", |cluster| cluster["guardrails"]["listingRejectedReason"] == "");
    assert_eq!(losses(&environment), no_losses());
}

#[test]
fn instances_whose_nodes_disappear_are_kept_with_their_pods() {
    let mut environment = Environment::start(6, false);
    environment.cluster.hide_nodes(0..3);
    environment.cluster.delete_claims(0..3, true);
    let held = |cluster: &Value| cluster["guardrails"]["waitingRemovalCount"] == 3;
    environment.wait_until("three removals that wait", held);
    let listed = run(&["removals", "--server", &environment.grpc()]);
    assert!(listed.contains("m1") && listed.contains("its Node is not reported any more"), "{listed}");
    assert!(listed.contains("fleetwright removals confirm shop"), "{listed}");
    environment.restart(false);
    environment.wait_until("the same with the next server", held);
    environment.wait_for_calls("List", 3);
    assert_eq!(losses(&environment), no_losses());
    // The Nodes exist again, and are drained like others.
    environment.cluster.show_nodes();
    environment.wait_until_drained(3);
}

#[test]
fn a_nodepool_deleted_during_a_freeze_waits_for_an_operator_and_is_then_removed_by_its_budget() {
    let mut environment = Environment::start(30, true);
    environment.cluster.delete_claims(0..30, true);
    let cluster = environment
        .wait_until("removals that wait", |cluster| cluster["guardrails"]["waitingRemovalCount"].as_u64() >= Some(27));
    let why = why_waiting(&cluster);
    assert!(why.contains("is frozen by") && why.contains("fleetwright removals confirm shop"), "{why}");
    environment.restart(true);
    environment.wait_until("removals that wait with the next server", |cluster| {
        cluster["guardrails"]["waitingRemovalCount"].as_u64() >= Some(27)
    });
    environment.wait_for_calls("List", 2);
    // The number of user deletions allowed at any time, if these arrived first.
    assert!(environment.cluster.executed().0.len() <= 3, "{:?}", environment.cluster.executed());
    run(&["removals", "confirm", "shop", "--server", &environment.grpc()]);
    environment.wait_until_drained(6);
}

#[test]
fn nodes_of_a_nodepool_deleted_by_an_operator_are_removed_by_its_budget_only() {
    let environment = Environment::start(30, false);
    environment.cluster.delete_claims(0..30, true);
    environment.wait_until_drained(3);
    // Removals proceed as earlier ones complete: a tenth of 30 at a time, and each takes the cloud
    // seconds.
    let cluster = environment
        .wait_until("removals that wait", |cluster| cluster["guardrails"]["waitingRemovalCount"].as_u64() > Some(0));
    let nodes = json(&environment.server.http, "/v1/clusters/shop/nodes?filter=removal_reason:*");
    assert!(nodes["nodes"].as_array().is_some_and(|leaving| leaving.len() <= 3), "{nodes:#}");
    let why = why_waiting(&cluster);
    assert!(why.contains("machines were deleted by hand or with their NodePool within 10 min"), "{why}");
}
