//! `fleetwright-sim simulate holds`: many holds of capacity on two real servers with one PostgreSQL, both killed repeatedly.
//!
//! The cloud is a separate process with slow calls and shortages; clusters and agents run in this process, half of them with
//! each server. Clients create holds through either server, some with the quoted price as limit and some for offerings
//! without an alternative, repeat their requests with the same id, and then commit, release or forget them. A server is killed
//! with SIGKILL and started again all the while. The result is computed from what clients were told, from lists of holds, and
//! from the ledgers of cloud and clusters: no hold is lost, none exists twice, none is alive past its end, and in the end
//! exactly the machines of holds that are kept are billed.
//!
//! Reading order: [`run`], [`client`] (what clients do), [`check`] (what must hold).

mod check;
mod client;
mod plan;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use cloud::simulated::SeededRng;
use fleetwright_proto::simulation::v1;
use fleetwright_proto::v1::HoldState;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tracing::info;

use crate::fleet::Fleet;
use crate::processes::{CloudProcess, ServerProcess};
use crate::simulated_cloud::remote;
use check::Watcher;
use client::{Clients, Outcome};
pub use plan::Plan;
pub use report::Report;

/// Clients that hold capacity at one time.
const CLIENTS: usize = 24;

/// Time between two kills, in milliseconds.
const KILL_MS: (i64, i64) = (200, 1_500);

/// Limit for settling after the last command.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(180);

/// Interval between comparisons while the system settles.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the simulation.
///
/// # Errors
/// When something cannot be started, or a client gets no answer for too long.
pub async fn run(plan: &Plan) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let (url, _own) = crate::processes::database(plan.options.database_url.as_ref())?;
    let cloud = cloud(plan).await?;
    let mut ledger = remote::client(&cloud.address)?;
    ledger.set_fault_profile(cloud_faults()).await.context("cannot set the simulated cloud's fault profile")?;
    let servers: Vec<ServerProcess> =
        ["one", "two"].iter().map(|name| start_server(plan, &url, &cloud, name)).collect::<Result<_, _>>()?;
    let addresses: Vec<String> = servers.iter().map(|server| format!("http://{}", server.grpc)).collect();
    // A name that no earlier run on this database has used.
    let run = format!("holds-{:x}", store::clock::now().as_millis());
    let mut clusters = Fleet::of_fast_clusters(&run, plan.clusters, plan.options.seed);
    clusters.connect(&addresses);
    let rng = SeededRng::new(plan.options.seed);
    let clients = Arc::new(Clients::new(run, addresses.clone(), plan, rng.child("clients")));
    clients.wait_for_clusters().await?;
    let watcher = Watcher::start(addresses, rng.child("watcher"));
    let servers = Arc::new(Mutex::new(servers));
    let kills = Arc::new(AtomicUsize::new(0));
    let outcomes = hold_and_kill(plan, &clients, &servers, &kills, &rng).await?;
    info!(kills = kills.load(Ordering::Relaxed), holds = outcomes.len(), "no server is killed any more");
    let mut report = Report { kills: kills.load(Ordering::Relaxed), ..Report::default() };
    check::settle(&mut report, &clients, &clusters, &mut ledger, &outcomes, SETTLE_TIMEOUT, POLL_INTERVAL).await?;
    let seen = watcher.stop().await;
    let failed = outcomes.iter().filter(|one| one.state == HoldState::Failed);
    report.failed_with_nodes = failed.filter(|one| seen.with_nodes.contains(&one.name)).count();
    report.overdue = seen.overdue.into_iter().collect();
    report.repeated = clients.repeated();
    report.took = begun.elapsed();
    for server in servers.lock().await.drain(..) {
        server.stop().await;
    }
    Ok(report)
}

/// Clients hold capacity until there were enough holds and kills.
async fn hold_and_kill(
    plan: &Plan,
    clients: &Arc<Clients>,
    servers: &Arc<Mutex<Vec<ServerProcess>>>,
    kills: &Arc<AtomicUsize>,
    rng: &SeededRng,
) -> anyhow::Result<Vec<Outcome>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (clients, next, kills) = (Arc::clone(clients), Arc::clone(&next), Arc::clone(kills));
        let (least, all_kills) = (plan.holds, plan.kills);
        tasks.spawn(async move {
            let mut outcomes = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= least && kills.load(Ordering::Relaxed) >= all_kills {
                    return Ok::<_, anyhow::Error>(outcomes);
                }
                outcomes.push(clients.hold(number).await?);
            }
        });
    }
    for number in 0..plan.kills {
        let wait = rng.child("kill").child_number(number as u64).between(KILL_MS);
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        let mut servers = servers.lock().await;
        let server = &mut servers[number % 2];
        server.kill().await?;
        server.restart()?;
        drop(servers);
        kills.fetch_add(1, Ordering::Relaxed);
        // A killed server answers again before the other one is killed: the store is never without both for long.
        clients.wait_for_server(number % 2).await?;
    }
    let mut outcomes = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        outcomes.extend(ended??);
    }
    Ok(outcomes)
}

async fn cloud(plan: &Plan) -> anyhow::Result<CloudProcess> {
    let seed = plan.options.seed.to_string();
    let flags = ["--boot", "200ms", "--arrival", "50ms", "--answer", "50ms", "--seed", &seed];
    CloudProcess::start(&flags.map(str::to_owned)).await
}

/// Lost answers, failing listings, and offerings without capacity, so that groups of launches fail in part.
fn cloud_faults() -> v1::SetFaultProfileRequest {
    v1::SetFaultProfileRequest {
        lost_answers_percent: Some(2),
        failed_lists_percent: Some(5),
        list_lag_ms: Some(300),
        shortage_percent: Some(10),
        ..v1::SetFaultProfileRequest::default()
    }
}

fn start_server(plan: &Plan, url: &str, cloud: &CloudProcess, name: &str) -> anyhow::Result<ServerProcess> {
    let owner = format!("holds-{name}");
    let flags = [
        ["--cloud-address", &cloud.address],
        ["--lease-owner", &owner],
        ["--lease-duration", "15s"],
        ["--control-batch-idle", "50ms"],
        ["--control-batch-max", "300ms"],
        ["--control-gc-after", "4s"],
    ];
    ServerProcess::start(url, &plan.options.log, &flags)
}
