//! `fleetwright simulate load`: many simulated clusters with real agents, and what they cost a server.
//!
//! Every cluster begins with nodes that are full of running pods. Once a minute a burst of pods comes that fits nowhere, so
//! that a machine is bought, joins, takes the pods, is empty when they go, and goes as well. What the server makes of it is
//! read from the server's own metrics and from the system's account of its process; what this process costs is told apart.
//!
//! Without a server to run against, the command starts everything itself: a PostgreSQL that keeps what it is given, a
//! simulated cloud and a server, each as a process. Then it goes on: the server is killed and started again, a second replica
//! joins, one of the two is killed, and one is asked to leave; each time it tells how long it takes until the last cluster
//! is decided for again.
//!
//! | figure | what it is |
//! |---|---|
//! | taken in | from the first agent's start until the last cluster's snapshot is believed |
//! | decided | from the end of a batch window until the plan is made and has passed its check, by the server's clock |
//! | ordered | from the same moment until the decision is in the store and the NodeClaim is on its way to the agent |
//! | written | rows and bytes of the write-ahead log, by PostgreSQL's account |
//! | owned again | from the end of a process, or of every connection, until the last cluster is connected to a replica that holds its lease and believes its snapshot |
//! | meanwhile | what processes used until then |
//!
//! When a snapshot came, servers tell ([`Metrics::synced`]): what they showed before something was done to them is no answer
//! to it.
//!
//! Measured is what follows one whole round of bursts: the first decision of a cluster writes its whole input to the log,
//! which happens again twice a day, and is told apart.
//!
//! Every phase is told when it ends ([`Told`]): a run takes a quarter of an hour, and one that is cut off has told something.
//!
//! Reading order: [`run`], [`clusters`] (what is there, and the bursts), [`ground`] (whom they connect to), [`balancer`] (how),
//! [`gauges`] and [`account`] (what is read).

mod account;
mod balancer;
mod clusters;
mod gauges;
mod ground;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use account::Account;
pub(crate) use account::{Spell, Usage};
use anyhow::anyhow;
use clusters::Clusters;
use engine::model::Timestamp;
use gauges::Metrics;
pub(crate) use gauges::Percentiles;
use ground::Ground;

use crate::clock;

/// How long all clusters may take until a server decides for them.
const OWNED: Duration = Duration::from_secs(900);

/// How long the pods of the last bursts may take until they run.
const SETTLE: Duration = Duration::from_secs(180);

/// How often a server is asked how far it is.
const LOOK: Duration = Duration::from_millis(250);

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Clusters.
    pub(crate) clusters: usize,
    /// Nodes of each.
    pub(crate) nodes: usize,
    /// Pods that run in each.
    pub(crate) pods: usize,
    /// Pods that come to each cluster once in a period.
    pub(crate) burst: usize,
    /// Between two bursts of a cluster; at the half of it the pods of the last one go.
    pub(crate) period: Duration,
    /// A server that runs; without one, one is started.
    pub(crate) given: Option<Given>,
    /// The server's database; without one, and without a server, one is started.
    pub(crate) database_url: Option<String>,
    /// How long is measured.
    pub(crate) lasts: Duration,
    /// What is done to servers.
    pub(crate) upsets: Upsets,
    /// Seed of everything that chance decides.
    pub(crate) seed: u64,
    /// What servers log on standard error.
    pub(crate) log: String,
}

/// What is done to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upsets {
    /// Nothing.
    None,
    /// The only one is killed and started again.
    Restart,
    /// Then a second joins, and one of the two is killed, and one is asked to leave.
    All,
}

