//! `fleetwright-sim simulate interruptions`: spot interruption notices for many clusters in a short time, through
//! EventBridge and SQS, while the server is killed.
//!
//! PostgreSQL, the simulated EC2 and the server are processes; clusters and agents run in this process. Every cluster
//! begins with full spot instances of the account. The notices are sent at even intervals in random order, some are
//! delivered twice, and halfway the server is killed and started again. The result is computed from the ledgers of
//! the cloud and the clusters and from the rows that the server stored: each notice is stored once, each instance's
//! Node is tainted, and every pod runs again in the end. The time from a notice to the taint is measured between the
//! cloud's process and the cluster, which share this machine's clock.
//!
//! Reading order: [`run`], [`clusters`].

mod clusters;
mod plan;

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cloud::simulated::SeededRng;
use fleetwright_proto::simulation::v1;
use model::{ProviderId, Timestamp};
use serde::{Serialize, Serializer};
use sqlx::Row as _;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tracing::info;

use self::clusters::Clusters;
pub use self::plan::Plan;
use crate::demo::REGION;
use crate::ledgers;
use crate::load::metrics::{Metrics, POLL_INTERVAL};
use crate::measured::{percentile, seconds};
use crate::processes::{CloudProcess, ServerProcess, database};
use crate::simulated_cloud::remote::{self, Client};
use server::clouds::simulated_account::{self, SimulatedAccount};
use store::clock;

const QUEUE: &str = "interruptions";

/// Limit until the server has accepted the snapshot of each cluster.
const OWNED_TIMEOUT: Duration = Duration::from_secs(600);

/// Limit until everything is replaced after the last notice.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Notices per distinct instance that the server stored.
const STORED: &str = "SELECT count(*), count(DISTINCT instance) FROM interruptions WHERE kind = 'spot_interrupted'";

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub clusters: usize,
    /// Notices sent, each for an instance of its own.
    pub notices: usize,
    /// From the first notice to the last.
    #[serde(rename = "sentSeconds", serialize_with = "seconds")]
    pub sent_in: Duration,
    pub kills: usize,
    /// Rows of notices, and instances that have one.
    pub rows: usize,
    pub instances_stored: usize,
    pub tainted: usize,
    /// From notice to taint, in milliseconds.
    #[serde(flatten, serialize_with = "to_taint")]
    pub to_taint_ms: Vec<u64>,
    pub launched: usize,
    /// Pods that do not run at the end.
    #[serde(rename = "podsWaiting")]
    pub waiting: usize,
    /// Billed instances without a NodeClaim: provider ids.
    pub leaked: Vec<String>,
    /// NodeClaims with more than one launched instance: cluster and name.
    #[serde(rename = "doubled")]
    pub launched_twice: Vec<String>,
    /// From the last notice until every pod ran again.
    #[serde(rename = "settledSeconds", serialize_with = "seconds")]
    pub settled_in: Duration,
}

fn to_taint<S: Serializer>(times: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let figures = [("taintMillisP50", 50), ("taintMillisP99", 99), ("taintMillisMax", 100)];
    serializer.collect_map(figures.map(|(name, percent)| (name, percentile(times, percent))))
}

impl Report {
    /// Whether no notice was lost and everything was replaced.
    pub fn is_success(&self) -> bool {
        let all_stored = self.rows == self.notices && self.instances_stored == self.notices;
        let all_replaced = self.tainted == self.notices && self.waiting == 0;
        all_stored && all_replaced && self.leaked.is_empty() && self.launched_twice.is_empty()
    }
}

/// An instance that is interrupted, and when the cloud announced it.
struct Interrupted {
    provider_id: ProviderId,
    at: Timestamp,
}

/// Runs the simulation.
///
/// # Errors
/// When something cannot be started, or the server does not own every cluster in time.
pub async fn run(plan: &Plan) -> anyhow::Result<Report> {
    let (url, _own) = database(plan.options.database_url.as_ref())?;
    let cloud = start_cloud(plan).await?;
    let endpoint = cloud.ec2.clone().ok_or_else(|| anyhow!("the simulated cloud has no EC2 account"))?;
    let account = SimulatedAccount { region: REGION.to_owned(), endpoint: endpoint.clone(), queue: QUEUE.to_owned() };
    simulated_account::set_up(&account).await?;
    let mut client = remote::client(&cloud.address)?;
    let mut clusters = Clusters::launch(plan, &mut client).await?;
    let mut server = start_server(plan, &url, &endpoint)?;
    clusters.fleet.connect(&[format!("http://{}", server.grpc)]);
    wait_until_owned(&server, plan.clusters).await?;
    info!(clusters = plan.clusters, "every cluster has an owner");
    let begun = Instant::now();
    let interrupted = interrupt(plan, &clusters, &mut client, &mut server).await?;
    let mut report = Report { clusters: plan.clusters, notices: interrupted.len(), ..Report::default() };
    (report.kills, report.sent_in) = (usize::from(!plan.without_kill), begun.elapsed());
    settle(&mut report, plan, &clusters, &interrupted, &mut client).await?;
    let database =
        PgPoolOptions::new().max_connections(1).connect(&url).await.context("cannot connect to the database")?;
    (report.rows, report.instances_stored) = stored(&database).await?;
    server.stop().await;
    Ok(report)
}

