//! `fleetwright-sim demo`: the whole system on one machine.
//!
//! The server runs in this process with an in-memory store and a simulated cloud, which it calls as
//! EC2 over HTTP if asked to. Every cluster is a separate process, [`simulated_agent`]: a simulated
//! cluster behind the agent's port, and the agent, which speaks the real protocol over loopback. The
//! result is computed from the ledgers of the cloud and the clusters, not from the server's state;
//! of that, only recorded notices are compared with the interruptions in the cloud's ledger.
//!
//! Reading order: [`scenario`] (workload changes of a cluster), [`manifests`] (its NodePools and
//! EC2NodeClass), [`agent`] (the simulated API server), [`ledger`] (what a cluster records),
//! [`cluster_processes`], [`demo_cloud`], [`cloud_ledger`] (what the cloud records), [`notices`],
//! [`assessment`] (the result).

pub mod agent;
mod assessment;
mod cloud_ledger;
mod cluster_processes;
mod demo_cloud;
mod ledger;
pub mod manifests;
mod notices;
mod plan;
mod scenario;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cloud::provider::CloudProvider;
use model::{ClusterName, Millis};

use agent_session::SessionMemory;
use auth::authorizer::Authorizer;
use cluster_processes::ClusterProcesses;
use controller::guardrails::{GuardrailSettings, RateLimitRule};
use decision_log::replay::ReplayError;
use decision_log::replay_all;
use demo_cloud::DemoCloud;
use ledger::ClusterLedger;
pub(crate) use plan::REGION;
use server::serve::{self, RegionComponents, ServerComponents};
use server_settings::{ClusterRules, LeaseConfig};
use store::Store;
use store::lease::Scope;
use store::log::{Retention, StoredDecision};
use store::memory::MemoryStore;

pub(crate) use agent::SimulatedApi;
pub use cluster_processes::{input_ended, simulated_agent};
pub use plan::Plan;

const GRACE: Duration = Duration::from_secs(3);

/// Names of the clusters; further ones are numbered.
const NAMES: [&str; 6] = ["amber", "blue", "coral", "dune", "ember", "fern"];

/// Runs the demo; returns whether it succeeded.
///
/// # Errors
/// When something cannot be started.
pub async fn run(plan: Plan) -> anyhow::Result<bool> {
    let stop = serve::shutdown_signal();
    let cloud = DemoCloud::new(&plan)?;
    let components = components(&plan, cloud.simulated());
    let (store, scope) = (Arc::clone(&components.store), components.regions[0].scope.clone());
    let server = cloud.start_server(components).await?;
    print(&format!("live page: http://{}/\n", server.http))?;
    let names: Vec<ClusterName> = (0..usize::from(plan.clusters)).map(name).collect();
    let mut cluster_processes = ClusterProcesses::start(&names, server.grpc, &plan)?;
    let stopped = tokio::select! {
        () = stop => true,
        printed = print_steps(&mut cluster_processes) => printed.map(|()| false)?,
        () = wait_at_most(plan.at_most) => false,
    };
    let ledgers = cluster_processes.stop().await;
    let notices = cloud.notices(&*store, &scope).await?;
    server.stop(GRACE).await;
    let assessment = assessment::assess(&ledgers, &cloud.ledger(), notices.as_ref(), stopped);
    print(&assessment.text)?;
    let repeated = !plan.replay || replay(&*store).await?;
    Ok(assessment.success && repeated)
}

/// Replays every decision from the log; returns whether all results are identical.
async fn replay(store: &dyn Store) -> anyhow::Result<bool> {
    let decisions = replay_all::read(store, None, usize::MAX, |_| true).await?;
    let mut lines = Vec::new();
    let collect_line = |stored: &StoredDecision, outcome: &Result<_, ReplayError>| {
        if !matches!(outcome, Err(ReplayError::NotRecorded { .. })) {
            lines.push(replay_all::describe_outcome(stored, outcome));
        }
    };
    let tally = replay_all::replay(store, decisions, collect_line).await?;
    lines.iter().try_for_each(|line| print(&format!("{line}\n")))?;
    print(&format!("{tally}\n"))?;
    Ok(tally.is_success())
}

/// Prints each scenario step when it begins; ends when every scenario has ended.
async fn print_steps(cluster_processes: &mut ClusterProcesses) -> anyhow::Result<()> {
    while !cluster_processes.are_finished() {
        let (name, before, ledger) = cluster_processes.next().await?;
        if before.scene != ledger.scene {
            print(&step_line(&name, &ledger))?;
        }
    }
    Ok(())
}

fn step_line(name: &ClusterName, ledger: &ClusterLedger) -> String {
    let ClusterLedger { scene, running, waiting, nodes, .. } = ledger;
    format!("{name}: {scene} ({running} pods run, {waiting} wait, {nodes} nodes)\n")
}

fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // The reader has closed the pipe; the exit status still matters.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

async fn wait_at_most(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

fn name(number: usize) -> ClusterName {
    let numbered = || ClusterName::from(format!("cluster-{}", number + 1));
    NAMES.get(number).map_or_else(numbered, |name| ClusterName::from(*name))
}

/// Rate limits over a twentieth of their window, because what takes a cluster minutes takes the demo's clusters seconds.
fn guardrails() -> GuardrailSettings {
    let defaults = GuardrailSettings::default();
    let scaled = |rule: RateLimitRule| RateLimitRule { window: Millis::from_secs(30), ..rule };
    GuardrailSettings { launches: scaled(defaults.launches), removals: scaled(defaults.removals), ..defaults }
}

fn components(plan: &Plan, cloud: Arc<dyn CloudProvider>) -> ServerComponents {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    ServerComponents {
        grpc: loopback(0),
        http: loopback(plan.port),
        advertised: None,
        authorizer: Authorizer::allow_all(),
        certificates: None,
        store: Arc::new(MemoryStore::new()),
        own: None,
        retention: Retention::default(),
        settings: controller::Settings {
            batch_idle: Millis::new(500),
            batch_max: Millis::from_secs(2),
            retry_delay: Millis::from_secs(2),
            disruption_pass_interval: Millis::from_secs(1),
            unavailable_ttl: Millis::from_secs(20),
            guardrails: guardrails(),
            // No earlier process has used a number: the agents are as new as the server.
            first_number: 1,
            ..serve::settings()
        },
        planner: serve::new_planner,
        lease: LeaseConfig { owner: "demo".to_owned(), duration: Duration::from_secs(30) },
        regions: vec![RegionComponents::new(
            Scope::Region { account: "demo".to_owned(), region: REGION.to_owned() },
            cloud,
        )],
        conditions: Arc::default(),
        rules: ClusterRules::all_in_one(),
        session_memory: SessionMemory::default(),
        simulated: true,
        reads_interruptions: false,
        catalogue: None,
        shared: std::collections::BTreeMap::new(),
    }
}
