//! Receives the messages of the queue, stores their notices, and deletes them afterwards.
//!
//! One loop waits for messages. While it receives full batches, further loops empty the queue beside it. A message is
//! deleted only when all that it says is stored; if the process ends before that, the queue delivers it again, and
//! the store keeps the first row.

use std::sync::Arc;
use std::time::Duration;

use cloud::notice::Notice;
use cloud_ec2::interruption::message::Message;
use cloud_ec2::interruption::queue::{Delivery, LONGEST_WAIT, MESSAGES_AT_ONCE, Queue, QueueError};
use store::interruptions::InterruptionRow;
use store::lease::Scope;
use store::{Store, StoreError, clock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{METRICS, row};
use fleet_api::conditions::{Conditions, Dependency, Failure};

/// Loops that empty a full queue beside the one that waits. Each takes ten messages in two calls to SQS and a
/// transaction, some ten times a second; a queue must give 5,000 in a minute.
const HELPERS: usize = 7;

/// How long such a loop waits for messages: SQS asks all its servers only if the wait is not zero.
const HELPER_WAIT: Duration = Duration::from_secs(1);

/// Time to the next attempt after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Why nothing was received or recorded.
#[derive(Debug, thiserror::Error)]
enum ReceiveError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The queue, and where its notices are stored.
pub(crate) struct Receiver {
    queue: Queue,
    store: Arc<dyn Store>,
    scope: Scope,
    conditions: Arc<Conditions>,
}

impl Receiver {
    pub(crate) fn new(queue: Queue, store: Arc<dyn Store>, scope: Scope, conditions: Arc<Conditions>) -> Arc<Self> {
        Arc::new(Self { queue, store, scope, conditions })
    }

    /// Receives until `stop`. Failures are reported, and end nothing: without the queue, the end
    /// of an instance is found by listings.
    ///
    /// # Errors
    /// A loop panicked.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        info!(queue = self.queue.name(), region = %self.scope, "receiving interruption notices");
        let mut helpers = JoinSet::new();
        while !stop.is_cancelled() {
            let round = self.round(LONGEST_WAIT);
            let Some(received) = stop.run_until_cancelled(round).await else { break };
            while let Some(ended) = helpers.try_join_next() {
                ended?;
            }
            match received {
                Some(MESSAGES_AT_ONCE..) => {
                    while helpers.len() < HELPERS {
                        helpers.spawn(Arc::clone(&self).drain());
                    }
                }
                Some(_) => {}
                None => {
                    stop.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await;
                }
            }
        }
        Ok(())
    }

    /// Receives until a batch is not full.
    async fn drain(self: Arc<Self>) {
        while self.round(HELPER_WAIT).await.is_some_and(|received| received >= MESSAGES_AT_ONCE) {}
    }

    /// Receives one batch, and returns its size; `None` after a failure.
    async fn round(&self, wait: Duration) -> Option<usize> {
        let received = self.receive(wait).await;
        self.report(received.as_ref().err());
        received.ok()
    }

    async fn receive(&self, wait: Duration) -> Result<usize, ReceiveError> {
        let deliveries = self.queue.receive(wait).await?;
        if deliveries.is_empty() {
            return Ok(0);
        }
        self.record(&deliveries).await?;
        let deleted = self.queue.delete(&deliveries).await?;
        METRICS.deleted.add(deleted as u64);
        Ok(deliveries.len())
    }

    /// Stores the notices of the messages, and counts the messages that have none.
    async fn record(&self, deliveries: &[Delivery]) -> Result<(), StoreError> {
        let notices: Vec<&Notice> = deliveries.iter().flat_map(notices_of).collect();
        if !notices.is_empty() {
            let rows: Vec<InterruptionRow> = notices.iter().map(|notice| row(notice)).collect();
            self.store.put_interruptions(&self.scope, &rows).await?;
            METRICS.count_recorded(notices, clock::now());
        }
        deliveries.iter().for_each(count_other);
        Ok(())
    }

    /// A store that fails is no failure of the queue.
    fn report(&self, failure: Option<&ReceiveError>) {
        let result = match failure {
            None => Ok(()),
            Some(ReceiveError::Queue(error)) => {
                Err(Failure::no_answer(format!("queue {}: {error}", self.queue.name())))
            }
            Some(ReceiveError::Store(_)) => return,
        };
        self.conditions.report(&Dependency::Queue(self.scope.clone()), result, clock::now());
    }
}

fn notices_of(delivery: &Delivery) -> &[Notice] {
    match &delivery.message {
        Message::Notices(notices) => notices,
        _ => &[],
    }
}

fn count_other(delivery: &Delivery) {
    match &delivery.message {
        Message::Notices(_) => {}
        Message::Ignored => METRICS.ignored.add(1),
        Message::Refused(why) => {
            METRICS.refused.add(1);
            warn!(why, "refused interruption message");
        }
        Message::Unknown(event) => {
            METRICS.unknown.add(1);
            debug!(event, "discarded event of an unknown kind");
        }
        Message::Malformed(why) => {
            METRICS.malformed.add(1);
            debug!(why, "discarded unreadable message");
        }
    }
}

#[cfg(test)]
mod tests;
