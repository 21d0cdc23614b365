//! `fleetwright demo`: the whole system on one machine.
//!
//! The server runs in this process, with its store in memory and a simulated cloud. Every cluster is a process of its own,
//! [`simulated_agent`]: a simulation behind the agent's port, and the agent, which speaks the real protocol over loopback.
//! The verdict at the end is drawn from the books of the cloud and of the clusters, not from what the server believes.
//!
//! Reading order: [`script`] (what happens in a cluster), [`owner`] (what its owner wrote), [`agent`] (the simulation as an
//! API server), [`books`] (what a cluster writes down), [`children`] (the processes), [`verdict`] (how it went).

pub(crate) mod agent;
mod books;
mod children;
pub(crate) mod owner;
mod script;
mod verdict;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cloud::simulated::{Bucket, ClockedCloud, FaultProfile};
use engine::control;

use crate::clouds;
use crate::config::LeaseConfig;
use crate::log::every;
use crate::log::replay::ReplayError;
use crate::serve::{self, Parts, Server};
use crate::session::Ledger;
use crate::store::Store;
use crate::store::lease::Scope;
use crate::store::log::{Retention, StoredDecision};
use crate::store::memory::MemoryStore;
use crate::trust::book::Book;
use books::Books;
use children::Children;

pub(crate) use agent::SimulatedApi;
pub(crate) use children::{input_ended, simulated_agent};

/// The region of the demo.
const REGION: &str = "us-east-1";

/// How long the server may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// Names of the clusters; further ones are numbered.
const NAMES: [&str; 6] = ["amber", "blue", "coral", "dune", "ember", "fern"];

/// What is to be shown.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The demo ends when the script does, at the latest after this; `None` repeats the script until it is told to stop.
    pub(crate) at_most: Option<Duration>,
    /// Seed of everything that chance decides.
    pub(crate) seed: u64,
    /// The cloud has nothing to sell.
    pub(crate) no_capacity: bool,
    /// Number of clusters.
    pub(crate) clusters: u8,
    /// Port of the page.
    pub(crate) port: u16,
    /// What is logged.
    pub(crate) log: String,
    /// Every decision is made again at the end, from the log.
    pub(crate) replay: bool,
}

/// Shows it; says whether all went well.
///
/// # Errors
/// What could not be started.
pub(crate) async fn run(plan: Plan) -> anyhow::Result<bool> {
    let stop = ::agent::asked_to_stop();
    let cloud = Arc::new(clouds::simulated(weather(&plan), REGION, None)?);
    let parts = parts(&plan, Arc::clone(&cloud));
    let store = Arc::clone(&parts.store);
    let server = Server::start(parts).await?;
    say(&format!("live page: http://{}/\n", server.http))?;
    let names: Vec<String> = (0..usize::from(plan.clusters)).map(name).collect();
    let mut children = Children::start(&names, server.grpc, &plan)?;
    let stopped = tokio::select! {
        () = stop => true,
        told = tell(&mut children) => told.map(|()| false)?,
        () = after(plan.at_most) => false,
    };
    let books = children.stop().await;
    server.stop(GRACE).await;
    let verdict = verdict::draw(&books, &cloud.cloud(), stopped);
    say(&verdict.text)?;
    let repeated = !plan.replay || replay(&*store).await?;
    Ok(verdict.well && repeated)
}

/// Makes every decision again, from the log alone; says whether all came out the same.
async fn replay(store: &dyn Store) -> anyhow::Result<bool> {
    let decisions = every::read(store, None, usize::MAX, |_| true).await?;
    let mut lines = Vec::new();
    let tell = |stored: &StoredDecision, verdict: &Result<_, ReplayError>| {
        if !matches!(verdict, Err(ReplayError::NoPlan { .. })) {
            lines.push(every::sentence(stored, verdict));
        }
    };
    let tally = every::replay(store, decisions, tell).await?;
    lines.iter().try_for_each(|line| say(&format!("{line}\n")))?;
    say(&format!("{tally}\n"))?;
    Ok(tally.is_well())
}

/// Prints every scene as it begins, and ends when every script has.
async fn tell(children: &mut Children) -> anyhow::Result<()> {
    while !children.are_finished() {
        let (name, before, books) = children.next().await?;
        if before.scene != books.scene {
            say(&line(&name, &books))?;
        }
    }
    Ok(())
}

fn line(name: &str, books: &Books) -> String {
    let Books { scene, running, waiting, nodes, .. } = books;
    format!("{name}: {scene} ({running} pods run, {waiting} wait, {nodes} nodes)\n")
}

fn say(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // Nobody reads any more; the demo is still worth its exit status.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

async fn after(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

fn name(number: usize) -> String {
    NAMES.get(number).map_or_else(|| format!("cluster-{}", number + 1), |name| (*name).to_owned())
}

/// A cloud that boots machines within seconds, has shortages, takes spot machines back, loses answers and slows down callers
/// that are too quick.
fn weather(plan: &Plan) -> FaultProfile {
    FaultProfile {
        seed: plan.seed,
        boot_ms: (1_000, 2_500),
        shutdown_ms: 800,
        no_capacity: plan.no_capacity,
        shortage_percent: 15,
        interrupted_percent: 10,
        interrupted_after_ms: (3_000, 6_000),
        lost_answers_percent: 3,
        calls: Bucket::new(40, 50),
        list_lag_ms: 500,
        ..FaultProfile::default()
    }
}

fn parts(plan: &Plan, cloud: Arc<ClockedCloud>) -> Parts {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Parts {
        grpc: loopback(0),
        http: loopback(plan.port),
        book: Arc::new(Book::open()),
        certificates: None,
        store: Arc::new(MemoryStore::new()),
        own: None,
        retention: Retention::default(),
        cloud,
        settings: control::Settings {
            batch_idle_ms: 500,
            batch_max_ms: 2_000,
            retry_ms: 2_000,
            disruption_pass_ms: 1_000,
            sold_out_ms: 20_000,
            // No earlier process has numbered anything: the agents are as fresh as the server.
            first_number: 1,
            ..serve::settings()
        },
        lease: LeaseConfig { owner: "demo".to_owned(), duration: Duration::from_secs(30) },
        scope: Scope::Region { account: "demo".to_owned(), region: REGION.to_owned() },
        ledger: Ledger::default(),
        region: REGION.to_owned(),
        catalogue: None,
        shared: std::collections::BTreeMap::new(),
    }
}
