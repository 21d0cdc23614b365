//! Questions about nodes, from the API to the task of the cluster.

use std::time::Duration;

use controller::node_report::NodeReport;
use model::ClusterName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

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
pub(crate) struct NodeQuestions(mpsc::Sender<NodeQuestion>);

/// Both ends.
pub(crate) fn channel() -> (NodeQuestions, mpsc::Receiver<NodeQuestion>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (NodeQuestions(sender), receiver)
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
            self.0.send(question).await.map_err(|_| NoReport::NotOwned)?;
            answered.await.map_err(|_| NoReport::NotOwned)
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(NoReport::Busy))
    }
}
