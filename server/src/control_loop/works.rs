//! Calls that wait for somebody, and what becomes of their answers.

use std::sync::Arc;
use std::time::Duration;

use cloud::provider::{CloudError, CloudEvent, CloudProvider, LaunchRequest, instance_id};
use engine::control::{Decision, LaunchOrder};
use executor::{Command, Outcome};
use tracing::warn;

use super::records;
use super::replica::{Call, Input};
use crate::config::LeaseConfig;
use crate::store::Store;
use crate::store::lease::{Lease, Scope};
use crate::store::undertaking::Settlement;

/// What calls are made with.
pub(crate) struct Hands<C> {
    /// What survives.
    pub(crate) store: Arc<dyn Store>,
    /// Where machines come from.
    pub(crate) cloud: Arc<C>,
    /// Ownership of clusters.
    pub(crate) lease: LeaseConfig,
}

impl<C: CloudProvider + 'static> Hands<C> {
    /// Makes a call, however long it takes.
    pub(crate) async fn make(&self, call: Call) -> Input {
        match call {
            Call::TakeLease { cluster, seen } => {
                let answer = self
                    .store
                    .take_lease(&Scope::cluster(&cluster), &self.lease.owner, seen, self.lease.duration)
                    .await;
                Input::Leased { cluster, answer }
            }
            Call::Renew(leases) => Input::Renewed { lost: renew(&*self.store, &leases, self.lease.duration).await },
            Call::AskCloud => Input::CloudTold(cloud_events(&*self.cloud).await),
            Call::Run { id, command, lease, .. } => {
                let errand = Errand { store: &*self.store, cloud: &*self.cloud, lease };
                Input::Ran { id, outcome: errand.run(command).await }
            }
        }
    }
}

/// What a command needs.
struct Errand<'h, C> {
    store: &'h dyn Store,
    cloud: &'h C,
    /// The lease of the command's cluster, if this replica holds it.
    lease: Option<Lease>,
}

impl<C: CloudProvider> Errand<'_, C> {
    async fn run(&self, command: Command) -> Outcome {
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
async fn cloud_events<C: CloudProvider>(cloud: &C) -> Vec<CloudEvent> {
    cloud.events().await.unwrap_or_else(|error| {
        warn!(%error, "the cloud does not tell what has happened; asking again");
        Vec::new()
    })
}

/// Prolongs leases; answers those that are lost. A store that does not answer takes nothing away until a lease has run
/// out and been taken, and then every write is refused.
async fn renew(store: &dyn Store, leases: &[Lease], duration: Duration) -> Vec<Lease> {
    match store.renew_leases(leases, duration).await {
        Ok(renewal) => renewal.lost,
        Err(error) => {
            warn!(%error, "leases could not be renewed; trying again");
            Vec::new()
        }
    }
}
