//! One server for two accounts and regions, each an endpoint of its own: clusters launch, are interrupted and are taken
//! over in their own account, and a cluster that no entry names is refused. Judged by the logs and ledgers of the
//! endpoints. Skipped without PostgreSQL.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::Target;
use agent::config::Credentials;
use e2e::{Postgres, Program, RunningProcess, Signal, TempDir};
use model::ClusterName;
use model::interruption::InterruptionKind;
use serde_json::json;
use simulated_ec2::{AccountSettings, SimulatedEc2};
use simulation::demo::agent::SimulatedApi;
use simulation::demo::manifests::{self, one_of};
use simulation::kube::SimulatedCluster;
use simulation::kube::cluster::{ClusterSettings, Workload};
use store::clock;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::{PROGRAM, SIMULATOR, report, serve_endpoint, with_simulated_credentials};

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The tag that the EC2NodeClass of the clusters selects by.
const RESOURCES: &str = "demo";

pub(crate) const QUEUE: &str = "fleetwright";

/// Account, region and cluster of each entry.
const ENTRIES: [(&str, &str, &str); 2] = [("111111111111", "eu-west-1", "a"), ("222222222222", "us-east-1", "b")];

/// Polls until there is a value. The message of a failure is what the server logged.
fn wait_until<T>(what: &str, server: &RunningProcess, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "waited for {what}; the server:\n{}", server.take_stderr_lines().join("\n"));
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// An account and region with one cluster.
struct AccountRegion {
    ec2: SimulatedEc2,
    endpoint: String,
    region: &'static str,
    cluster: &'static str,
    api: Arc<SimulatedApi>,
    _simulation: JoinHandle<()>,
    agent: Option<JoinHandle<()>>,
}

impl AccountRegion {
    fn start((account, region, cluster): (&str, &'static str, &'static str), runtime: &Runtime) -> Self {
        let settings = AccountSettings { account: account.to_owned(), ..AccountSettings::new(region, RESOURCES) };
        let ec2 = SimulatedEc2::builder(settings).build();
        let endpoint = runtime.block_on(serve_endpoint(&ec2));
        let pool = manifests::pool("web", &[one_of("karpenter.sh/capacity-type", &["spot"])], "1h");
        let simulated = SimulatedCluster::new(ClusterSettings::default().with_fast_nodes());
        let api = SimulatedApi::new(&ClusterName::from(cluster), simulated, manifests::manifests(&[pool]));
        let api = Arc::new(api);
        let driven = Arc::clone(&api);
        let simulation = runtime.spawn(async move { driven.drive().await });
        set_up_queue(region, &endpoint);
        let account_region = Self { ec2, endpoint, region, cluster, api, _simulation: simulation, agent: None };
        account_region.scale(3);
        account_region
    }

    fn scale(&self, pods: usize) {
        let requests = json!({ "cpu": "1500m", "memory": "2Gi" });
        let spec = json!({ "containers": [{ "name": "main", "resources": { "requests": requests } }] });
        self.api.with(|cluster| cluster.scale(&Workload::new("default", "web", &spec), pods, clock::now()));
    }

    /// Connects the cluster's agent to `server`, and no other one any more.
    fn connect(&mut self, server: &str, runtime: &Runtime) {
        if let Some(agent) = self.agent.take() {
            agent.abort();
        }
        let target = Target {
            server: format!("http://{server}"),
            credentials: Credentials::default(),
            cluster_name: self.cluster.to_owned(),
            region: self.region.to_owned(),
            karpenter_absent: false,
            seed: 1,
        };
        let api = Arc::clone(&self.api);
        self.agent = Some(runtime.spawn(async move {
            let _never = agent::run(api, target, std::future::pending()).await;
        }));
    }

    /// Whether so many pods are bound to Nodes.
    fn runs(&self, pods: usize) -> bool {
        self.api.with(|cluster| cluster.pods().filter(|pod| pod.node.is_some() && !pod.terminating).count()) == pods
    }

    /// Provider ids of the cluster's Nodes that are not being removed.
    fn nodes(&self) -> BTreeSet<String> {
        self.api.with(|cluster| {
            let staying = cluster.nodes().filter(|node| !node.deleting && node.taints.is_empty());
            staying.map(|node| node.provider_id.to_string()).collect()
        })
    }

    /// Ids of the instances in the account that have not ended.
    fn instances(&self) -> BTreeSet<String> {
        let cloud = self.ec2.cloud().cloud();
        let ids =
            cloud.ledger().entries().filter(|entry| entry.ended.is_none()).map(|entry| instance_id(&entry.instance.id));
        ids.collect()
    }

