//! Two servers, their PostgreSQL, their cloud, and the proxy through which agents connect.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use e2e::{Postgres, Program, RunningProcess, Signal, TcpProxy, TempDir, authority};
use fleetwright_proto::simulation::v1;
use fleetwright_rpc::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::serve::json;
use crate::{SIMULATOR, TIMEOUT};

/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum message size for the ledger of a test, in bytes.
const MAX_LEDGER_BYTES: usize = 64 << 20;

/// A server process with its addresses.
pub(super) struct Server {
    process: RunningProcess,
    /// Log lines that were read while waiting for a later one.
    read: Mutex<Vec<String>>,
    pub(super) grpc: SocketAddr,
    pub(super) http: String,
}

impl Server {
    fn start(settings: &str, cloud: &str, database: &str) -> Self {
        let program = Program::new(SIMULATOR, &["serve", "--config", settings, "--cloud-address", cloud]);
        let process = program.env("FLEETWRIGHT_STORE_DATABASE_URL", database).start();
        let [grpc, dashboard] = process.wait_for_urls(TIMEOUT);
        let grpc = authority(&grpc).parse().expect("an address");
        Self { process, read: Mutex::default(), grpc, http: authority(&dashboard).to_owned() }
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// What it has logged so far, beyond what was waited for.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut read = self.read.lock().expect("no test panics while it reads");
        read.extend(self.process.take_stderr_lines());
        read.clone()
    }

    /// Waits for a log line with all of `words`.
    pub(super) fn wait_for_line(&self, words: &[&str]) -> String {
        wait_until(
            || format!("a line with {words:?}, among:\n{}", self.lines().join("\n")),
            || self.lines().into_iter().find(|line| words.iter().all(|word| line.contains(word))),
        )
    }

    /// The fleet that the server reports.
    fn fleet(&self) -> Value {
        json(&self.http, "/v1/clusters?pageSize=1000")
    }
}

pub(super) fn fleet_of<'f>(fleet: &'f Value, name: &str) -> Option<&'f Value> {
    let name = format!("clusters/{name}");
    fleet["clusters"].as_array()?.iter().find(|cluster| cluster["name"] == *name)
}

/// A lease in the database; times in seconds since 1970 by the database's clock.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) owner: String,
    pub(super) epoch: u64,
    pub(super) expires: f64,
    /// When it was read.
    pub(super) now: f64,
}

/// Servers, proxy, cloud and database. Fields are dropped in this order: servers before their
/// dependencies.
pub(super) struct Environment {
    pub(super) first: Server,
    pub(super) second: Server,
    pub(super) proxy: TcpProxy,
    runtime: Runtime,
    client: SimulatedCloudServiceClient<Channel>,
    _cloud: RunningProcess,
    postgres: Postgres,
    settings: String,
    cloud_address: String,
    _folder: TempDir,
}

impl Environment {
    /// Starts two servers with one configuration, whose leases last for `lease`, and a cloud with
    /// these flags. The proxy targets the first one. `None` without PostgreSQL.
    pub(super) fn start(test: &str, lease: Duration, cloud: &[&str]) -> Option<Self> {
        let postgres = Postgres::start(test)?;
        let flags = ["simulated-cloud", "--until-input-ends", "--boot", "200ms", "--seed", "1"];
        let cloud = Program::new(SIMULATOR, &[&flags[..], cloud].concat()).start_with_stdout();
        let address = cloud.next_stdout_line(TIMEOUT);
        let folder = TempDir::new();
        let settings = folder.write_file("fleetwright.toml", settings(lease));
        let url = postgres.url();
        let first = Server::start(&settings, &address, &url);
        let second = Server::start(&settings, &address, &url);
        let runtime = Runtime::new().expect("a runtime");
        let channel = {
            let _inside = runtime.enter();
            Channel::from_shared(address.clone()).expect("the cloud logs its address").connect_lazy()
        };
        let client = SimulatedCloudServiceClient::new(channel).max_decoding_message_size(MAX_LEDGER_BYTES);
        let proxy = TcpProxy::start(first.grpc);
        Some(Self {
            first,
            second,
            proxy,
            runtime,
            client,
            _cloud: cloud,
            postgres,
            settings,
            cloud_address: address,
            _folder: folder,
        })
    }

    /// Starts another server with the same configuration.
    pub(super) fn start_another(&self) -> Server {
        Server::start(&self.settings, &self.cloud_address, &self.postgres.url())
    }

