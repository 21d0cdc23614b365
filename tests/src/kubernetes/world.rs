//! Fleetwright around one cluster: a simulated cloud whose book outlives every server, a server, and the agent, which runs
//! outside the cluster under its own service account and the role of `deploy/`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::book::Book;
use super::cluster::{Cluster, Seen, until};
use super::joiner::Joiner;
use super::kubelets::{Kubelets, Pace};
use super::machine::Types;
use super::process::Process;
use super::suite::Stage;
use super::{deploy, empty};
use crate::Folder;

/// The region of every world.
pub const REGION: &str = "us-east-1";
/// Namespace and name of the agent's service account in `deploy/`.
pub const AGENT: (&str, &str) = ("fleetwright-system", "fleetwright-agent");
/// The cluster's name in the fleet.
pub const CLUSTER: &str = "e2e";
/// Names a folder that keeps the logs of all worlds, for whoever looks for the cause of something.
pub const LOGS: &str = "FLEETWRIGHT_E2E_LOGS";
/// What server and agent log, such as `debug`.
pub const LOG_FILTER: &str = "FLEETWRIGHT_E2E_LOG_FILTER";
/// How long a process may take to say that it is up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one world has that another has not.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Lines of the server's configuration file, each a table and its keys.
    pub server: String,
    /// Where the server keeps what it must not lose; in memory when absent.
    pub database: Option<String>,
    /// Name of the service account that the agent has in its namespace; its own when absent.
    pub account: Option<&'static str>,
    /// How quick machines are.
    pub pace: Pace,
    /// By what server and agent know each other; nobody is asked who they are when absent.
    pub secured: Option<Secured>,
}

/// Settings by which server and agent know each other, as environment variables. They speak over TLS.
#[derive(Debug, Clone, Default)]
pub struct Secured {
    /// Of the server.
    pub server: Vec<(&'static str, String)>,
    /// Of the agent.
    pub agent: Vec<(&'static str, String)>,
}

/// A cluster, a cloud, a server, an agent.
pub struct World {
    /// What a scenario does and sees.
    pub cluster: Cluster,
    /// What the cloud says.
    pub book: Book,
    /// Where the server listens for agents and programs.
    pub grpc: String,
    /// The server.
    pub server: Process,
    /// The agent.
    pub agent: Process,
    /// Those who play the nodes.
    pub kubelets: Arc<Kubelets>,
    _joiner: Joiner,
    _cloud: Process,
    _folder: Folder,
}

impl World {
    /// An empty cluster with everything around it, and no NodePool yet. Pods of the scenario live in `e2e-<name>`.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(stage: &Stage, name: &str, options: Options) -> anyhow::Result<Self> {
        let mut world = Self::prepare(stage, name, options).await?;
        world.begin().await?;
        Ok(world)
    }

    /// The same before server and agent are started.
    ///
    /// # Errors
    /// When the cluster cannot be emptied, or the cloud does not start.
    pub async fn prepare(stage: &Stage, namespace: &str, options: Options) -> anyhow::Result<Self> {
        let cluster = Cluster::with_namespace(&stage.client, namespace).await?;
        empty::all_that_scenarios_make(&cluster).await?;
        let folder = Folder::new();
        let logs = logs(&cluster.namespace, &folder)?;
        let log = |name: &str| logs.join(name);
        let mut cloud = cloud(&stage.programs.server, log("cloud.log"));
        cloud.start()?;
        let address = cloud.line_with(&["http://"], PATIENCE).await?;
        let book = Book::at(&address)?;
        let kubelets = Arc::new(Kubelets::new(stage.client.clone(), options.pace));
        let joiner = Joiner::start(book.clone(), Types::builtin(REGION)?, Arc::clone(&kubelets));
        // The server comes back to its address after a restart, so it is chosen here.
        let grpc = free_address()?;
        let config = folder.file("fleetwright.toml", configuration(&grpc, &address, &options.server));
        let scheme = if options.secured.is_some() { "https" } else { "http" };
        let secured = options.secured.unwrap_or_default();
        let server = server(&stage.programs.server, config, log("server.log"), options.database).envs(secured.server);
        let kubeconfig = log("agent.kubeconfig");
        let account = (AGENT.0, options.account.unwrap_or(AGENT.1));
        let administrator = stage.plane.lock().await.kubeconfig().to_owned();
        deploy::kubeconfig_of(&cluster, &administrator, account, &kubeconfig).await?;
        let at = format!("{scheme}://{grpc}");
        let agent = agent(&stage.programs.agent, CLUSTER, &at, &kubeconfig, log("agent.log")).envs(secured.agent);
        Ok(Self { cluster, book, grpc, server, agent, kubelets, _joiner: joiner, _cloud: cloud, _folder: folder })
    }

    /// Starts server and agent.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn begin(&mut self) -> anyhow::Result<()> {
        self.server.start()?;
        self.server.line_with(&["live page"], PATIENCE).await?;
        self.agent.start()
    }

    /// What server and agent said last, for whoever has to find out why a scenario failed.
    #[must_use]
    pub fn last_words(&self) -> String {
        format!("server:\n{}\nagent:\n{}", self.server.last_lines(), self.agent.last_lines())
    }

