//! Fleetwright around one cluster: a simulated cloud whose ledger outlives every server, a server,
//! and the agent, which runs outside the cluster under its own service account and the role of
//! `deploy/`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cleanup;
use super::cluster::{Cluster, Poll, wait_until};
use super::deploy::{self, AGENT};
use super::kubelets::{KubeletTiming, Kubelets};
use super::ledger::LedgerClient;
use super::machine::Types;
use super::node_joiner::NodeJoiner;
use super::process::Process;
use super::suite::TestBed;
use crate::TempDir;

pub const REGION: &str = "us-east-1";
/// The cluster's name in the fleet.
pub const CLUSTER: &str = "e2e";
/// Variable that names a folder for the logs of all environments.
pub const LOGS: &str = "FLEETWRIGHT_E2E_LOGS";
/// Variable with the log filter of server and agent, such as `debug`.
pub const LOG_FILTER: &str = "FLEETWRIGHT_E2E_LOG_FILTER";
/// Timeout for the start of a process.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Lines of the server's configuration file, each a table and its keys.
    pub server: String,
    /// URL of the server's database; in memory when absent.
    pub database: Option<String>,
    /// Name of the agent's service account in its namespace; that of `deploy/` when absent.
    pub account: Option<&'static str>,
    pub timing: KubeletTiming,
    /// Credentials of server and agent; no authentication when absent.
    pub credentials: Option<Credentials>,
}

/// TLS and authentication settings, as environment variables.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    pub server: Vec<(&'static str, String)>,
    pub agent: Vec<(&'static str, String)>,
}

/// A cluster, a simulated cloud, a server and an agent.
pub struct Environment {
    pub cluster: Cluster,
    pub ledger: LedgerClient,
    pub grpc: String,
    pub server: Process,
    pub agent: Process,
    pub kubelets: Arc<Kubelets>,
    _joiner: NodeJoiner,
    _cloud: Process,
    _folder: TempDir,
}

impl Environment {
    /// An empty cluster with all processes, without a NodePool. Pods of the scenario are in
    /// `e2e-<name>`.
    ///
    /// # Errors
    /// When a process does not start.
    pub async fn start(test_bed: &TestBed, name: &str, options: Options) -> anyhow::Result<Self> {
        let mut environment = Self::prepare_environment(test_bed, name, options).await?;
        environment.start_processes().await?;
        Ok(environment)
    }

    /// The same without starting server and agent.
    ///
    /// # Errors
    /// When the cluster cannot be emptied, or the cloud does not start.
    pub async fn prepare_environment(test_bed: &TestBed, namespace: &str, options: Options) -> anyhow::Result<Self> {
        let cluster = Cluster::with_namespace(&test_bed.client, namespace).await?;
        cleanup::delete_scenario_objects(&cluster).await?;
        let folder = TempDir::new();
        let logs = log_folder(&cluster.namespace, &folder)?;
        let log = |name: &str| logs.join(name);
        let mut cloud = cloud(&test_bed.programs.simulator, log("cloud.log"));
        cloud.start()?;
        let address = cloud.wait_for_line(&["http://"], TIMEOUT).await?;
        let ledger = LedgerClient::connect(&address)?;
        let kubelets = Arc::new(Kubelets::new(test_bed.client.clone(), options.timing));
        let joiner = NodeJoiner::start(ledger.clone(), Types::builtin(REGION)?, Arc::clone(&kubelets));
        // The server must have the same address after a restart, so it is chosen here.
        let grpc = free_address()?;
        let config = folder.write_file("fleetwright.toml", configuration(&grpc, &options.server));
        let scheme = if options.credentials.is_some() { "https" } else { "http" };
        let credentials = options.credentials.unwrap_or_default();
        let flags = ["serve", "--config", &config, "--cloud-address", &address].map(str::to_owned);
        let server = server(&test_bed.programs.simulator, flags.into(), log("server.log"), options.database);
        let server = server.envs(credentials.server);
        let kubeconfig = log("agent.kubeconfig");
        let account = (AGENT.0, options.account.unwrap_or(AGENT.1));
        let administrator = test_bed.control_plane.lock().await.kubeconfig().to_owned();
        deploy::write_kubeconfig(&cluster, &administrator, account, &kubeconfig).await?;
        let at = format!("{scheme}://{grpc}");
        let agent =
            agent(&test_bed.programs.agent, CLUSTER, &at, &kubeconfig, log("agent.log")).envs(credentials.agent);
        Ok(Self { cluster, ledger, grpc, server, agent, kubelets, _joiner: joiner, _cloud: cloud, _folder: folder })
    }

