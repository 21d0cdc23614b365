//! `fleetwright-sim simulate load`: many simulated clusters with real agents, and their cost for a
//! server.
//!
//! Every cluster starts with nodes full of running pods. Once a minute a burst of pods arrives that
//! fits on no node, so an instance is launched, joins, runs the pods, is empty when they are
//! deleted, and is removed. Consolidation is on: the server examines the nodes of each cluster after its changes. The server's work is read from its metrics and from the operating
//! system's accounting of its process; the cost of this process is reported separately.
//!
//! Without an external server the command starts everything itself: a durable PostgreSQL, a
//! simulated cloud and a server, each as a process. Then disturbances follow: the server is killed
//! and restarted, a second replica joins, one of the two is killed, and one is shut down; for each
//! it reports the time until every cluster has an owner again.
//!
//! | figure | what it is |
//! |---|---|
//! | taken in | from the first agent's start until the last cluster's snapshot is accepted |
//! | decided | from the end of a batch window until the plan is made and verified, by the server's clock |
//! | ordered | from the same moment until the decision is in the store and the NodeClaim instruction is sent |
//! | consolidation | how long plans of disruption take, on threads of the lowest priority |
//! | written | rows and bytes of the write-ahead log, by PostgreSQL's statistics |
//! | owned again | from a disturbance until each cluster has an owner that accepted its snapshot |
//! | meanwhile | usage of the processes until then |
//!
//! Servers report when a snapshot was accepted ([`Metrics::synced`]), so that snapshots from before
//! a disturbance do not count.
//!
//! Measurement begins after one whole round of bursts: the first decision of a cluster writes its
//! whole input to the log, which recurs twice a day and is reported separately.
//!
//! Each phase is reported when it ends ([`Progress`]): a run takes a quarter of an hour, and an
//! aborted one has reported its finished phases.
//!
//! Reading order: [`run`], [`clusters`] (clusters and bursts), [`test_bed`] (servers, cloud,
//! database), [`balancer`] (connections to replicas), [`quotes`], [`metrics`] and [`usage`] (measurements).

mod balancer;
mod clusters;
mod disruption;
pub(crate) mod metrics;
mod plan;
mod quotes;
mod test_bed;
mod usage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clusters::Clusters;
pub use disruption::DisruptionWaits;
pub use metrics::Percentiles;
use metrics::{Metrics, POLL_INTERVAL};
use model::{ClusterName, Timestamp};
pub use plan::Plan;
use test_bed::TestBed;
use usage::UsageSample;
pub use usage::{Interval, Usage};

use store::clock;

/// Limit until every cluster has an owner.
const OWNED_TIMEOUT: Duration = Duration::from_secs(900);

/// Limit until the pods of the last bursts run.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Debug, Default)]
pub struct Report {
    /// From the first agent's start until every cluster had an owner.
    pub startup: Recovery,
    /// Bytes of whole inputs in the log, written by first decisions.
    pub whole_inputs: Option<i64>,
    /// Measurement without disturbances.
    pub steady: Interval,
    /// Quotes over all clusters during that, by the clock of the client.
    pub quotes: Option<Percentiles>,
    pub disturbances: Vec<Disturbance>,
    /// Clusters without an owner at the end.
    pub unowned: usize,
    /// NodeClaims with more than one launched instance: cluster and name. `None` if the cloud is
    /// external.
    pub launched_twice: Option<Vec<String>>,
    /// Created pods, including the initial ones.
    pub pods_created: u64,
    /// Pods of bursts that never ran.
    pub waiting: usize,
}

#[derive(Debug)]
pub struct Disturbance {
    pub what: &'static str,
    /// Until every cluster had an owner again.
    pub recovery: Recovery,
    /// From the disturbance until one round of bursts after recovery.
    pub interval: Interval,
}

/// Time until every cluster had an owner.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Time until the last cluster had an owner.
    pub took: Duration,
    pub meanwhile: Interval,
}

struct StartMark {
    at: Instant,
    /// The same moment by the clock that servers report in.
    clock: Timestamp,
    usage: UsageSample,
}