    /// Announces the end of an instance.
    fn interrupt(&self, instance: &str) {
        let announced = self.ec2.cloud().cloud().interrupt(instance, InterruptionKind::SpotInterrupted, clock::now());
        assert!(announced, "{instance} runs in {}", self.region);
    }

    /// Checks that everything in the account was launched for its own cluster, in its own region, and once.
    fn check(&self) {
        let calls = self.ec2.calls_of("CreateFleet");
        assert!(!calls.is_empty(), "nothing was launched in {}", self.region);
        for call in &calls {
            let fleet = call.fleet.as_ref().unwrap();
            assert_eq!(fleet.tags.get("fleetwright.dev/cluster").map(String::as_str), Some(self.cluster), "{call:?}");
            let zones = fleet.overrides.iter().map(|one| one.zone.clone().unwrap_or_default());
            assert!(
                zones.clone().all(|zone| zone.starts_with(self.region)),
                "{zones:?}",
                zones = zones.collect::<Vec<_>>()
            );
        }
        let nodes = self.nodes();
        let prefix = format!("aws:///{}", self.region);
        assert!(nodes.iter().all(|node| node.starts_with(&prefix)), "{nodes:?}");
        assert_eq!(self.ec2.cloud().cloud().ledger().duplicate_launches(), []);
    }
}

