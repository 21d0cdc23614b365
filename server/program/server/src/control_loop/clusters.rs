//! The tasks of the clusters that this process owns.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ClusterName;
use replica::ClusterInput;
use store::lease::Lease;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use fleet_api::questions::ClusterQuestion;

use super::cluster_task::{ClusterTask, Ends, Message, TaskContext};

pub(super) struct Clusters {
    context: Arc<TaskContext>,
    inboxes: BTreeMap<ClusterName, Inbox>,
    /// Held by the task of a cluster while it runs.
    alone: BTreeMap<ClusterName, Arc<Mutex<()>>>,
    tasks: JoinSet<Result<(), JoinError>>,
    threads: Handle,
    stop: CancellationToken,
}

struct Inbox {
    messages: mpsc::UnboundedSender<Message>,
    released: CancellationToken,
}

impl Clusters {
    pub(super) fn new(context: Arc<TaskContext>, threads: Handle) -> Self {
        Self {
            context,
            inboxes: BTreeMap::new(),
            alone: BTreeMap::new(),
            tasks: JoinSet::new(),
            threads,
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn context(&self) -> &TaskContext {
        &self.context
    }

    /// Starts the task of a cluster, or gives it the lease that was acquired again.
    pub(super) fn own(&mut self, cluster: ClusterName, lease: Lease) {
        if let Some(inbox) = self.inboxes.get(&cluster) {
            let _sent = inbox.messages.send(Message::Lease(lease));
            return;
        }
        let (messages, inbox) = mpsc::unbounded_channel();
        let released = CancellationToken::new();
        let ends = Ends { released: released.clone(), stop: self.stop.clone() };
        let alone = Arc::clone(self.alone.entry(cluster.clone()).or_default());
        let task = ClusterTask::run((cluster.clone(), lease), Arc::clone(&self.context), inbox, alone, ends);
        self.tasks.spawn_on(task, &self.threads);
        self.inboxes.insert(cluster, Inbox { messages, released });
        self.publish_count();
    }

    /// Ends the task of a cluster: it takes no step after the one that it may be in.
    pub(super) fn release(&mut self, cluster: &ClusterName) {
        if let Some(inbox) = self.inboxes.remove(cluster) {
            inbox.released.cancel();
        }
        self.publish_count();
    }

    /// Passes an input to a cluster, with the place in its inbox that it takes.
    pub(super) fn deliver(&self, cluster: &ClusterName, input: ClusterInput, place: Option<OwnedSemaphorePermit>) {
        if let Some(inbox) = self.inboxes.get(cluster) {
            // A task that has panicked ends the process.
            let _sent = inbox.messages.send(Message::Input(input, place));
        }
    }

    /// Passes a question to a cluster; it is dropped if this process does not own the cluster.
    pub(super) fn ask(&self, question: ClusterQuestion) {
        if let Some(inbox) = self.inboxes.get(&question.cluster) {
            let _sent = inbox.messages.send(Message::Question(question));
        }
    }

    fn publish_count(&self) {
        self.context.clusters.send_replace(self.inboxes.len());
    }

    /// Completes when the task of a cluster has failed; never otherwise.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error)) | Err(error)) => {
                    return anyhow::Error::from(error).context("the task of a cluster failed");
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Ends all tasks, and lets their calls in flight end.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
