//! Questions about nodes, from the API to the task of the cluster.

use std::time::Duration;

use controller::node_report::NodeReport;
use model::ClusterName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::config::ClusterRules;

/// Number of questions that wait for the control loop.
const WAITING: usize = 16;

/// Time within which a cluster's task answers; a step of a large cluster takes less.
const PATIENCE: Duration = Duration::from_secs(10);

/// A question about a node.
#[derive(Debug)]
pub(crate) struct NodeQuestion {
    pub(crate) cluster: ClusterName,
    /// The Node, or its NodeClaim.
    pub(crate) node: String,
    /// Dropped unanswered when this process does not own the cluster.
    pub(crate) answer: oneshot::Sender<NodeReport>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReport {
    /// This process does not own the cluster.
    NotOwned,
    /// The cluster's task is busy.
    Busy,
}

/// The asking end.
#[derive(Debug, Clone)]
pub(crate) struct NodeQuestions {
    rules: ClusterRules,
    loops: Vec<mpsc::Sender<NodeQuestion>>,
}

/// Both ends: `loops` control loops answer, each about the clusters of the entry that `rules` number.
pub(crate) fn channels(rules: ClusterRules, loops: usize) -> (NodeQuestions, Vec<mpsc::Receiver<NodeQuestion>>) {
    let (loops, receivers) = (0..loops).map(|_| mpsc::channel(WAITING)).unzip();
    (NodeQuestions { rules, loops }, receivers)
}

impl NodeQuestions {
    /// Asks about `node` of `cluster`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn ask(&self, cluster: ClusterName, node: String) -> Result<NodeReport, NoReport> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            let question = NodeQuestion { cluster, node, answer };
            self.loop_of(&question.cluster)?.send(question).await.map_err(|_| NoReport::NotOwned)?;
            answered.await.map_err(|_| NoReport::NotOwned)
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(NoReport::Busy))
    }

    fn loop_of(&self, cluster: &str) -> Result<&mpsc::Sender<NodeQuestion>, NoReport> {
        // This process owns no cluster without an entry.
        let entry = self.rules.entry_of(cluster).map_err(|_| NoReport::NotOwned)?;
        self.loops.get(entry).ok_or(NoReport::NotOwned)
    }
}
