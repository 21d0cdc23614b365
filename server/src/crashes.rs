//! `fleetwright simulate crashes`: real server processes on a real PostgreSQL, killed again and again while they buy.
//!
//! The cloud is a process of its own with calls that take their time, so that its book outlives every server. The clusters
//! and their agents live here; their workloads come and go all the time, also while no server is there. Each kill is aimed
//! at one of three windows in the life of a launch ([`windows`]); where it really fell is found out afterwards, from the
//! cloud's book and the database's rows. At the end the load stops, and everything has to settle; then the server dies once
//! more, and while it is dead each cluster loses a NodeClaim, removed by force as people do who find that a finalizer does not
//! go: what a kill leaves is taken up by adoption, and a machine that nobody has is left to the collection. The verdict is
//! drawn from the books alone: a machine that is paid for and has no NodeClaim is a leak, and a NodeClaim with two machines a
//! double.
//!
//! Reading order: [`run`], [`clusters`] (the load), [`processes`], [`windows`], [`rows`] (what the database says).

mod clusters;
mod processes;
mod rows;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use cloud::simulated::SeededRng;
use fleetwright_proto::simulation::v1;
use tokio_stream::StreamExt;
use tonic::Streaming;
use tracing::info;

use crate::clouds::remote::{self, Client};
use crate::store::own::OwnServer;
use clusters::Clusters;
use processes::ARRIVAL_MS;
use rows::Database;
use windows::Kill;
pub(crate) use windows::Window;

/// How long a server may take until launches go on after a kill. Longer means that decisions did not resume.
const RESUME: Duration = Duration::from_secs(90);

/// How long the system may take to settle once the load has stopped: collection, back-offs and boots included.
const SETTLE: Duration = Duration::from_secs(120);

/// How often the books are looked at while the system settles.
const LOOK: Duration = Duration::from_millis(500);

/// From seeing a launch move to the kill, in milliseconds, at most.
const AIM_MS: i64 = 40;

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How often the server is killed.
    pub(crate) times: u32,
    /// Seed of everything that chance decides.
    pub(crate) seed: u64,
    /// PostgreSQL; `None` starts a throw-away one from this machine's binaries, which is restarted under load as well.
    pub(crate) database_url: Option<String>,
    /// Number of clusters.
    pub(crate) clusters: u8,
    /// The cloud ignores tokens.
    pub(crate) without_tokens: bool,
    /// The server collects no garbage.
    pub(crate) without_collection: bool,
    /// After how many kills the database's connections are cut once; 0 for never.
    pub(crate) cut_every: u32,
    /// What the server logs on standard error.
    pub(crate) log: String,
}

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Kills.
    pub(crate) kills: usize,
    /// How often the database's connections were cut.
    pub(crate) cuts: usize,
    /// How often the database was restarted.
    pub(crate) restarts: usize,
    /// Kills that fell into each window, for at least one launch.
    pub(crate) windows: BTreeMap<Window, usize>,
    /// Kills that fell into none.
    pub(crate) elsewhere: usize,
    /// Launches that reached the cloud.
    pub(crate) launches: usize,
    /// Machines that were sold.
    pub(crate) sold: usize,
    /// Machines that are paid for at the end.
    pub(crate) alive: usize,
    /// Pods that ran.
    pub(crate) pods_ran: u64,
    /// Pods that do not run at the end.
    pub(crate) waiting: usize,
    /// Machines without a NodeClaim: provider ids.
    pub(crate) leaked: Vec<String>,
    /// NodeClaims with more than one machine: cluster and name.
    pub(crate) doubled: Vec<String>,
    /// NodeClaims whose machine is gone: cluster and name.
    pub(crate) hollow: Vec<String>,
    /// NodeClaims that were removed by force while no server was there.
    pub(crate) taken: usize,
    /// From kill to the next launch that reached the cloud, in milliseconds, each.
    pub(crate) resumed_ms: Vec<u64>,
    /// How long all took.
    pub(crate) took: Duration,
}

impl Report {
    /// Whether nothing happened that must never happen.
    pub(crate) fn is_well(&self) -> bool {
        self.leaked.is_empty() && self.doubled.is_empty() && self.hollow.is_empty() && self.waiting == 0
    }
}