/// The part of a provider id after the zone.
fn instance_id(provider_id: &str) -> String {
    provider_id.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Makes the queue of interruption notices.
pub(crate) fn set_up_queue(region: &str, endpoint: &str) {
    let flags = ["ec2", "setup", "--apply", "--region", region, "--queue", QUEUE, "--endpoint", endpoint];
    let done = with_simulated_credentials(Program::new(PROGRAM, &flags)).run(TIMEOUT);
    assert_eq!(done.status, 0, "{}", done.stderr);
}

struct Server {
    process: RunningProcess,
    grpc: String,
    owner: &'static str,
}

impl Server {
    /// Kills the process, and waits until its port is free.
    fn kill(&mut self) {
        self.process.signal(Signal::Kill);
        let deadline = Instant::now() + TIMEOUT;
        while self.process.is_running() {
            assert!(Instant::now() < deadline, "a killed process runs after {TIMEOUT:?}");
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }
}

/// Two accounts, and a database for the servers.
struct Environment {
    account_regions: [AccountRegion; 2],
    database: Postgres,
    folder: TempDir,
    accounts: String,
    /// Serves the endpoints and runs the agents; dropped last.
    runtime: Runtime,
}

impl Environment {
    fn start(test: &str) -> Option<Self> {
        let database = Postgres::start(test)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let account_regions = ENTRIES.map(|entry| AccountRegion::start(entry, &runtime));
        let folder = TempDir::new();
        let entry = |((account, region, cluster), account_region): (&(&str, &str, &str), &AccountRegion)| {
            format!(
                "[[account]]\nname = \"{account}\"\nregion = \"{region}\"\nclusters = [\"{cluster}\"]\n\
                 interruption-queue = \"{QUEUE}\"\nendpoint = \"{}\"\n",
                account_region.endpoint
            )
        };
        let text: Vec<String> = ENTRIES.iter().zip(&account_regions).map(entry).collect();
        let accounts = folder.write_file("accounts.toml", text.concat());
        Some(Self { account_regions, database, folder, accounts, runtime })
    }

    fn server(&self, owner: &'static str, grpc: &str) -> Server {
        let settings = format!(
            "[listen]\ngrpc = \"{grpc}\"\nhttp = \"127.0.0.1:0\"\n\
             [cloud]\naccounts-file = \"{}\"\n\
             [control]\nbatch-idle = \"100ms\"\nbatch-max = \"500ms\"\n\
             [lease]\nowner = \"{owner}\"\nduration = \"6s\"\n[store]\nmemory = false\n",
            self.accounts
        );
        let file = self.folder.write_file(&format!("{owner}.toml"), settings);
        let program = Program::new(PROGRAM, &["serve", "--config", &file]);
        // The environment of a program under test says that its state is in memory.
        let program = program.env("FLEETWRIGHT_STORE_MEMORY", "false");
        let program = program.env("FLEETWRIGHT_STORE_DATABASE_URL", &self.database.url());
        let process = with_simulated_credentials(program).start();
        Server { process, grpc: grpc.to_owned(), owner }
    }

    fn connect(&mut self, server: &Server) {
        self.account_regions.iter_mut().for_each(|account_region| account_region.connect(&server.grpc, &self.runtime));
    }

    /// Scales both clusters, and waits until all pods have a Node.
    fn scale(&self, pods: usize, server: &Server) {
        self.account_regions.iter().for_each(|account_region| account_region.scale(pods));
        self.wait_for_pods(pods, server);
    }

    fn wait_for_pods(&self, pods: usize, server: &Server) {
        for account_region in &self.account_regions {
            wait_until(&format!("{pods} pods of {}", account_region.cluster), &server.process, || {
                account_region.runs(pods).then_some(())
            });
        }
    }

    /// Interrupts an instance of each account in turn, and waits until its Node is replaced. The Nodes of the other
    /// account stay, although instances of both accounts may have equal ids.
    fn interrupt_each(&self, pods: usize, server: &Server) {
        for (account_region, other) in self.account_regions.iter().zip(self.account_regions.iter().rev()) {
            let (before, kept) = (account_region.nodes(), other.nodes());
            let node = before.first().unwrap();
            account_region.interrupt(&instance_id(node));
            let what = format!("the Node {node} of {} to be replaced", account_region.cluster);
            wait_until(&what, &server.process, || {
                (!account_region.nodes().contains(node) && account_region.runs(pods)).then_some(())
            });
            assert!(other.nodes().is_superset(&kept), "cluster {} was not interrupted", other.cluster);
        }
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn each_cluster_launches_in_its_own_account_and_region_also_after_a_kill() {
    let test = "each_cluster_launches_in_its_own_account_and_region_also_after_a_kill";
    let Some(mut environment) = Environment::start(test) else { return };
    let grpc = free_address();
    let mut server = environment.server("server", &grpc);
    let _urls = server.process.wait_for_urls(TIMEOUT);
    environment.connect(&server);
    // No entry names cluster c: its agent is told why, and nothing is launched for it.
    let url = format!("http://{grpc}");
    let flags = ["simulated-agent", "--server", &url, "--cluster-name", "c", "--seed", "1", "--log", "info"];
    let unassigned = Program::new(SIMULATOR, &flags).start();
    let refused = unassigned.wait_for_line(&["no [[account]] in", "names cluster c"], TIMEOUT);
    assert!(
        refused.contains(&environment.accounts) && refused.contains("to the clusters of its [[account]]"),
        "{refused}"
    );
    environment.wait_for_pods(3, &server);
    environment.interrupt_each(3, &server);
    server.kill();
    // Pods that appear while no server runs.
    environment.account_regions.iter().for_each(|account_region| account_region.scale(12));
    let launched_before: Vec<usize> = environment
        .account_regions
        .iter()
        .map(|account_region| account_region.ec2.calls_of("CreateFleet").len())
        .collect();
    let server = environment.server(server.owner, &grpc);
    environment.wait_for_pods(12, &server);
    for (account_region, before) in environment.account_regions.iter().zip(launched_before) {
        let calls = account_region.ec2.calls_of("CreateFleet").len();
        assert!(calls > before, "the restarted server launched nothing in {}", account_region.region);
        account_region.check();
        let (cluster, region, instances) =
            (account_region.cluster, account_region.region, account_region.instances().len());
        report(format_args!("figure: cluster {cluster} in {region}: {calls} CreateFleet, {instances} instances"));
    }
}

#[test]
fn another_replica_takes_over_both_accounts() {
    let test = "another_replica_takes_over_both_accounts";
    let Some(mut environment) = Environment::start(test) else { return };
    let mut first = environment.server("first", &free_address());
    let _urls = first.process.wait_for_urls(TIMEOUT);
    environment.connect(&first);
    environment.wait_for_pods(3, &first);
    let second = environment.server("second", &free_address());
    let _urls = second.process.wait_for_urls(TIMEOUT);
    first.kill();
    environment.connect(&second);
    // In any order.
    let leases = ENTRIES.map(|_| second.process.wait_for_line(&["acquired region lease"], TIMEOUT));
    for (account, region, _) in ENTRIES {
        let scope = format!("region {region} of account {account}");
        assert!(leases.iter().any(|line| line.contains(&scope)), "{scope}: {leases:?}");
    }
    environment.scale(12, &second);
    environment.interrupt_each(12, &second);
    environment.account_regions.iter().for_each(AccountRegion::check);
}
