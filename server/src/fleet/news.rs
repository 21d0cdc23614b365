//! What every replica must hear of, from the store to this process's control loop: whichever replica took an order or was
//! refused an offering, every one knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::control::Event;
use engine::control::guardrails::Freeze;
use engine::control::unavailable_offerings::UnavailableOffering;
use engine::model::{CapacityType, Text, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::session::SessionEvent;
use crate::store::rails::{Changes, Freeze as Row, FreezeScope, OfferingEntry};
use crate::store::{Store, StoreError};

/// A store that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Something that changes now and then.
#[derive(Debug)]
pub(crate) enum Topic {
    /// What is frozen. What was frozen before it is followed was [read](read_freezes) by then.
    Freezes,
    /// What the cloud of this region has refused; what it refused to former processes is heard at once.
    Offerings {
        /// As the store calls the region.
        region: String,
    },
    /// For which clusters people have vouched, and how often. What they said before it is followed is not for this process.
    Releases {
        /// What is known; `None` before the first look.
        known: Option<BTreeMap<String, u64>>,
    },
    /// In which clusters people have confirmed removals, and how often; as for releases.
    Confirmations {
        /// What is known; `None` before the first look.
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

    /// What is to be told about it at this moment.
    async fn read(&mut self, store: &dyn Store) -> Result<Vec<SessionEvent>, StoreError> {
        match self {
            Self::Freezes => Ok(vec![read_freezes(store).await?]),
            Self::Offerings { region } => {
                let refusals: Vec<UnavailableOffering> =
                    store.recall_offerings(region).await?.into_iter().filter_map(refusal).collect();
                let event = Event::OfferingsRefused { refusals };
                Ok(vec![SessionEvent::Happened(event)])
            }
            Self::Releases { known } => {
                let all: BTreeMap<String, u64> = store.quarantine_releases().await?.into_iter().collect();
                Ok(news(known, all).iter().map(|cluster| vouched(cluster)).collect())
            }
            Self::Confirmations { known } => {
                let all: BTreeMap<String, u64> = store.removal_confirmations().await?.into_iter().collect();
                Ok(news(known, all).iter().map(|cluster| confirmed(cluster)).collect())
            }
        }
    }
}

/// Clusters whose number has grown since the last look; none at the first one.
fn news(known: &mut Option<BTreeMap<String, u64>>, all: BTreeMap<String, u64>) -> Vec<String> {
    let before = known.replace(all.clone()).unwrap_or_else(|| all.clone());
    let new = all.into_iter().filter(|(cluster, number)| before.get(cluster) != Some(number));
    new.map(|(cluster, _)| cluster).collect()
}

fn confirmed(cluster: &str) -> SessionEvent {
    info!(cluster, "removals that wait were confirmed");
    SessionEvent::Happened(Event::RemovalsConfirmed { cluster: Text::from(cluster) })
}

fn vouched(cluster: &str) -> SessionEvent {
    info!(cluster, "what the agent of the cluster tells is to be believed");
    SessionEvent::Happened(Event::QuarantineReleased { cluster: Text::from(cluster) })
}

/// Tells the control loop of every change, until `stop`.
///
/// # Errors
/// Never; a store that fails is asked again.
pub(crate) async fn follow(
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
                Ok(news) => {
                    known = Some(seen);
                    for event in news {
                        if events.send(event).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                Err(error) => warn!(%error, ?topic, "what has changed could not be read; asking again"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            // Without a sender there are no changes to hear of, and none is missed.
            Ok(()) = changes.changed() => {}
            () = tokio::time::sleep(AGAIN), if known != Some(seen) => {}
        }
    }
}

/// What is frozen at this moment, as the control loop is told.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn read_freezes(store: &dyn Store) -> Result<SessionEvent, StoreError> {
    let freezes: Vec<Freeze> = store.freezes().await?.into_iter().map(freeze).collect();
    info!(freezes = freezes.len(), "what is frozen was read");
    Ok(SessionEvent::Happened(Event::FreezesChanged { freezes }))
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
        since: Timestamp(row.since_ms),
        until: row.order.until_ms.map(Timestamp),
    }
}

/// `None` for what another release wrote and this one cannot buy.
fn refusal(entry: OfferingEntry) -> Option<UnavailableOffering> {
    let paid = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved];
    Some(UnavailableOffering {
        instance_type: Text::from(entry.instance_type),
        zone: Text::from(entry.zone),
        capacity_type: paid.into_iter().find(|kind| kind.as_str() == entry.capacity_type)?,
        until: Timestamp(entry.until_ms),
    })
}

#[cfg(test)]
mod tests;