    /// Starts server and agent.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_processes(&mut self) -> anyhow::Result<()> {
        self.server.start()?;
        self.server.wait_for_line(&["dashboard"], TIMEOUT).await?;
        self.agent.start()
    }

    /// The last log lines of server and agent, for the report of a failure.
    #[must_use]
    pub fn log_tails(&self) -> String {
        format!("server:\n{}\nagent:\n{}", self.server.log_tail(), self.agent.log_tail())
    }

    /// A NodePool without limits whose nodes may be of these kinds, and the NodeClass that it
    /// names.
    ///
    /// # Errors
    /// When the API server rejects either.
    pub async fn apply_pool(&self, name: &str, requirements: Value, disruption: Value) -> anyhow::Result<()> {
        self.apply_changed_pool(name, requirements, json!({ "spec": { "disruption": disruption } })).await
    }

    /// The same, with `change` merged into the NodePool (RFC 7396).
    ///
    /// # Errors
    /// When the API server rejects either.
    pub async fn apply_changed_pool(&self, name: &str, requirements: Value, change: Value) -> anyhow::Result<()> {
        self.cluster.apply(node_class()).await?;
        let disruption = json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s",
                                 "budgets": [{ "nodes": "100%" }] });
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": { "name": name },
            "spec": {
                "disruption": disruption,
                "template": { "spec": { "nodeClassRef": class, "requirements": requirements, "expireAfter": "Never" } },
            },
        });
        json_patch::merge(&mut pool, &change);
        self.cluster.apply(pool).await.map(drop)
    }

    /// Waits until the instances that incur cost are exactly the nodes of the cluster; returns
    /// their number.
    ///
    /// # Errors
    /// When the two differ for longer than `timeout`.
    pub async fn wait_until_ledger_matches_cluster(&self, timeout: Duration) -> anyhow::Result<usize> {
        let poll = || async {
            let paid = self.ledger.read_ledger().await?.paid_ids();
            let mut nodes: Vec<String> = self.cluster.nodes().await?.iter().map(ResourceExt::name_any).collect();
            nodes.sort_unstable();
            let (count, state) = (paid.len(), format!("paid for: {paid:?}; nodes: {nodes:?}"));
            Ok(if paid == nodes { Poll::Ready(count) } else { Poll::Pending(state) })
        };
        wait_until("every machine that is paid for is a node, and every node is paid for", timeout, poll).await
    }

    /// Verifies the ledger: no NodeClaim was launched twice.
    ///
    /// # Errors
    /// When one was.
    pub async fn ensure_no_double_launches(&self) -> anyhow::Result<()> {
        let double_launches = self.ledger.read_ledger().await?.double_launches();
        ensure!(double_launches.is_empty(), "more than one machine for one NodeClaim: {}", double_launches.join(", "));
        Ok(())
    }
}

/// Folder for the logs: below the folder in [`LOGS`], otherwise temporary.
fn log_folder(environment: &str, folder: &TempDir) -> anyhow::Result<PathBuf> {
    let Some(kept) = std::env::var_os(LOGS).filter(|kept| !kept.is_empty()) else {
        return Ok(folder.path().to_owned());
    };
    let kept = PathBuf::from(kept).join(environment);
    // Logs of an earlier run could be mistaken for those of this one.
    let _none_yet = std::fs::remove_dir_all(&kept);
    std::fs::create_dir_all(&kept).with_context(|| format!("cannot make the folder {}", kept.display()))?;
    Ok(kept)
}

/// The programs under test inherit nothing from this process's environment except the log filter.
fn with_log_filter(process: Process, variable: &str) -> Process {
    match std::env::var(LOG_FILTER) {
        Ok(filter) if !filter.is_empty() => process.env(variable, filter),
        _ => process,
    }
}

fn node_class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": { "name": "default" },
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "purpose": "e2e" } }],
            "securityGroupSelectorTerms": [{ "tags": { "purpose": "e2e" } }],
        },
    })
}

/// The cloud of every environment has a different seed, so that instance names differ between
/// environments.
fn cloud(program: &Path, log: PathBuf) -> Process {
    static SEED: AtomicU32 = AtomicU32::new(1);
    let seed = SEED.fetch_add(1, Ordering::Relaxed).to_string();
    let arguments = ["simulated-cloud", "--region", REGION, "--boot", "500ms", "--until-input-ends", "--seed", &seed];
    let arguments = arguments.into_iter().map(str::to_owned).collect();
    Process::new("the simulated cloud", program.to_owned(), arguments, log)
}

fn server(program: &Path, arguments: Vec<String>, log: PathBuf, database: Option<String>) -> Process {
    let server = Process::new("the server", program.to_owned(), arguments, log);
    let server = with_log_filter(server, "FLEETWRIGHT_LOG_FILTER");
    // Nothing is gained by the pauses between passes.
    let server = server.env("FLEETWRIGHT_DISRUPTION_PASS_INTERVAL", "1s");
    match database {
        Some(url) => server.env("DATABASE_URL", url),
        None => server.env("FLEETWRIGHT_STORE_MEMORY", "true"),
    }
}

/// The agent of `cluster` with its server at `server`, not started yet.
#[must_use]
pub fn agent(program: &Path, cluster: &str, server: &str, kubeconfig: &Path, log: PathBuf) -> Process {
    let arguments =
        ["--server-address", server, "--cluster-name", cluster, "--cluster-region", REGION].map(str::to_owned).to_vec();
    let agent = Process::new("the agent", program.to_owned(), arguments, log);
    let agent = agent.env("KUBECONFIG", kubeconfig.display().to_string());
    with_log_filter(agent, "FLEETWRIGHT_AGENT_LOG_FILTER")
}

/// Without a database the store is in memory. Scenarios empty whole clusters within a minute, so
/// the percentage limits on removals are disabled.
fn configuration(grpc: &str, more: &str) -> String {
    format!(
        "[listen]\ngrpc = \"{grpc}\"\nhttp = \"127.0.0.1:0\"\n\
         [cloud]\nregion = \"{REGION}\"\n\
         [store]\nmemory = true\n\
         [guardrails]\nremoval-percent-per-cluster = 0\nremoval-percent-per-fleet = 0\n{more}"
    )
}

fn free_address() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}