/// The account: some messages are delivered twice, and not in order.
async fn start_cloud(plan: &Plan) -> anyhow::Result<CloudProcess> {
    let faults = serde_json::json!({ "delivery": { "duplicatedPercent": 10, "delayMs": [0, 200] } }).to_string();
    let seed = plan.options.seed.to_string();
    let ec2 = ["--ec2-listen", "127.0.0.1:0", "--ec2-faults", &faults];
    let flags = ["--boot", "200ms", "--seed", &seed, "--region", REGION].into_iter().chain(ec2);
    CloudProcess::start(&flags.map(str::to_owned).collect::<Vec<_>>()).await
}

fn start_server(plan: &Plan, url: &str, endpoint: &str) -> anyhow::Result<ServerProcess> {
    let percent = plan.api_limit_percent.to_string();
    let flags = [
        ["--cloud", "ec2"],
        ["--cloud-api-limit-percent", &percent],
        ["--cloud-endpoint", endpoint],
        ["--interruption-queue", QUEUE],
        ["--lease-owner", "interruptions"],
    ];
    ServerProcess::start(url, &plan.options.log, &flags)
}

async fn wait_until_owned(server: &ServerProcess, clusters: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + OWNED_TIMEOUT;
    loop {
        let owned = Metrics::read(server.http).await.map_or(0, |metrics| metrics.synced().count());
        if owned >= clusters {
            return Ok(());
        }
        if Instant::now() > deadline {
            let waited = OWNED_TIMEOUT.as_secs();
            return Err(anyhow!(
                "after {waited} s the server has the snapshots of only {owned} of {clusters} clusters"
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Sends a notice for each instance at even intervals, and kills the server after the first half.
async fn interrupt(
    plan: &Plan,
    clusters: &Clusters,
    client: &mut Client,
    server: &mut ServerProcess,
) -> anyhow::Result<Vec<Interrupted>> {
    let instances = in_random_order(clusters.instances.clone(), plan.options.seed);
    let interval = plan.within.div_f64(instances.len().max(1) as f64);
    let mut due = tokio::time::interval(interval.max(Duration::from_micros(1)));
    let (mut interrupted, half) = (Vec::new(), instances.len() / 2);
    for (number, provider_id) in instances.into_iter().enumerate() {
        due.tick().await;
        if !plan.without_kill && number == half {
            server.kill().await?;
            server.restart()?;
            info!(notices = number, "killed and restarted the server");
        }
        let at = clock::now();
        let kind = v1::InterruptionKind::SpotInterrupted.into();
        client.interrupt(v1::InterruptRequest { id: provider_id.to_string(), kind }).await?;
        interrupted.push(Interrupted { provider_id, at });
    }
    Ok(interrupted)
}

fn in_random_order(mut instances: Vec<ProviderId>, seed: u64) -> Vec<ProviderId> {
    let rng = SeededRng::new(seed).child("order of notices");
    instances.sort_by_cached_key(|id| rng.child(id).value());
    instances
}

/// Waits until every Node is tainted, every pod runs and no instance is left over, within a limit; fills in the
/// results.
async fn settle(
    report: &mut Report,
    plan: &Plan,
    clusters: &Clusters,
    interrupted: &[Interrupted],
    client: &mut Client,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let tainted = clusters.tainted();
        let waits = interrupted.iter().filter_map(|one| {
            let waited = tainted.get(&one.provider_id)?.duration_since(one.at);
            Some(waited.get().max(0).unsigned_abs())
        });
        report.to_taint_ms = waits.collect();
        report.tainted = report.to_taint_ms.len();
        report.waiting = clusters.fleet.waiting();
        let ledger = client.read_ledger(v1::ReadLedgerRequest {}).await?.into_inner();
        let compared = ledgers::compare(&ledger, &clusters.fleet.claims());
        report.launched = ledger.entries.len().saturating_sub(plan.instances());
        (report.leaked, report.launched_twice) = (compared.leaked, compared.launched_twice);
        let is_done = report.tainted == report.notices && report.waiting == 0 && report.leaked.is_empty();
        if is_done || begun.elapsed() > SETTLE_TIMEOUT {
            report.settled_in = begun.elapsed();
            return Ok(());
        }
        info!(
            tainted = report.tainted,
            waiting = report.waiting,
            launched = report.launched,
            "waiting for replacements"
        );
        tokio::time::sleep(POLL_INTERVAL * 4).await;
    }
}

async fn stored(database: &PgPool) -> anyhow::Result<(usize, usize)> {
    let row = sqlx::query(STORED).fetch_one(database).await.context("cannot read the notices")?;
    let count = |column: usize| row.try_get::<i64, _>(column).map(|count| usize::try_from(count).unwrap_or(0));
    Ok((count(0)?, count(1)?))
}