/// A server that runs.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// Its gRPC address, as `http://host:port`.
    pub(crate) target: String,
    /// Where its metrics are.
    pub(crate) page: SocketAddr,
    /// Its process on this machine, if it is here.
    pub(crate) pid: Option<u32>,
}

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// From the first agent's start until the server decided for every cluster.
    pub(crate) taken_in: Intake,
    /// Bytes of whole inputs that the first decisions wrote to the log, in all.
    pub(crate) whole_inputs: Option<i64>,
    /// Bursts, and nothing else.
    pub(crate) steady: Spell,
    /// What was done to servers, and what followed.
    pub(crate) upsets: Vec<Upset>,
    /// Clusters that nobody decided for at the end.
    pub(crate) unowned: usize,
    /// NodeClaims with more than one machine, by the cloud's book: cluster and name. `None` when the cloud is not ours.
    pub(crate) doubled: Option<Vec<String>>,
    /// Pods that were made, those that the clusters began with included.
    pub(crate) pods_made: u64,
    /// Pods of bursts that did not run in the end.
    pub(crate) waiting: usize,
}

/// Something that was done to servers.
#[derive(Debug)]
pub(crate) struct Upset {
    /// What.
    pub(crate) what: &'static str,
    /// Until the last cluster was decided for again.
    pub(crate) owned_again: Intake,
    /// From then on, and one round of bursts longer.
    pub(crate) spell: Spell,
}

/// How every cluster came to be decided for.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// Until the last one was.
    pub(crate) took: Duration,
    /// What happened meanwhile.
    pub(crate) meanwhile: Spell,
}

/// When something was done.
struct Begun {
    at: Instant,
    /// The same, as servers tell moments.
    clock: Timestamp,
    account: Account,
}

impl Begun {
    async fn take(ground: &Ground) -> anyhow::Result<Self> {
        Ok(Self { at: Instant::now(), clock: clock::now(), account: Account::take(ground).await? })
    }
}

/// Which clusters are decided for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Every one whose snapshot some server believes: those that nothing was done to keep theirs.
    Any,
    /// Those whose snapshot came after that: something was done to all.
    Since,
}

