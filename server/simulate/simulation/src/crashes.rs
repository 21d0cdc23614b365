//! `fleetwright-sim simulate crashes`: real server processes on a real PostgreSQL, killed repeatedly
//! while they launch instances.
//!
//! The cloud is a separate process with slow calls, so its ledger outlives every server. Clusters
//! and agents run in this process; their workloads keep changing, also while no server runs. Each
//! kill is aimed at one of three crash points of a launch ([`crash_points`]); where it really hit
//! is determined afterwards from the cloud's ledger and the database's rows. In the end the load
//! stops and the system must settle; then the server is killed once more, and meanwhile each
//! cluster loses a NodeClaim by force, as when an operator removes a stuck finalizer. Recovery
//! handles what a kill leaves; garbage collection handles orphaned instances. The result is
//! computed from ledgers alone: an instance that is billed and has no NodeClaim is a leak, and a
//! NodeClaim with two instances a double launch.
//!
//! Reading order: [`run`], [`clusters`] (the load), [`processes`], [`crash_points`], [`database`]
//! (rows of the database).

mod clusters;
mod crash_points;
mod database;
mod plan;
mod processes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use cloud::simulated::SeededRng;
use fleetwright_proto::simulation::v1;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use tokio_stream::StreamExt;
use tonic::Streaming;
use tracing::info;

use crate::cloud_interface::CloudInterface;
use clusters::Clusters;
pub use crash_points::CrashPoint;
use crash_points::Kill;
use database::Database;
pub use plan::Plan;
use processes::ARRIVAL_MS;

use crate::ledgers;
use crate::measured::{percentile, seconds};
use crate::simulated_cloud::remote::{self, Client};

/// Limit until launches resume after a kill; beyond it, decisions did not resume.
const RESUME_TIMEOUT: Duration = Duration::from_secs(90);

/// Limit for settling after the load stops, including garbage collection, back-off and boot.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between comparisons of the ledgers while the system settles.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum random delay from an observed launch to the kill, in milliseconds.
const MAX_AIM_MS: i64 = 40;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub kills: usize,
    #[serde(rename = "databaseCuts")]
    pub cuts: usize,
    #[serde(rename = "databaseRestarts")]
    pub restarts: usize,
    /// NodeClaims removed by force while no server ran.
    #[serde(rename = "nodeClaimsRemoved")]
    pub claims_removed: usize,
    #[serde(rename = "windows")]
    pub hits: Hits,
    /// Time from each kill to the next launch that reached the cloud, in milliseconds.
    #[serde(flatten, serialize_with = "resumed")]
    pub resumed_ms: Vec<u64>,
    /// Launch calls that reached the cloud.
    pub launches: usize,
    #[serde(rename = "machinesSold")]
    pub launched: usize,
    /// Instances that are billed at the end.
    #[serde(rename = "machinesAlive")]
    pub alive: usize,
    pub pods_ran: u64,
    /// Pods that do not run at the end.
    #[serde(rename = "podsWaiting")]
    pub waiting: usize,
    /// Instances without a NodeClaim: provider ids.
    pub leaked: Vec<String>,
    /// NodeClaims with more than one instance: cluster and name.
    #[serde(rename = "doubled")]
    pub launched_twice: Vec<String>,
    /// NodeClaims whose instance has terminated: cluster and name.
    #[serde(rename = "claimsWithoutMachine")]
    pub hollow: Vec<String>,
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

/// Where kills hit.
#[derive(Debug, Serialize)]
pub struct Hits {
    /// Kills that hit each crash point of at least one launch.
    #[serde(flatten)]
    pub crash_points: BTreeMap<CrashPoint, usize>,
    /// Kills that hit no crash point.
    #[serde(rename = "none")]
    pub elsewhere: usize,
}

impl Default for Hits {
    fn default() -> Self {
        Self { crash_points: CrashPoint::ALL.map(|crash_point| (crash_point, 0)).into(), elsewhere: 0 }
    }
}

