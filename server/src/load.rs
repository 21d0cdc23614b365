//! `fleetwright simulate load`: many simulated clusters with real agents against a running server.
//!
//! Every cluster begins with nodes that are full of running pods, and once a minute a burst of pods comes that fits nowhere.
//! What the server makes of it is read from the server's own metrics and from the system's account of its process; what this
//! process costs is told apart.
//!
//! Reading order: [`run`], [`clusters`] (what is there, and the bursts), [`gauges`] (what is read).

mod clusters;
mod gauges;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tracing::info;

use clusters::Clusters;
use gauges::{Account, Database, Metrics};

/// How long all clusters may take until the server decides for them.
const CONNECT: Duration = Duration::from_secs(600);

/// How often the server is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Clusters.
    pub(crate) clusters: usize,
    /// Nodes of each.
    pub(crate) nodes: usize,
    /// Pods that run in each.
    pub(crate) pods: usize,
    /// Pods that come to each once a minute.
    pub(crate) burst: usize,
    /// The server's gRPC address, as `http://host:port`.
    pub(crate) target: String,
    /// Where the server's metrics are.
    pub(crate) page: SocketAddr,
    /// The server's process on this machine, if it is here.
    pub(crate) server_pid: Option<u32>,
    /// The server's database.
    pub(crate) database_url: Option<String>,
    /// How long the bursts go on.
    pub(crate) lasts: Duration,
    /// Seed of everything that chance decides.
    pub(crate) seed: u64,
}

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// From the first agent's start until the server decided for every cluster.
    pub(crate) connected: Duration,
    /// How long was measured.
    pub(crate) measured: Duration,
    /// Decisions to buy, and the upper bounds of their latency beyond the batch window, in milliseconds: half, and 99 of 100.
    pub(crate) decisions: u64,
    /// Half of the decisions came within so many milliseconds.
    pub(crate) p50_ms: f64,
    /// 99 of 100 decisions came within so many milliseconds.
    pub(crate) p99_ms: f64,
    /// The server's memory at the end, in bytes, and processors that it kept busy; `None` when its process is not known.
    pub(crate) server: Option<(u64, f64)>,
    /// The same of this process.
    pub(crate) generator: Option<(u64, f64)>,
    /// Rows and bytes that the database wrote per second; `None` when it is not known.
    pub(crate) written: Option<(f64, f64)>,
    /// Pods that were made, those that the clusters began with included.
    pub(crate) pods_made: u64,
    /// Pods that wait at the end.
    pub(crate) waiting: usize,
}

/// Does it.
///
/// # Errors
/// When the server cannot be reached, or does not take every cluster in.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Report> {
    let database = match &plan.database_url {
        Some(url) => Some(Database::connect(url).await?),
        None => None,
    };
    Metrics::read(plan.page).await?;
    let begun = Instant::now();
    let clusters = Clusters::start(plan);
    until_connected(plan, begun).await?;
    let mut report = Report { connected: begun.elapsed(), ..Report::default() };
    info!(seconds = report.connected.as_secs_f64(), "the server decides for every cluster");
    let before = Account::take(plan, database.as_ref()).await?;
    clusters.burst();
    tokio::time::sleep(plan.lasts).await;
    let after = Account::take(plan, database.as_ref()).await?;
    after.since(&before, &mut report);
    (report.pods_made, report.waiting) = clusters.pods();
    Ok(report)
}

async fn until_connected(plan: &Plan, begun: Instant) -> anyhow::Result<()> {
    loop {
        let connected = Metrics::read(plan.page).await?.connected();
        if connected >= plan.clusters {
            return Ok(());
        }
        if begun.elapsed() > CONNECT {
            let waited = CONNECT.as_secs();
            return Err(anyhow!("after {waited} s the server decides for {connected} of {} clusters", plan.clusters));
        }
        tokio::time::sleep(LOOK).await;
    }
}