/// What is told as soon as it is known.
#[derive(Debug)]
pub(crate) enum Told<'r> {
    /// Every cluster is decided for.
    TakenIn(&'r Report),
    /// The bursts have been measured.
    Steady(&'r Report),
    /// What was done to servers has been measured.
    Upset(&'r Upset),
    /// Everything is over.
    Ended(&'r Report),
}

impl Report {
    /// Whether nothing happened that must never happen.
    pub(crate) fn is_well(&self) -> bool {
        self.unowned == 0 && self.waiting == 0 && self.doubled.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Does it, and tells each phase when it ends.
///
/// # Errors
/// When something cannot be started or reached, when not every cluster is taken in, or when nobody can be told.
pub(crate) async fn run(plan: &Plan, tell: &mut impl FnMut(Told<'_>) -> std::io::Result<()>) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(plan).await?;
    let begun = Begun::take(&ground).await?;
    let clusters = Clusters::start(plan, &ground.target());
    let taken_in = until_owned(plan, &ground, &clusters, &begun, Counts::Any).await?;
    let mut report = Report { taken_in, ..Report::default() };
    tell(Told::TakenIn(&report))?;
    clusters.burst();
    // The last cluster's first burst comes a period after the first one's, and what follows from it takes half of one.
    tokio::time::sleep(plan.period + plan.period / 2).await;
    report.whole_inputs = ground.whole_inputs().await?;
    report.steady = spell(&ground, &clusters, plan.lasts).await?;
    tell(Told::Steady(&report))?;
    if plan.upsets != Upsets::None {
        upset(plan, &mut ground, &clusters, &mut |upset: Upset| {
            tell(Told::Upset(&upset))?;
            report.upsets.push(upset);
            Ok(())
        })
        .await?;
    }
    clusters.rest();
    settle(&clusters, &mut report).await;
    report.unowned = plan.clusters.saturating_sub(believed(&ground).await.len());
    report.doubled = ground.doubled().await?;
    ground.stop().await;
    tell(Told::Ended(&report))?;
    Ok(report)
}

/// Measures for a while.
async fn spell(ground: &Ground, clusters: &Clusters, lasts: Duration) -> anyhow::Result<Spell> {
    let before = Account::take(ground).await?;
    tokio::time::sleep(lasts).await;
    let longest = clusters.longest_wait();
    Ok(Account::take(ground).await?.since(&before, longest))
}

/// Kills servers and has them join and leave, while bursts go on.
async fn upset(
    plan: &Plan,
    ground: &mut Ground,
    clusters: &Clusters,
    note: &mut impl FnMut(Upset) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    ground.kill(0).await?;
    let begun = Begun::take(ground).await?;
    ground.restart(0)?;
    let what = "the only replica killed and started again";
    note(after(what, plan, ground, clusters, &begun, Counts::Since).await?)?;
    if plan.upsets == Upsets::Restart {
        return Ok(());
    }
    ground.join(plan)?;
    let begun = share(ground).await?;
    let what = "a second replica joined, and every connection was cut";
    note(after(what, plan, ground, clusters, &begun, Counts::Since).await?)?;
    ground.kill(0).await?;
    let begun = Begun::take(ground).await?;
    note(after("one of two replicas killed", plan, ground, clusters, &begun, Counts::Any).await?)?;
    ground.restart(0)?;
    let begun = share(ground).await?;
    until_owned(plan, ground, clusters, &begun, Counts::Since).await?;
    tokio::time::sleep(plan.period / 2).await;
    let begun = Begun::take(ground).await?;
    ground.leave(1).await?;
    note(after("one of two replicas asked to leave", plan, ground, clusters, &begun, Counts::Any).await?)?;
    Ok(())
}

/// Cuts every connection as soon as every server is there, so that each gets its share of the agents.
async fn share(ground: &Ground) -> anyhow::Result<Begun> {
    ground.ready().await?;
    let begun = Begun::take(ground).await?;
    ground.share();
    Ok(begun)
}

/// Waits until every cluster is decided for again and a round of bursts is over.
async fn after(
    what: &'static str,
    plan: &Plan,
    ground: &Ground,
    clusters: &Clusters,
    begun: &Begun,
    counts: Counts,
) -> anyhow::Result<Upset> {
    let owned_again = until_owned(plan, ground, clusters, begun, counts).await?;
    tokio::time::sleep(plan.period).await;
    let spell = Account::take(ground).await?.since(&begun.account, clusters.longest_wait());
    Ok(Upset { what, owned_again, spell })
}

/// Waits until every cluster is decided for. How long it took, servers of our own tell by this machine's clock; by that of
/// another machine, what matters is when they show it.
async fn until_owned(
    plan: &Plan,
    ground: &Ground,
    clusters: &Clusters,
    begun: &Begun,
    counts: Counts,
) -> anyhow::Result<Intake> {
    loop {
        let mut owned = believed(ground).await;
        owned.retain(|_, since| counts == Counts::Any || *since >= begun.clock);
        if owned.len() >= plan.clusters {
            let last = owned.into_values().max().filter(|_| ground.is_ours());
            let told = last.map(|last| Duration::from_millis(last.millis_since(begun.clock).max(0).unsigned_abs()));
            let took = told.unwrap_or_else(|| begun.at.elapsed());
            let meanwhile = Account::take(ground).await?.since(&begun.account, clusters.longest_wait());
            return Ok(Intake { took, meanwhile });
        }
        if begun.at.elapsed() > OWNED {
            let (waited, owned) = (OWNED.as_secs(), owned.len());
            return Err(anyhow!("after {waited} s somebody decides for {owned} of {} clusters", plan.clusters));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Clusters whose snapshot some replica believes, and when it came. A replica that does not answer believes none.
async fn believed(ground: &Ground) -> BTreeMap<String, Timestamp> {
    let mut believed: BTreeMap<String, Timestamp> = BTreeMap::new();
    for page in ground.pages() {
        if let Ok(metrics) = Metrics::read(page).await {
            for (cluster, since) in metrics.synced() {
                let known = believed.entry(cluster.to_owned()).or_insert(since);
                *known = since.max(*known);
            }
        }
    }
    believed
}

/// Waits until every pod of a burst runs, or until there has been time enough.
async fn settle(clusters: &Clusters, report: &mut Report) {
    let deadline = Instant::now() + SETTLE;
    loop {
        (report.pods_made, report.waiting) = clusters.pods();
        if report.waiting == 0 || Instant::now() > deadline {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}