fn resumed<S: Serializer>(times: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let figures = [("resumedMillisP50", 50), ("resumedMillisP99", 99)];
    serializer.collect_map(figures.map(|(name, percent)| (name, percentile(times, percent))))
}

impl Report {
    pub fn is_success(&self) -> bool {
        self.leaked.is_empty() && self.launched_twice.is_empty() && self.hollow.is_empty() && self.waiting == 0
    }
}

/// Runs the crash test.
///
/// # Errors
/// When something cannot be started, or decisions do not resume.
pub async fn run(plan: &Plan) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let (url, mut own) = crate::processes::database(plan.options.database_url.as_ref())?;
    let database = Database::connect(&url).await?;
    let cloud = processes::cloud(plan).await?;
    let mut server = processes::server(plan, &url, &cloud)?;
    // A name that no earlier run on this database has used.
    let run = format!("crash-{:x}", now_us() / 1000);
    let clusters = Clusters::start(&run, plan, &format!("http://{}", server.grpc));
    let mut killer = Killer::new(plan, remote::client(&cloud.address)?).await?;
    killer.client.set_fault_profile(cloud_faults()).await.context("cannot set the simulated cloud's fault profile")?;
    let mut report = Report::default();
    let mut kills = Vec::new();
    let mut started = now_us();
    for number in 1..=plan.times {
        killer.wait_for_crash_point(number, &report.hits.crash_points).await?;
        let at = now_us();
        server.kill().await?;
        let dead = Instant::now();
        kills.push(Kill { started, at });
        clusters.change_workloads();
        started = now_us();
        server.restart()?;
        killer.wait_for_launch().await.with_context(|| format!("after kill {number}"))?;
        report.resumed_ms.push(u64::try_from(dead.elapsed().as_millis()).unwrap_or(u64::MAX));
        if plan.cut_every > 0 && number % plan.cut_every == 0 {
            report.cuts += 1;
            database.cut_connections().await?;
            killer.wait_for_launch().await.context("after the database's connections were cut")?;
            if let Some(own) = &mut own {
                report.restarts += 1;
                tokio::task::block_in_place(|| own.kill().and_then(|()| own.restart()))?;
                killer.wait_for_launch().await.context("after the database was restarted")?;
            }
        }
        classify(&mut report, &kills, &mut killer.client, &database, &run, plan.cloud).await?;
        info!(number, crash_points = ?report.hits.crash_points, "killed server");
    }
    clusters.stop_load();
    settle(&mut report, &mut killer.client, &clusters).await?;
    server.kill().await?;
    report.claims_removed = clusters.remove_claims_by_force();
    server.restart()?;
    settle(&mut report, &mut killer.client, &clusters).await?;
    (report.kills, report.took) = (kills.len(), begun.elapsed());
    server.stop().await;
    Ok(report)
}

/// Cloud faults in addition to kills: lost answers, failing and stale listings, unavailable
/// offerings.
fn cloud_faults() -> v1::SetFaultProfileRequest {
    v1::SetFaultProfileRequest {
        lost_answers_percent: Some(3),
        failed_lists_percent: Some(10),
        list_lag_ms: Some(500),
        shortage_percent: Some(5),
        ..v1::SetFaultProfileRequest::default()
    }
}

/// Counts the crash points that the last kill hit.
async fn classify(
    report: &mut Report,
    kills: &[Kill],
    cloud: &mut Client,
    database: &Database,
    run: &str,
    interface: CloudInterface,
) -> anyhow::Result<()> {
    let Some(kill) = kills.last() else { return Ok(()) };
    let ledger = cloud.read_ledger(v1::ReadLedgerRequest {}).await?.into_inner();
    let mut rows = database.intents(run, kill.started).await?;
    if interface == CloudInterface::Ec2 {
        rows.iter_mut().for_each(|row| row.token = ec2_token(&row.cluster, &row.token));
    }
    let hit = crash_points::hit(kill, &rows, &ledger.launches);
    report.hits.elsewhere += usize::from(hit.is_empty());
    for crash_point in hit {
        *report.hits.crash_points.entry(crash_point).or_default() += 1;
    }
    Ok(())
}