/// Does it.
///
/// # Errors
/// What could not be started, or did not go on.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let (url, mut own) = database(plan)?;
    let database = Database::connect(&url).await?;
    let plan = &Plan { database_url: Some(url), ..plan.clone() };
    let cloud = processes::cloud(plan).await?;
    let mut server = processes::server(plan, &cloud)?;
    // A name that no earlier run on this database has used.
    let run = format!("crash-{:x}", now_us() / 1000);
    let clusters = Clusters::start(&run, plan, &format!("http://{}", server.grpc));
    let mut shooter = Shooter::new(plan, remote::client(&cloud.address)?).await?;
    shooter.client.weather(weather()).await.context("the simulated cloud takes no weather")?;
    let mut report = Report::default();
    let mut kills = Vec::new();
    let mut life = now_us();
    for number in 1..=plan.times {
        shooter.aim(number, &kills_so_far(&report)).await?;
        let at = now_us();
        server.kill().await?;
        let dead = Instant::now();
        kills.push(Kill { life, at });
        clusters.stir();
        life = now_us();
        server.restart()?;
        shooter.resumed().await.with_context(|| format!("after kill {number}"))?;
        report.resumed_ms.push(u64::try_from(dead.elapsed().as_millis()).unwrap_or(u64::MAX));
        if plan.cut_every > 0 && number % plan.cut_every == 0 {
            report.cuts += 1;
            database.cut_connections().await?;
            shooter.resumed().await.context("after the database's connections were cut")?;
            if let Some(own) = &mut own {
                report.restarts += 1;
                tokio::task::block_in_place(|| own.kill().and_then(|()| own.restart()))?;
                shooter.resumed().await.context("after the database was restarted")?;
            }
        }
        classify(&mut report, &kills, &mut shooter.client, &database, &run).await?;
        info!(number, windows = ?report.windows, "killed");
    }
    clusters.rest();
    settle(&mut report, &mut shooter.client, &clusters).await?;
    server.kill().await?;
    report.taken = clusters.lose_claims();
    server.restart()?;
    settle(&mut report, &mut shooter.client, &clusters).await?;
    (report.kills, report.took) = (kills.len(), begun.elapsed());
    server.stop().await;
    Ok(report)
}

/// The database that the plan names, or one of our own.
fn database(plan: &Plan) -> anyhow::Result<(String, Option<OwnServer>)> {
    if let Some(url) = &plan.database_url {
        return Ok((url.clone(), None));
    }
    let own = OwnServer::throwaway().context("no PostgreSQL could be started; name one with --database-url")?;
    let own = own.ok_or_else(|| anyhow!("no PostgreSQL is installed on this machine; name one with --database-url"))?;
    Ok((own.url(), Some(own)))
}

/// Beside the kills: answers that get lost, listings that fail and lag, offerings that run out.
fn weather() -> v1::WeatherRequest {
    v1::WeatherRequest {
        lost_answers_percent: Some(3),
        failed_lists_percent: Some(10),
        list_lag_ms: Some(500),
        shortage_percent: Some(5),
        ..v1::WeatherRequest::default()
    }
}

fn kills_so_far(report: &Report) -> BTreeMap<Window, usize> {
    Window::ALL.into_iter().map(|window| (window, report.windows.get(&window).copied().unwrap_or(0))).collect()
}

/// Counts where the last kill fell.
async fn classify(
    report: &mut Report,
    kills: &[Kill],
    cloud: &mut Client,
    database: &Database,
    run: &str,
) -> anyhow::Result<()> {
    let Some(kill) = kills.last() else { return Ok(()) };
    let book = cloud.book(v1::BookRequest {}).await?.into_inner();
    let rows = database.intents(run, kill.life).await?;
    let fell = windows::fell(kill, &rows, &book.launches);
    report.elsewhere += usize::from(fell.is_empty());
    for window in fell {
        *report.windows.entry(window).or_default() += 1;
    }
    Ok(())
}

