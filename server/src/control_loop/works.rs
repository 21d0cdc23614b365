//! Calls that wait for somebody: each ends with an outcome, in time, whatever happens.

use std::sync::Arc;
use std::time::Duration;

use cloud::provider::{CloudError, CloudEvent, CloudProvider, LaunchRequest, instance_id};
use engine::control::{Decision, LaunchOrder};
use executor::{Command, Outcome};
use tracing::warn;

use super::records;
use crate::store::Store;
use crate::store::lease::Lease;
use crate::store::undertaking::Settlement;

/// What a command needs.
pub(crate) struct Errand<C> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cloud: Arc<C>,
    /// The lease of the command's cluster, if this replica holds it.
    pub(crate) lease: Option<Lease>,
}

impl<C: CloudProvider> Errand<C> {
    /// Carries `command` out, or gives it up after `patience`.
    pub(super) async fn run_within(&self, command: Command, patience: Duration) -> Outcome {
        let late = |_| Outcome::TryAgain { after_ms: None, why: "no answer in time".to_owned() };
        tokio::time::timeout(patience, self.run(command)).await.unwrap_or_else(late)
    }

    /// Carries `command` out, however long it takes.
    pub(crate) async fn run(&self, command: Command) -> Outcome {
        match command {
            Command::Record(decision) => self.record(&decision).await,
            Command::Launch(order) => self.launch(&order).await,
            Command::Terminate { provider_id, .. } => self.terminate(&provider_id).await,
            // Instructions go through the sessions, which keep them until they are answered.
            Command::Instruct { .. } => again("an instruction is no errand"),
        }
    }

    async fn record(&self, decision: &Decision) -> Outcome {
        let Some(lease) = &self.lease else { return again("the cluster's lease is not held") };
        match self.store.record(lease, &records::entry(decision)).await {
            Ok(()) => Outcome::Done,
            Err(error) => again(error),
        }
    }

    async fn launch(&self, order: &LaunchOrder) -> Outcome {
        let outcome = match self.cloud.launch(&LaunchRequest::from(order)).await {
            Ok(launched) => Outcome::Launched {
                provider_id: launched.instance.provider_id,
                instance_type: launched.instance.instance_type,
                zone: launched.instance.zone,
                capacity_type: launched.instance.capacity_type,
                sold_out: launched.sold_out.into_iter().map(|option| (option.instance_type, option.zone)).collect(),
            },
            Err(error) => match error.as_launch_failure() {
                Some(failure) => Outcome::LaunchFailed(failure),
                None => later(&error),
            },
        };
        self.settle(order, &outcome).await;
        outcome
    }

    /// Writes down how a launch ended. A row that is missed stays open and is looked at again after a restart.
    async fn settle(&self, order: &LaunchOrder, outcome: &Outcome) {
        let settlement = match outcome {
            Outcome::Launched { provider_id, .. } => Settlement::Launched { provider_id: provider_id.to_string() },
            Outcome::LaunchFailed(failure) => Settlement::Failed { why: format!("{failure:?}") },
            _ => return,
        };
        if let Some(lease) = &self.lease
            && let Err(error) = self.store.settle(lease, &order.claim, order.attempt, &settlement).await
        {
            warn!(cluster = %order.cluster, claim = %order.claim, %error, "the end of a launch could not be written down");
        }
    }

    async fn terminate(&self, provider_id: &str) -> Outcome {
        match self.cloud.terminate(instance_id(provider_id)).await {
            Ok(()) => Outcome::Begun,
            Err(CloudError::NotFound { .. }) => Outcome::Done,
            Err(error) => later(&error),
        }
    }
}

fn later(error: &CloudError) -> Outcome {
    let after_ms = match error {
        CloudError::RequestLimitExceeded { retry_after_ms } => Some(*retry_after_ms),
        _ => None,
    };
    Outcome::TryAgain { after_ms, why: error.to_string() }
}

fn again(why: impl ToString) -> Outcome {
    Outcome::TryAgain { after_ms: None, why: why.to_string() }
}

/// What has happened by itself; nothing when the cloud does not say, which then tells it next time.
pub(crate) async fn cloud_events<C: CloudProvider>(cloud: &C) -> Vec<CloudEvent> {
    cloud.events().await.unwrap_or_else(|error| {
        warn!(%error, "the cloud does not tell what has happened; asking again");
        Vec::new()
    })
}

/// Prolongs leases; answers those that are lost. A store that does not answer takes nothing away until a lease has run
/// out and been taken, and then every write is refused.
pub(crate) async fn renew(store: &dyn Store, leases: &[Lease], duration: Duration) -> Vec<Lease> {
    match store.renew_leases(leases, duration).await {
        Ok(renewal) => renewal.lost,
        Err(error) => {
            warn!(%error, "leases could not be renewed; trying again");
            Vec::new()
        }
    }
}
