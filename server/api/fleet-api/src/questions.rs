//! What comes to the task of a cluster: questions of the API, and events.

use std::sync::Arc;
use std::time::Duration;

use agent_session::SessionEvent;
use cluster::ClusterState;
use controller::node_report::NodeReport;
use controller::planning_facts::{FactsKey, NoFacts, PlanningFacts};
use controller::pod_report::PodReport;
use model::{ClusterName, PodKey};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use server_settings::ClusterRules;

/// Number of questions that wait for the control loop.
const WAITING: usize = 16;

/// Time within which a cluster's task answers; a step of a large cluster takes less.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct ClusterQuestion {
    pub cluster: ClusterName,
    pub subject: Subject,
}

/// What is asked. An answer is dropped when this process does not own the cluster.
#[derive(Debug)]
pub enum Subject {
    /// A Node, or its NodeClaim.
    Node {
        name: String,
        answer: oneshot::Sender<NodeReport>,
    },
    Pod {
        key: PodKey,
        answer: oneshot::Sender<PodReport>,
    },
    /// What a plan outside of the control loop is made from, unless what is known still holds.
    Planning {
        known: Option<Arc<FactsKey>>,
        answer: oneshot::Sender<Result<PlanningFacts, NoFacts>>,
    },
    State {
        answer: oneshot::Sender<Arc<ClusterState>>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// This process does not own the cluster.
    NotOwned,
    Busy,
}

/// The asking end.
#[derive(Debug, Clone)]
pub struct Questions {
    rules: ClusterRules,
    loops: Vec<mpsc::Sender<ClusterQuestion>>,
}

/// Both ends: `loops` control loops answer, each about the clusters of the entry that `rules` number.
pub fn channels(rules: ClusterRules, loops: usize) -> (Questions, Vec<mpsc::Receiver<ClusterQuestion>>) {
    let (loops, receivers) = (0..loops).map(|_| mpsc::channel(WAITING)).unzip();
    (Questions { rules, loops }, receivers)
}

impl Questions {
    /// Asks about a node of `cluster`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn about_node(&self, cluster: ClusterName, name: String) -> Result<NodeReport, NoAnswer> {
        self.ask(cluster, |answer| Subject::Node { name, answer }).await
    }

    /// Asks about a pod of `cluster`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn about_pod(&self, cluster: ClusterName, key: PodKey) -> Result<PodReport, NoAnswer> {
        self.ask(cluster, |answer| Subject::Pod { key, answer }).await
    }

    /// Asks for what plans of `cluster` are made from. `known` still holding is an answer as well.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn planning_facts(
        &self,
        cluster: ClusterName,
        known: Option<Arc<FactsKey>>,
    ) -> Result<Result<PlanningFacts, NoFacts>, NoAnswer> {
        self.ask(cluster, |answer| Subject::Planning { known, answer }).await
    }

    /// Asks for the observed state of `cluster`, which is not copied unless it changes while it is read.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn state(&self, cluster: ClusterName) -> Result<Arc<ClusterState>, NoAnswer> {
        self.ask(cluster, |answer| Subject::State { answer }).await
    }

    /// Number of the account and region that the cluster belongs to, if it has one.
    pub fn entry_of(&self, cluster: &str) -> Option<usize> {
        self.rules.entry_of(cluster).ok()
    }

    async fn ask<T>(
        &self,
        cluster: ClusterName,
        subject: impl FnOnce(oneshot::Sender<T>) -> Subject,
    ) -> Result<T, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            let question = ClusterQuestion { cluster, subject: subject(answer) };
            self.loop_of(&question.cluster)?.send(question).await.map_err(|_| NoAnswer::NotOwned)?;
            answered.await.map_err(|_| NoAnswer::NotOwned)
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(NoAnswer::Busy))
    }

    fn loop_of(&self, cluster: &str) -> Result<&mpsc::Sender<ClusterQuestion>, NoAnswer> {
        // This process owns no cluster without an entry.
        let entry = self.rules.entry_of(cluster).map_err(|_| NoAnswer::NotOwned)?;
        self.loops.get(entry).ok_or(NoAnswer::NotOwned)
    }
}

/// An event, and its place among those of its cluster that are not handled yet. The agent of a
/// cluster whose task is behind is not read, so that its events do not pile up.
#[derive(Debug)]
pub struct Delivery {
    pub event: SessionEvent,
    /// `None` for events of operators and the region.
    pub place: Option<OwnedSemaphorePermit>,
}

impl From<SessionEvent> for Delivery {
    fn from(event: SessionEvent) -> Self {
        Self { event, place: None }
    }
}