/// Waits until cloud and clusters agree and every pod runs, or until there has been time enough; then draws the verdict.
async fn settle(report: &mut Report, cloud: &mut Client, clusters: &Clusters) -> anyhow::Result<()> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let book = cloud.book(v1::BookRequest {}).await?.into_inner();
        judge(report, &book, clusters);
        if (report.leaked.is_empty() && report.hollow.is_empty() && report.waiting == 0) || Instant::now() > deadline {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn judge(report: &mut Report, book: &v1::BookResponse, clusters: &Clusters) {
    let claims = clusters.claims();
    let known: BTreeSet<&String> = claims.values().collect();
    let alive: BTreeMap<&String, &v1::Instance> = (book.sales.iter().filter(|sale| sale.ended_ms.is_none()))
        .filter_map(|sale| sale.instance.as_ref())
        .filter(|instance| instance.state() != v1::InstanceState::ShuttingDown)
        .map(|instance| (&instance.provider_id, instance))
        .collect();
    let mut sold: BTreeMap<String, usize> = BTreeMap::new();
    for instance in book.sales.iter().filter_map(|sale| sale.instance.as_ref()) {
        *sold.entry(format!("{}/{}", instance.cluster, instance.claim)).or_default() += 1;
    }
    report.launches = book.launches.len();
    report.sold = book.sales.len();
    report.alive = alive.len();
    report.leaked = alive.keys().filter(|id| !known.contains(*id)).map(|id| (*id).clone()).collect();
    report.doubled = sold.into_iter().filter(|(_, count)| *count > 1).map(|(claim, _)| claim).collect();
    report.hollow = claims.iter().filter(|(_, id)| !alive.contains_key(id)).map(|(claim, _)| claim.clone()).collect();
    (report.pods_ran, report.waiting) = clusters.pods();
}

/// Whoever watches launches and says when to shoot.
struct Shooter {
    client: Client,
    moves: Streaming<v1::WatchResponse>,
    dice: SeededRng,
}

impl Shooter {
    async fn new(plan: &Plan, client: Client) -> anyhow::Result<Self> {
        let moves = client.clone().watch(v1::WatchRequest {}).await.context("cannot watch the cloud")?.into_inner();
        Ok(Self { client, moves, dice: SeededRng::new(plan.seed).child("kills") })
    }

    /// Waits for a moment that is likely to lie in the window that was met least often, and a little beyond by chance.
    async fn aim(&mut self, number: u32, met: &BTreeMap<Window, usize>) -> anyhow::Result<()> {
        let die = self.dice.child_number(u64::from(number));
        let window = if die.child("anywhere").percent(20) {
            Window::ALL[usize::try_from(die.child("window").between((0, 2))).unwrap_or(0)]
        } else {
            met.iter().min_by_key(|(_, count)| **count).map_or(Window::CallToResponse, |(window, _)| *window)
        };
        // What the watch has kept from before says nothing about this moment.
        let since = now_us();
        let answered = window == Window::ResponseToRecord;
        let fresh = |call: &v1::LaunchCall| match call.answered_us {
            Some(at) => answered && at > since,
            None => !answered && call.arrived_us > since,
        };
        self.until(fresh).await?;
        let wait = match window {
            Window::ResponseToRecord => 0,
            Window::IntentToCall | Window::CallToResponse => die.child("wait").between((0, AIM_MS)),
        };
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        Ok(())
    }

    /// Waits for a launch that was sent after this was called: what the dead have sent arrives for a while yet.
    async fn resumed(&mut self) -> anyhow::Result<()> {
        let since = now_us() + ARRIVAL_MS * 1_000;
        self.until(|call| call.answered_us.is_some() && call.arrived_us > since).await
    }

    async fn until(&mut self, wanted: impl Fn(&v1::LaunchCall) -> bool) -> anyhow::Result<()> {
        let watch = async {
            while let Some(moved) = self.moves.next().await {
                if moved?.launch.as_ref().is_some_and(&wanted) {
                    return Ok(());
                }
            }
            Err(anyhow!("the simulated cloud has ended"))
        };
        let late = |_| anyhow!("no launch reached the cloud within {} s: decisions did not go on", RESUME.as_secs());
        tokio::time::timeout(RESUME, watch).await.map_err(late)?
    }
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