impl StartMark {
    async fn record(test_bed: &TestBed) -> anyhow::Result<Self> {
        Ok(Self { at: Instant::now(), clock: clock::now(), usage: UsageSample::collect(test_bed).await? })
    }
}

/// Which snapshots count as synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnapshotFilter {
    /// Any accepted snapshot: clusters that the disturbance did not affect keep theirs.
    Any,
    /// Snapshots accepted after the start: the disturbance affected all clusters.
    Since,
}

#[derive(Debug)]
pub enum Progress<'r> {
    /// Every cluster has an owner.
    Connected(&'r Report),
    /// The measurement without disturbances is complete.
    Steady(&'r Report),
    Disturbance(&'r Disturbance),
    Ended(&'r Report),
}

impl Report {
    pub fn is_success(&self) -> bool {
        self.unowned == 0 && self.waiting == 0 && self.launched_twice.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Runs the load test and reports each phase when it ends.
///
/// # Errors
/// When something cannot be started or reached, when some cluster gets no owner, or when progress
/// cannot be written.
pub async fn run(
    plan: &Plan,
    report_progress: &mut impl FnMut(Progress<'_>) -> std::io::Result<()>,
) -> anyhow::Result<Report> {
    let mut test_bed = TestBed::prepare(plan).await?;
    let mut clusters = Clusters::create(plan);
    for instances in clusters.instances() {
        test_bed.add_instances(instances).await?;
    }
    let start = StartMark::record(&test_bed).await?;
    clusters.start(plan, &test_bed.target());
    let startup = wait_until_owned(plan, &test_bed, &clusters, &start, SnapshotFilter::Any).await?;
    let mut report = Report { startup, ..Report::default() };
    report_progress(Progress::Connected(&report))?;
    clusters.burst();
    // The last cluster's first burst comes a period after the first one's, and its effects take
    // half a period.
    tokio::time::sleep(plan.period + plan.period / 2).await;
    report.whole_inputs = test_bed.whole_inputs().await?;
    (report.steady, report.quotes) =
        tokio::try_join!(measure(&test_bed, &clusters, plan.measured_for), quote(plan, &test_bed))?;
    report_progress(Progress::Steady(&report))?;
    if plan.target.is_none() && !plan.steady {
        disturb(plan, &mut test_bed, &clusters, &mut |disturbance: Disturbance| {
            report_progress(Progress::Disturbance(&disturbance))?;
            report.disturbances.push(disturbance);
            Ok(())
        })
        .await?;
    }
    clusters.stop_bursts();
    settle(&clusters, &mut report).await;
    report.unowned = plan.clusters.saturating_sub(synced_clusters(&test_bed).await.len());
    report.launched_twice = test_bed.launched_twice().await?;
    test_bed.stop().await;
    report_progress(Progress::Ended(&report))?;
    Ok(report)
}

async fn measure(test_bed: &TestBed, clusters: &Clusters, measured_for: Duration) -> anyhow::Result<Interval> {
    let before = UsageSample::collect(test_bed).await?;
    tokio::time::sleep(measured_for).await;
    let longest = clusters.longest_wait();
    Ok(UsageSample::collect(test_bed).await?.since(&before, longest))
}

/// Requests quotes for a given time, if the plan has them.
async fn quote(plan: &Plan, test_bed: &TestBed) -> anyhow::Result<Option<Percentiles>> {
    let Some(interval) = plan.quote_interval else { return Ok(None) };
    quotes::request_quotes(test_bed.target(), plan.clusters, interval, plan.measured_for).await.map(Some)
}

/// Applies the disturbances in order while bursts continue.
async fn disturb(
    plan: &Plan,
    test_bed: &mut TestBed,
    clusters: &Clusters,
    record_disturbance: &mut impl FnMut(Disturbance) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    // Each phase starts from a settled fleet: the previous measurement has waited for that.
    test_bed.kill(0).await?;
    let start = StartMark::record(test_bed).await?;
    test_bed.restart(0)?;
    let what = "the only replica killed and started again";
    record_disturbance(measure_recovery(what, plan, test_bed, clusters, &start, SnapshotFilter::Since).await?)?;
    if plan.only_restart {
        return Ok(());
    }
    test_bed.join(plan)?;
    let start = rebalance(test_bed).await?;
    let what = "a second replica joined, and every connection was cut";
    record_disturbance(measure_recovery(what, plan, test_bed, clusters, &start, SnapshotFilter::Since).await?)?;
    test_bed.kill(0).await?;
    let start = StartMark::record(test_bed).await?;
    record_disturbance(
        measure_recovery("one of two replicas killed", plan, test_bed, clusters, &start, SnapshotFilter::Any).await?,
    )?;
    test_bed.restart(0)?;
    let start = rebalance(test_bed).await?;
    wait_until_owned(plan, test_bed, clusters, &start, SnapshotFilter::Since).await?;
    tokio::time::sleep(plan.period / 2).await;
    let start = StartMark::record(test_bed).await?;
    test_bed.leave(1).await?;
    record_disturbance(
        measure_recovery("one of two replicas asked to leave", plan, test_bed, clusters, &start, SnapshotFilter::Any)
            .await?,
    )?;
    Ok(())
}

/// Cuts every connection once every server is ready, so that agents are spread evenly.
async fn rebalance(test_bed: &TestBed) -> anyhow::Result<StartMark> {
    test_bed.ready().await?;
    let start = StartMark::record(test_bed).await?;
    test_bed.rebalance();
    Ok(start)
}

/// Waits until every cluster has an owner again and a round of bursts is over.
async fn measure_recovery(
    what: &'static str,
    plan: &Plan,
    test_bed: &TestBed,
    clusters: &Clusters,
    start: &StartMark,
    filter: SnapshotFilter,
) -> anyhow::Result<Disturbance> {
    let recovery = wait_until_owned(plan, test_bed, clusters, start, filter).await?;
    tokio::time::sleep(plan.period).await;
    let interval = UsageSample::collect(test_bed).await?.since(&start.usage, clusters.longest_wait());
    Ok(Disturbance { what, recovery, interval })
}

/// Waits until every cluster has an owner. Own servers report the moment by this machine's clock;
/// for an external server the moment of observation counts.
async fn wait_until_owned(
    plan: &Plan,
    test_bed: &TestBed,
    clusters: &Clusters,
    start: &StartMark,
    filter: SnapshotFilter,
) -> anyhow::Result<Recovery> {
    loop {
        let mut owned = synced_clusters(test_bed).await;
        owned.retain(|_, since| filter == SnapshotFilter::Any || *since >= start.clock);
        if owned.len() >= plan.clusters {
            let last = owned.into_values().max().filter(|_| test_bed.is_ours());
            let by_server = last.map(|last| clock::duration(last.duration_since(start.clock)));
            let took = by_server.unwrap_or_else(|| start.at.elapsed());
            let meanwhile = UsageSample::collect(test_bed).await?.since(&start.usage, clusters.longest_wait());
            return Ok(Recovery { took, meanwhile });
        }
        if start.at.elapsed() > OWNED_TIMEOUT {
            let (waited, owned) = (OWNED_TIMEOUT.as_secs(), owned.len());
            return Err(anyhow!(
                "after {waited} s replicas hold synced leases of only {owned} of {} clusters",
                plan.clusters
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Clusters whose snapshot a replica has accepted, and when. A replica that does not answer is
/// skipped.
async fn synced_clusters(test_bed: &TestBed) -> BTreeMap<ClusterName, Timestamp> {
    let mut synced_clusters: BTreeMap<ClusterName, Timestamp> = BTreeMap::new();
    for page in test_bed.pages() {
        if let Ok(metrics) = Metrics::read(page).await {
            for (cluster, since) in metrics.synced() {
                let known = synced_clusters.entry(ClusterName::from(cluster)).or_insert(since);
                *known = since.max(*known);
            }
        }
    }
    synced_clusters
}

/// Waits until every pod of a burst runs, within a limit.
async fn settle(clusters: &Clusters, report: &mut Report) {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        (report.pods_created, report.waiting) = clusters.pods();
        if report.waiting == 0 || Instant::now() > deadline {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
