//! Processes are killed at the worst points. Nothing is lost or launched twice, according to the
//! cloud's ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, taints, wait_until};
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, Skip, TestBed};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use store_postgres::postgres_local::LocalPostgres;

use crate::scale::wait_until_nothing_is_paid;

const TIMEOUT: Duration = Duration::from_secs(90);

/// Progress of the newest machine when a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashPoint {
    /// Pods are pending, and nothing is launched.
    Pending,
    Claimed,
    Launched,
    /// The Node exists, with the unregistered taint.
    Joined,
}

/// The crash points in the order in which a machine reaches them.
const CRASH_POINTS: [CrashPoint; 4] =
    [CrashPoint::Pending, CrashPoint::Claimed, CrashPoint::Launched, CrashPoint::Joined];

#[derive(Debug, Clone, Copy)]
enum Target {
    Agent,
    Server,
}

async fn count(environment: &Environment, api_version: &str, kind: &str) -> anyhow::Result<usize> {
    Ok(environment.cluster.objects(api_version, kind).list(&ListParams::default()).await?.items.len())
}

/// Waits until the newest of `machines` reaches `crash_point`.
async fn wait_until_crash_point(
    environment: &Environment,
    crash_point: CrashPoint,
    machines: usize,
) -> anyhow::Result<()> {
    let poll = || async {
        let there = match crash_point {
            CrashPoint::Pending => environment.cluster.pods().await?.len(),
            CrashPoint::Claimed => count(environment, "karpenter.sh/v1", "NodeClaim").await?,
            CrashPoint::Launched => environment.ledger.read_ledger().await?.launch_count(),
            CrashPoint::Joined => environment.cluster.nodes().await?.len(),
        };
        Ok(if there >= machines { Poll::Ready(()) } else { Poll::Pending(format!("{there} of {machines}")) })
    };
    wait_until(&format!("{crash_point:?}"), TIMEOUT, poll).await
}

fn kill_and_start(environment: &mut Environment, target: Target) -> anyhow::Result<()> {
    let process = match target {
        Target::Agent => &mut environment.agent,
        Target::Server => &mut environment.server,
    };
    process.kill()?;
    process.start()
}

/// m5.large has 1930 millicores for pods, so every pod of 1500 millicores needs a node of its own.
async fn one_kind(environment: &Environment) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    environment.apply_pool("default", requirements, json!({})).await?;
    environment.cluster.deploy("web", 0, "1500m", "1Gi", json!({})).await
}

/// Adds a machine for each crash point; the target is killed at that point and restarted at once.
/// Then all pods are deleted, and the target is killed while the nodes drain.
async fn kill_at_every_point(environment: &mut Environment, target: Target) -> ScenarioResult {
    one_kind(environment).await?;
    let start = Instant::now();
    for (done, crash_point) in CRASH_POINTS.into_iter().enumerate() {
        // One machine more for each crash point, so that exactly one machine is in progress.
        let machines = done + 1;
        environment.cluster.scale("web", u32::try_from(machines)?).await?;
        wait_until_crash_point(environment, crash_point, machines).await?;
        kill_and_start(environment, target)?;
        environment
            .cluster
            .wait_until_ready(i32::try_from(machines)?, TIMEOUT)
            .await
            .with_context(|| format!("{crash_point:?}"))?;
        let nodes =
            environment.wait_until_ledger_matches_cluster(TIMEOUT).await.with_context(|| format!("{crash_point:?}"))?;
        ensure!(nodes == machines, "{nodes} nodes for {machines} pods after a kill at {crash_point:?}");
    }
    let up = start.elapsed();
    environment.cluster.scale("web", 0).await?;
    let draining = || async {
        let nodes = environment.cluster.nodes().await?;
        let draining = nodes.iter().filter(|node| taints(node).contains(&"karpenter.sh/disrupted")).count();
        Ok(if draining > 0 || nodes.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending(format!("{} nodes", nodes.len()))
        })
    };
    wait_until("a node drains", TIMEOUT, draining).await?;
    kill_and_start(environment, target)?;
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    wait_until_nothing_is_paid(environment).await?;
    environment.ensure_no_double_launches().await?;
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(
        launched == CRASH_POINTS.len(),
        "{launched} instances were launched where {} were needed",
        CRASH_POINTS.len()
    );
    Ok(format!(
        "killed at {CRASH_POINTS:?} and while draining: {launched} instances launched for {} pods, none doubled, none left; up after {:.1} s",
        CRASH_POINTS.len(),
        up.as_secs_f64()
    ))
}

/// `kill -9` of the agent.
pub(super) async fn of_the_agent(test_bed: Arc<TestBed>) -> ScenarioResult {
    let mut environment = Environment::start(&test_bed, "agent-dies", Options::default()).await?;
    let result = kill_at_every_point(&mut environment, Target::Agent).await;
    result.with_context(|| environment.log_tails())
}

/// `kill -9` of the server. Its state is in the database, and objects and instances are in cluster
/// and cloud.
pub(super) async fn of_the_server(test_bed: Arc<TestBed>) -> ScenarioResult {
    let skip = || Skip("needs PostgreSQL's server programs, and finds none".to_owned());
    let postgres = LocalPostgres::temporary()?.ok_or_else(skip)?;
    let database = Some(postgres.url());
    let mut environment =
        Environment::start(&test_bed, "server-dies", Options { database, ..Options::default() }).await?;
    let result = kill_at_every_point(&mut environment, Target::Server).await;
    result.with_context(|| environment.log_tails())
}

/// The API server is killed while a machine boots, and is restarted once the agent has lost its Lease.
pub(super) async fn of_the_api_server(test_bed: Arc<TestBed>) -> ScenarioResult {
    let mut environment = Environment::start(&test_bed, "api-server-dies", Options::default()).await?;
    run_of_the_api_server(&test_bed, &mut environment).await.with_context(|| environment.log_tails())
}

async fn run_of_the_api_server(test_bed: &TestBed, environment: &mut Environment) -> ScenarioResult {
    one_kind(environment).await?;
    environment.cluster.scale("web", 3).await?;
    wait_until_crash_point(environment, CrashPoint::Launched, 1).await?;
    let mut control_plane = test_bed.control_plane.lock().await;
    control_plane.kill()?;
    let (away, agent) = (Instant::now(), environment.agent.id());
    // It renews its Lease no more, drops everything, and waits for the Lease again by itself.
    environment.agent.wait_for_line(&["leader lease lost"], TIMEOUT).await?;
    control_plane.restart()?;
    let away = away.elapsed();
    drop(control_plane);
    let start = Instant::now();
    environment.cluster.wait_until_ready(3, TIMEOUT).await?;
    let ready = start.elapsed();
    ensure!(environment.agent.id() == agent, "the agent was started again");
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == 3, "{nodes} nodes for 3 pods");
    environment.cluster.scale("web", 0).await?;
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    wait_until_nothing_is_paid(environment).await?;
    environment.ensure_no_double_launches().await?;
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 3, "{launched} instances were launched where 3 were needed");
    let claims = environment.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&ListParams::default()).await?.items;
    ensure!(claims.is_empty(), "left: {:?}", claims.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    Ok(format!(
        "away for {:.1} s; three pods ready {:.1} s after it came back",
        away.as_secs_f64(),
        ready.as_secs_f64()
    ))
}