/// The client token of an order on EC2: the first half of a hash over cluster and token.
fn ec2_token(cluster: &str, token: &str) -> String {
    let digest = Sha256::digest(format!("{cluster}\n{token}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until cloud and clusters agree and every pod runs, within a limit; then fills in the
/// results.
async fn settle(report: &mut Report, cloud: &mut Client, clusters: &Clusters) -> anyhow::Result<()> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let ledger = cloud.read_ledger(v1::ReadLedgerRequest {}).await?.into_inner();
        compare_ledgers(report, &ledger, clusters);
        if (report.leaked.is_empty() && report.hollow.is_empty() && report.waiting == 0) || Instant::now() > deadline {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn compare_ledgers(report: &mut Report, ledger: &v1::ReadLedgerResponse, clusters: &Clusters) {
    let compared = ledgers::compare(ledger, &clusters.fleet.claims());
    report.launches = ledger.launches.len();
    report.launched = ledger.entries.len();
    report.alive = compared.alive;
    (report.leaked, report.launched_twice, report.hollow) = (compared.leaked, compared.launched_twice, compared.hollow);
    (report.pods_ran, report.waiting) = clusters.pods();
}

/// Watches launches and picks the moment of each kill.
struct Killer {
    client: Client,
    launch_watch: Streaming<v1::WatchResponse>,
    rng: SeededRng,
}

impl Killer {
    async fn new(plan: &Plan, client: Client) -> anyhow::Result<Self> {
        let launch_watch =
            client.clone().watch(v1::WatchRequest {}).await.context("cannot watch the cloud")?.into_inner();
        Ok(Self { client, launch_watch, rng: SeededRng::new(plan.options.seed).child("kills") })
    }

    /// Waits for a moment that probably lies in the crash point hit least often, plus a random
    /// delay.
    async fn wait_for_crash_point(&mut self, number: u32, hits: &BTreeMap<CrashPoint, usize>) -> anyhow::Result<()> {
        let rng = self.rng.child_number(u64::from(number));
        let crash_point = if rng.child("anywhere").percent(20) {
            CrashPoint::ALL[usize::try_from(rng.child("window").between((0, 2))).unwrap_or(0)]
        } else {
            hits.iter()
                .min_by_key(|(_, count)| **count)
                .map_or(CrashPoint::CallToResponse, |(crash_point, _)| *crash_point)
        };
        // Events buffered by the watch before this call are outdated.
        let since = now_us();
        let answered = crash_point == CrashPoint::ResponseToRecord;
        let fresh = |call: &v1::LaunchCall| match call.answered_us {
            Some(at) => answered && at > since,
            None => !answered && call.arrived_us > since,
        };
        self.until(fresh).await?;
        let wait = match crash_point {
            CrashPoint::ResponseToRecord => 0,
            CrashPoint::IntentToCall | CrashPoint::CallToResponse => rng.child("wait").between((0, MAX_AIM_MS)),
        };
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        Ok(())
    }

    /// Waits for a launch sent after this call: calls of the killed process may still arrive for a
    /// while.
    async fn wait_for_launch(&mut self) -> anyhow::Result<()> {
        let since = now_us() + ARRIVAL_MS * 1_000;
        self.until(|call| call.answered_us.is_some() && call.arrived_us > since).await
    }

    async fn until(&mut self, wanted: impl Fn(&v1::LaunchCall) -> bool) -> anyhow::Result<()> {
        let watch = async {
            while let Some(moved) = self.launch_watch.next().await {
                if moved?.launch.as_ref().is_some_and(&wanted) {
                    return Ok(());
                }
            }
            Err(anyhow!("the simulated cloud exited"))
        };
        let late = |_| {
            anyhow!(
                "no launch reached the cloud within {} s: decisions did not resume; see the server's log (--log)",
                RESUME_TIMEOUT.as_secs()
            )
        };
        tokio::time::timeout(RESUME_TIMEOUT, watch).await.map_err(late)?
    }
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
