//! One thread that quotes: the clusters that are prepared for it, and what it does with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::planning_facts::{FactsKey, PlanningFacts};
use model::plan::{Reason as PlanReason, ReasonCode};
use model::{CapacityType, ClusterName, InstanceTypeName, Text};
use odds::OddsSnapshot;
use planner::CompileCache;
use quote::{Answer, Blocker, ClusterQuote, LaunchPlans, LaunchSettings, PodSet, PreparedCluster, QuoteContext};
use store::clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::estimates::Estimates;
use super::known_facts::KnownFacts;

pub(crate) enum Job {
    Quote(QuoteJob),
    /// Takes a cluster that is prepared for the quotes to come, unless the thread has later facts.
    Take {
        cluster: Box<Prepared>,
        taken: oneshot::Sender<()>,
    },
    /// Drops a cluster that this process does not decide for any more.
    Forget(ClusterName),
}

pub(crate) struct QuoteJob {
    pub(crate) sets: Arc<[PodSet]>,
    /// Shared by the threads of the quote.
    pub(crate) launch_plans: Arc<LaunchPlans>,
    pub clusters: Vec<AskedCluster>,
    /// After it the rest of the clusters is not quoted.
    pub deadline: Instant,
    /// The quotes, or `None` after the deadline. What is asked for nobody any more is not done.
    pub answer: oneshot::Sender<Option<Vec<ClusterQuote>>>,
}

pub(crate) struct AskedCluster {
    pub name: ClusterName,
    pub account: Text,
    /// When the facts were taken, or last known to hold.
    pub taken: Instant,
    pub(crate) facts: AskedFacts,
}

/// A cluster that is prepared for quotes.
pub(crate) struct Prepared {
    cluster: PreparedCluster,
    key: FactsKey,
    /// When its facts were taken.
    taken: Instant,
}

/// What is known of a cluster.
pub(crate) enum AskedFacts {
    /// New facts.
    Changed(Box<PlanningFacts>),
    /// Those that the thread has.
    Prepared,
    /// The agent is not connected, or has not sent the state of the cluster yet.
    NotSynced,
}

impl Job {
    /// What it is, for the log.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Quote(_) => "quote",
            Self::Take { .. } => "take",
            Self::Forget(_) => "forget",
        }
    }
}

impl Prepared {
    /// Prepares a cluster of which there are new facts.
    pub fn new(asked: AskedCluster, settings: &LaunchSettings) -> Option<Self> {
        let AskedCluster { name, account, taken, facts: AskedFacts::Changed(facts) } = asked else { return None };
        let (input, hold, key) = (facts.build(), facts.launch_block().cloned(), facts.key().clone());
        // The cluster's task need not copy its state any more.
        drop(facts);
        Some(Self { cluster: PreparedCluster::new(name, account, input, hold, settings), key, taken })
    }
}

pub(crate) struct Worker {
    estimates: Arc<Estimates>,
    known: Arc<KnownFacts>,
    /// Shared by all threads that prepare clusters.
    settings: Arc<LaunchSettings>,
    clusters: BTreeMap<ClusterName, PreparedCluster>,
    cache: CompileCache,
}

impl Worker {
    pub fn new(estimates: Arc<Estimates>, known: Arc<KnownFacts>, settings: Arc<LaunchSettings>) -> Self {
        Self { estimates, known, settings, clusters: BTreeMap::new(), cache: CompileCache::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.clusters.keys().for_each(|cluster| self.known.forget(cluster));
        (self.clusters, self.cache) = (BTreeMap::new(), CompileCache::default());
    }

    pub fn run(&mut self, job: Job) {
        match job {
            Job::Quote(job) => self.quote(job),
            Job::Take { cluster, taken } => {
                self.take(*cluster);
                // The caller may have gone.
                let _sent = taken.send(());
            }
            Job::Forget(cluster) => drop(self.clusters.remove(&cluster)),
        }
    }

    fn quote(&mut self, job: QuoteJob) {
        let QuoteJob { sets, launch_plans, clusters, deadline, answer } = job;
        let (mut asked, mut quotes) = (Vec::new(), Vec::new());
        for cluster in clusters {
            let name = cluster.name.clone();
            match cluster.facts {
                AskedFacts::NotSynced => quotes.push(not_synced(name)),
                AskedFacts::Changed(_) | AskedFacts::Prepared => {
                    if let Some(prepared) = Prepared::new(cluster, &self.settings) {
                        self.take(prepared);
                    }
                    asked.push(name);
                }
            }
        }
        // One setting after the other: what is launched is planned once for each.
        asked.sort_by_cached_key(|name| self.clusters.get(name).map(PreparedCluster::setting_number));
        let (odds, ready) = (self.estimates.odds(), self.estimates.ready_times());
        let ready_time = |kind: &InstanceTypeName, paid: CapacityType| ready.of(kind, paid);
        let context = QuoteContext::new(OddsSnapshot::new(&odds, clock::now()), &ready_time, &mut self.cache);
        let mut context = context.sharing(&launch_plans);
        for name in asked {
            if answer.is_closed() {
                return;
            }
            if Instant::now() >= deadline {
                drop(answer.send(None));
                return;
            }
            match self.clusters.get_mut(&name) {
                Some(cluster) => quotes.push(cluster.quote(&sets, &mut context)),
                // A panic has dropped it: the next request prepares it again.
                None => {
                    self.known.forget(&name);
                    quotes.push(not_prepared(name));
                }
            }
        }
        drop(answer.send(Some(quotes)));
    }

    fn take(&mut self, prepared: Prepared) {
        let Prepared { cluster, key, taken } = prepared;
        if self.known.set(cluster.name(), key, taken) {
            self.clusters.insert(cluster.name().clone(), cluster);
        }
    }
}

fn not_synced(cluster: ClusterName) -> ClusterQuote {
    let message =
        "the cluster's agent is not connected, or has not sent its state yet: see `fleetwright fleet clusters`";
    without_answer(cluster, ReasonCode::HeldBack, message)
}

fn not_prepared(cluster: ClusterName) -> ClusterQuote {
    without_answer(
        cluster,
        ReasonCode::Internal,
        "the thread of the cluster failed; ask again, and report the server's log",
    )
}

fn without_answer(cluster: ClusterName, code: ReasonCode, message: &str) -> ClusterQuote {
    let reasons = vec![PlanReason { pool: None, code, message: message.to_owned() }];
    ClusterQuote { cluster, answer: Answer::DoesNotFit(vec![Blocker { pods: None, reasons, fits_if: Vec::new() }]) }
}