    /// A NodePool without limits whose nodes may be of these kinds, and the NodeClass that it names.
    ///
    /// # Errors
    /// When the API server refuses either.
    pub async fn pool(&self, name: &str, requirements: Value, disruption: Value) -> anyhow::Result<()> {
        self.cluster.apply(node_class()).await?;
        let mut disrupted = json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s",
                                    "budgets": [{ "nodes": "100%" }] });
        if let (Some(all), Value::Object(more)) = (disrupted.as_object_mut(), disruption) {
            all.extend(more);
        }
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        let pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": { "name": name },
            "spec": {
                "disruption": disrupted,
                "template": { "spec": { "nodeClassRef": class, "requirements": requirements, "expireAfter": "Never" } },
            },
        });
        self.cluster.apply(pool).await.map(drop)
    }

    /// Waits until what is paid for is what the cluster has as nodes, machine by machine; returns how many.
    ///
    /// # Errors
    /// When the two differ for longer than `patience`.
    pub async fn until_book_and_cluster_agree(&self, patience: Duration) -> anyhow::Result<usize> {
        let look = || async {
            let paid = self.book.read().await?.paid_ids();
            let mut nodes: Vec<String> = self.cluster.nodes().await?.iter().map(ResourceExt::name_any).collect();
            nodes.sort_unstable();
            let (count, told) = (paid.len(), format!("paid for: {paid:?}; nodes: {nodes:?}"));
            Ok(if paid == nodes { Seen::Done(count) } else { Seen::NotYet(told) })
        };
        until("every machine that is paid for is a node, and every node is paid for", patience, look).await
    }

    /// The book says what it must say at any time: no NodeClaim was ever sold two machines.
    ///
    /// # Errors
    /// When one was.
    pub async fn nothing_doubled(&self) -> anyhow::Result<()> {
        let doubles = self.book.read().await?.doubles();
        ensure!(doubles.is_empty(), "more than one machine for one NodeClaim: {}", doubles.join(", "));
        Ok(())
    }
}

/// Where the logs of a world are kept: below the folder that [`LOGS`] names, else until the world ends.
fn logs(world: &str, folder: &Folder) -> anyhow::Result<PathBuf> {
    let Some(kept) = std::env::var_os(LOGS).filter(|kept| !kept.is_empty()) else {
        return Ok(folder.path().to_owned());
    };
    let kept = PathBuf::from(kept).join(world);
    // What an earlier run left would be taken for this one's words.
    let _none_yet = std::fs::remove_dir_all(&kept);
    std::fs::create_dir_all(&kept).with_context(|| format!("cannot make the folder {}", kept.display()))?;
    Ok(kept)
}

/// Nothing of this process's environment reaches the programs under test, but for what is to be logged.
fn talkative(process: Process, variable: &str) -> Process {
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

/// Every world's cloud has a seed of its own, so that machines of one world have no namesakes in another.
fn cloud(program: &Path, log: PathBuf) -> Process {
    static SEED: AtomicU32 = AtomicU32::new(1);
    let seed = SEED.fetch_add(1, Ordering::Relaxed).to_string();
    let arguments = ["simulated-cloud", "--region", REGION, "--boot", "500ms", "--until-input-ends", "--seed", &seed];
    let arguments = arguments.into_iter().map(str::to_owned).collect();
    Process::new("the simulated cloud", program.to_owned(), arguments, log)
}

fn server(program: &Path, config: String, log: PathBuf, database: Option<String>) -> Process {
    let arguments = vec!["serve".to_owned(), "--config".to_owned(), config];
    let server = Process::new("the server", program.to_owned(), arguments, log);
    let server = talkative(server, "FLEETWRIGHT_LOG_FILTER");
    match database {
        Some(url) => server.env("DATABASE_URL", url),
        None => server.env("FLEETWRIGHT_STORE_MEMORY", "true"),
    }
}

/// The agent that speaks for `cluster` to the server at `server`, not started yet.
#[must_use]
pub fn agent(program: &Path, cluster: &str, server: &str, kubeconfig: &Path, log: PathBuf) -> Process {
    let arguments = ["--server", server, "--cluster-name", cluster, "--region", REGION].map(str::to_owned).to_vec();
    // It ends when it cannot renew its Lease for long, on a machine or an API server that stands still.
    let agent =
        Process::new("the agent", program.to_owned(), arguments, log).comes_back_after("two replicas never work");
    let agent = agent.env("KUBECONFIG", kubeconfig.display().to_string());
    talkative(agent, "FLEETWRIGHT_AGENT_LOG")
}

/// Without a database everything is kept in memory. Scenarios empty whole clusters within a minute, which the rails hold back: a share of the machines stays for a while.
fn configuration(grpc: &str, cloud: &str, more: &str) -> String {
    format!(
        "[listen]\ngrpc = \"{grpc}\"\nhttp = \"127.0.0.1:0\"\n\
         [cloud]\nprovider = \"simulated\"\nregion = \"{REGION}\"\naddress = \"{cloud}\"\n\
         [store]\nmemory = true\n\
         [rails]\nremoval-percent-per-cluster = 0\nremoval-percent-per-fleet = 0\n{more}"
    )
}

fn free_address() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}
