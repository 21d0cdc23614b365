//! One thread that quotes and plans: the clusters that it has prepared, and what it does with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::planning_facts::PlanningFacts;
use model::plan::{Reason as PlanReason, ReasonCode};
use model::{CapacityType, ClusterName, InstanceTypeName, Text};
use odds::OddsAt;
use planner::CompileCache;
use quote::{Answer, Blocker, ClusterQuote, LaunchSettings, PodSet, PreparedCluster, QuoteContext};
use store::clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::estimates::Estimates;
use super::known_facts::KnownFacts;
use super::what_if::{WhatIfPlan, WhatIfResult};

/// What a thread does.
pub(crate) enum Job {
    /// Quotes clusters.
    Quote(QuoteJob),
    /// Plans a cluster, which changes nothing.
    Plan { plan: Box<WhatIfPlan>, answer: oneshot::Sender<WhatIfResult> },
    /// Prepares a cluster for the quotes to come.
    Prepare { cluster: Box<AskedCluster>, done: oneshot::Sender<()> },
    /// Drops a cluster that this process does not decide for any more.
    Forget(ClusterName),
}

/// Clusters to quote.
pub(crate) struct QuoteJob {
    pub(crate) sets: Arc<[PodSet]>,
    pub(crate) clusters: Vec<AskedCluster>,
    /// After it the rest of the clusters is not quoted.
    pub(crate) deadline: Instant,
    /// The quotes, or `None` after the deadline. What is asked for nobody any more is not done.
    pub(crate) answer: oneshot::Sender<Option<Vec<ClusterQuote>>>,
}

/// A cluster to quote.
pub(crate) struct AskedCluster {
    pub(crate) name: ClusterName,
    pub(crate) account: Text,
    /// When the facts were taken, or last known to hold.
    pub(crate) taken: Instant,
    pub(crate) facts: AskedFacts,
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
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Quote(_) => "quote",
            Self::Plan { .. } => "plan",
            Self::Prepare { .. } => "prepare",
            Self::Forget(_) => "forget",
        }
    }
}

/// A thread's clusters.
pub(crate) struct Worker {
    estimates: Arc<Estimates>,
    known: Arc<KnownFacts>,
    clusters: BTreeMap<ClusterName, PreparedCluster>,
    settings: LaunchSettings,
    cache: CompileCache,
}

impl Worker {
    pub(crate) fn new(estimates: Arc<Estimates>, known: Arc<KnownFacts>) -> Self {
        Self {
            estimates,
            known,
            clusters: BTreeMap::new(),
            settings: LaunchSettings::default(),
            cache: CompileCache::default(),
        }
    }

    /// Drops everything that is prepared.
    pub(crate) fn clear(&mut self) {
        self.clusters.keys().for_each(|cluster| self.known.forget(cluster));
        *self = Self::new(Arc::clone(&self.estimates), Arc::clone(&self.known));
    }

    pub(crate) fn run(&mut self, job: Job) {
        match job {
            Job::Quote(job) => self.quote(job),
            // The caller may have gone.
            Job::Plan { plan, answer } if !answer.is_closed() => drop(answer.send(plan.run(&mut self.cache))),
            Job::Plan { .. } => {}
            Job::Prepare { cluster, done } => {
                self.prepare(*cluster);
                // The caller may have gone.
                let _sent = done.send(());
            }
            Job::Forget(cluster) => drop(self.clusters.remove(&cluster)),
        }
    }

    fn quote(&mut self, job: QuoteJob) {
        let QuoteJob { sets, clusters, deadline, answer } = job;
        let (mut asked, mut quotes) = (Vec::new(), Vec::new());
        for cluster in clusters {
            let name = cluster.name.clone();
            match cluster.facts {
                AskedFacts::NotSynced => quotes.push(not_synced(name)),
                AskedFacts::Changed(_) | AskedFacts::Prepared => {
                    self.prepare(cluster);
                    asked.push(name);
                }
            }
        }
        // One setting after the other: what is launched is planned once for each.
        asked.sort_by_cached_key(|name| self.clusters.get(name).map(PreparedCluster::setting_number));
        let (odds, ready) = (self.estimates.odds(), self.estimates.ready_times());
        let ready_time = |kind: &InstanceTypeName, paid: CapacityType| ready.of(kind, paid);
        let mut context = QuoteContext::new(OddsAt::new(&odds, clock::now()), &ready_time, &mut self.cache);
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

    fn prepare(&mut self, cluster: AskedCluster) {
        let AskedCluster { name, account, taken, facts: AskedFacts::Changed(facts) } = cluster else { return };
        let (input, hold, key) = (facts.build(), facts.launch_block().cloned(), facts.key().clone());
        // The cluster's task need not copy its state any more.
        drop(facts);
        let prepared = PreparedCluster::new(name.clone(), account, input, hold, &mut self.settings);
        self.known.set(&name, key, taken);
        self.clusters.insert(name, prepared);
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