    /// Waits until a condition holds.
    pub(super) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        wait_until(|| format!("{what}, while\n{}", self.logged()), || holds().then_some(()));
    }

    /// Starts the agent of a simulated cluster that requests nodes from the beginning. Its script
    /// repeats: a cluster without any Node is implausible, and no orphaned instance is terminated
    /// for it.
    pub(super) fn agent(&self, cluster: &str) -> RunningProcess {
        let server = &self.proxy.address;
        let flags = ["simulated-agent", "--server", server, "--cluster-name", cluster, "--seed", "1", "--repeat"];
        Program::new(SIMULATOR, &[&flags[..], &["--log", "warn"]].concat()).start()
    }

    pub(super) fn set_faults(&self, faults: v1::SetFaultProfileRequest) {
        let mut client = self.client.clone();
        self.runtime.block_on(client.set_fault_profile(faults)).expect("the cloud accepts the fault profile");
    }

    /// Launches an instance that no server requested.
    pub(super) fn launch(&self, request: v1::LaunchRequest) {
        let mut client = self.client.clone();
        let launched = self.runtime.block_on(client.launch(request)).expect("the cloud answers").into_inner();
        assert!(launched.instance.is_some(), "{launched:?}");
    }

    pub(super) fn ledger(&self) -> v1::ReadLedgerResponse {
        let mut client = self.client.clone();
        self.runtime
            .block_on(client.read_ledger(v1::ReadLedgerRequest {}))
            .expect("the cloud returns its ledger")
            .into_inner()
    }

    fn logged(&self) -> String {
        [&self.first, &self.second].map(|server| server.lines().join("\n")).join("\n\n")
    }

    /// Waits until `matches` returns a value for the ledger.
    pub(super) fn wait_until_ledger<T>(&self, what: &str, matches: impl Fn(&v1::ReadLedgerResponse) -> Option<T>) -> T {
        wait_until(|| format!("{what}, while\n{}", self.logged()), || matches(&self.ledger()))
    }

    /// NodeClaims with more than one launched instance.
    pub(super) fn double_launches(&self) -> Vec<String> {
        let ledger = self.ledger();
        let instances = ledger.entries.iter().filter_map(|entry| entry.instance.as_ref());
        let mut claims: Vec<String> =
            instances.map(|instance| format!("{}/{}", instance.cluster, instance.claim)).collect();
        claims.sort();
        let mut twice: Vec<String> =
            claims.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
        twice.dedup();
        twice
    }

    /// The database's clock, in seconds since 1970.
    pub(super) fn database_now(&self) -> f64 {
        self.postgres.query("SELECT extract(epoch FROM clock_timestamp())").parse().expect("a moment")
    }

    fn find_lease(&self, scope: &str) -> Option<Lease> {
        let row = self.postgres.query(&format!(
            "SELECT owner, epoch, extract(epoch FROM expires_at), extract(epoch FROM clock_timestamp()) FROM lease_ends
             WHERE scope = '{scope}'"
        ));
        let mut columns = row.split('|');
        Some(Lease {
            owner: columns.next()?.to_owned(),
            epoch: columns.next()?.parse().ok()?,
            expires: columns.next()?.parse().ok()?,
            now: columns.next()?.parse().ok()?,
        })
    }

    /// The lease of `scope`, which must exist.
    pub(super) fn lease(&self, scope: &str) -> Lease {
        self.find_lease(scope).unwrap_or_else(|| panic!("no replica has the lease of {scope}"))
    }

    /// Waits until the lease of `scope` exists and `matches` accepts it.
    pub(super) fn wait_until_lease(&self, scope: &str, mut matches: impl FnMut(&Lease) -> bool) -> Lease {
        wait_until(
            || format!("the lease of {scope}, which is {:?}, while\n{}", self.find_lease(scope), self.logged()),
            || self.find_lease(scope).filter(|lease| matches(lease)),
        )
    }

    /// Waits until `matches` accepts a server's view of the fleet.
    pub(super) fn wait_until_fleet(&self, server: &Server, what: &str, matches: impl Fn(&Value) -> bool) {
        wait_until(|| format!("{what}; it shows\n{:#}", server.fleet()), || matches(&server.fleet()).then_some(()));
    }
}

/// Polls until there is a value.
pub(super) fn wait_until<T>(what: impl Fn() -> String, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = poll() {
            return seen;
        }
        assert!(Instant::now() < end, "waited for {}", what());
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Configuration of both servers. The simulated agents scale to nothing every half minute, which the removal rate limit of ten
/// minutes would stop.
fn settings(lease: Duration) -> String {
    format!(
        r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[control]
batch-idle = "100ms"
batch-max = "500ms"
gc-after = "4s"
[guardrails]
removal-window = "10s"
[lease]
duration = "{}ms"
[store]
memory = false
"#,
        lease.as_millis()
    )
}
