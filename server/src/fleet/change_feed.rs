//! Feeds changes in the store to the control loop of this process, so that operator commands and
//! unavailable offerings reach every replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller::Event;
use controller::guardrails::Freeze;
use controller::unavailable_offerings::UnavailableOffering;
use model::{CapacityType, Text, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use agent_session::SessionEvent;
use store::guardrails::{Changes, Freeze as Row, FreezeScope, OfferingEntry};
use store::{Store, StoreError};

/// Retry interval when the store fails.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Kind of change to follow.
#[derive(Debug)]
pub enum Topic {
    /// Freezes. Those from before the feed starts are loaded by [`read_freezes`].
    Freezes,
    /// Unavailable offerings of this region, including those recorded by earlier processes.
    Offerings {
        /// Key of the region in the store.
        region: String,
    },
    /// Quarantine releases. Only those after the start of the feed concern this process.
    Releases {
        /// Number of releases by cluster; `None` before the first read.
        known: Option<BTreeMap<String, u64>>,
    },
    /// Confirmed removals. Only those after the start of the feed concern this process.
    Confirmations {
        /// Number of confirmations by cluster; `None` before the first read.
        known: Option<BTreeMap<String, u64>>,
    },
}

impl Topic {
    fn number(&self, changes: Changes) -> u64 {
        match self {
            Self::Freezes => changes.freezes,
            Self::Offerings { .. } => changes.offerings,
            Self::Releases { .. } | Self::Confirmations { .. } => changes.releases,
        }
    }

    /// Events for the current state of the topic.
    async fn read(&mut self, store: &dyn Store) -> Result<Vec<SessionEvent>, StoreError> {
        match self {
            Self::Freezes => Ok(vec![read_freezes(store).await?]),
            Self::Offerings { region } => {
                let refusals: Vec<UnavailableOffering> =
                    store.unavailable_offerings(region).await?.into_iter().filter_map(refusal).collect();
                let event = Event::OfferingsUnavailable { refusals };
                Ok(vec![SessionEvent::ClusterEvent(event)])
            }
            Self::Releases { known } => {
                let all: BTreeMap<String, u64> = store.quarantine_releases().await?.into_iter().collect();
                Ok(changed_clusters(known, all).iter().map(|cluster| quarantine_released(cluster)).collect())
            }
            Self::Confirmations { known } => {
                let all: BTreeMap<String, u64> = store.removal_confirmations().await?.into_iter().collect();
                Ok(changed_clusters(known, all).iter().map(|cluster| removals_confirmed(cluster)).collect())
            }
        }
    }
}

/// Clusters whose number changed since the last read; none at the first.
fn changed_clusters(known: &mut Option<BTreeMap<String, u64>>, all: BTreeMap<String, u64>) -> Vec<String> {
    let before = known.replace(all.clone()).unwrap_or_else(|| all.clone());
    let new = all.into_iter().filter(|(cluster, number)| before.get(cluster) != Some(number));
    new.map(|(cluster, _)| cluster).collect()
}

fn removals_confirmed(cluster: &str) -> SessionEvent {
    info!(cluster, "removals confirmed by operator");
    SessionEvent::ClusterEvent(Event::RemovalsConfirmed { cluster: Text::from(cluster) })
}

fn quarantine_released(cluster: &str) -> SessionEvent {
    info!(cluster, "quarantine released by operator");
    SessionEvent::ClusterEvent(Event::QuarantineReleased { cluster: Text::from(cluster) })
}

/// Sends every change to the control loop until `stop`.
///
/// # Errors
/// Never; a failed read is retried.
pub async fn follow(
    mut topic: Topic,
    store: Arc<dyn Store>,
    events: mpsc::Sender<SessionEvent>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut changes = store.changes();
    let mut known = None;
    loop {
        let seen = topic.number(*changes.borrow_and_update());
        if known != Some(seen) {
            match topic.read(&*store).await {
                Ok(batch) => {
                    known = Some(seen);
                    for event in batch {
                        if events.send(event).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                Err(error) => warn!(%error, ?topic, "cannot read changes from store; retrying"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            // When the sender is gone there are no changes to miss.
            Ok(()) = changes.changed() => {}
            () = tokio::time::sleep(RETRY_INTERVAL), if known != Some(seen) => {}
        }
    }
}

/// Loads the freezes as an event for the control loop.
///
/// # Errors
/// The store fails.
pub async fn read_freezes(store: &dyn Store) -> Result<SessionEvent, StoreError> {
    let freezes: Vec<Freeze> = store.freezes().await?.into_iter().map(freeze).collect();
    info!(freezes = freezes.len(), "loaded freezes");
    Ok(SessionEvent::ClusterEvent(Event::FreezesChanged { freezes }))
}

fn freeze(row: Row) -> Freeze {
    let (cluster, pool) = match row.order.scope {
        FreezeScope::Fleet => (None, None),
        FreezeScope::Cluster(cluster) => (Some(Text::from(cluster)), None),
        FreezeScope::Pool { cluster, pool } => (Some(Text::from(cluster)), Some(Text::from(pool))),
    };
    Freeze {
        id: row.id,
        cluster,
        pool,
        by: Text::from(row.order.by),
        reason: Text::from(row.order.reason),
        since: Timestamp::from_millis(row.since_ms),
        until: row.order.until_ms.map(Timestamp::from_millis),
    }
}

/// `None` for an entry with a capacity type unknown to this version.
fn refusal(entry: OfferingEntry) -> Option<UnavailableOffering> {
    let capacity_types = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved];
    Some(UnavailableOffering {
        instance_type: Text::from(entry.instance_type),
        zone: Text::from(entry.zone),
        capacity_type: capacity_types.into_iter().find(|kind| kind.as_str() == entry.capacity_type)?,
        until: Timestamp::from_millis(entry.until_ms),
    })
}

#[cfg(test)]
mod tests;
