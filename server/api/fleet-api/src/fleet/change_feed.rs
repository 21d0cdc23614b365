//! Feeds changes in the store to the control loops of this process, so that operator commands and
//! unavailable offerings reach every replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controller::guardrails::Freeze;
use controller::unavailable_offerings::FORGOTTEN_AFTER;
use controller::{Event, RegionEvent};
use futures::StreamExt;
use model::{ClusterName, PoolName, Text, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::questions::Delivery;
use agent_session::SessionEvent;
use replica::{holds, offerings};
use store::guardrails::{Changes, Freeze as Row, FreezeScope};
use store::lease::Scope;
use store::{Store, StoreError, clock};

/// Retry interval when the store fails.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub enum Topic {
    /// Freezes. Those from before the feed starts are loaded by [`read_freezes`].
    Freezes {
        /// Those in effect at the last read.
        known: KnownFreezes,
    },
    /// Refused offerings of this region, including those recorded by earlier processes.
    Offerings { scope: Scope },
    Holds {
        /// Clusters that had holds at the last read.
        known: BTreeSet<ClusterName>,
    },
    /// Quarantine releases. Only those after the start of the feed concern this process.
    Releases {
        /// Number of releases by cluster; `None` before the first read.
        known: Option<BTreeMap<ClusterName, u64>>,
    },
    /// Confirmed removals. Only those after the start of the feed concern this process.
    Confirmations {
        /// Number of confirmations by cluster; `None` before the first read.
        known: Option<BTreeMap<ClusterName, u64>>,
    },
}

impl Topic {
    fn name(&self) -> &'static str {
        match self {
            Self::Freezes { .. } => "freezes",
            Self::Offerings { .. } => "unavailable offerings",
            Self::Holds { .. } => "holds",
            Self::Releases { .. } => "quarantine releases",
            Self::Confirmations { .. } => "confirmed removals",
        }
    }

    fn number(&self, changes: Changes) -> u64 {
        match self {
            Self::Freezes { .. } => changes.freezes,
            Self::Offerings { .. } => changes.offerings,
            Self::Holds { .. } => changes.holds,
            Self::Releases { .. } | Self::Confirmations { .. } => changes.releases,
        }
    }

    /// Events for the current state of the topic.
    async fn read(&mut self, store: &dyn Store) -> Result<Vec<SessionEvent>, StoreError> {
        match self {
            Self::Freezes { known } => Ok(vec![read_freezes(store, known).await?]),
            Self::Offerings { scope } => Ok(vec![SessionEvent::RegionEvent(read_offerings(store, scope).await?)]),
            Self::Holds { known } => Ok(read_holds(store, known).await?),
            Self::Releases { known } => {
                let all = by_cluster(store.quarantine_releases().await?);
                Ok(changed_clusters(known, all).into_iter().map(quarantine_released).collect())
            }
            Self::Confirmations { known } => {
                let all = by_cluster(store.removal_confirmations().await?);
                Ok(changed_clusters(known, all).into_iter().map(removals_confirmed).collect())
            }
        }
    }
}

fn by_cluster(rows: Vec<(String, u64)>) -> BTreeMap<ClusterName, u64> {
    rows.into_iter().map(|(cluster, number)| (ClusterName::from(cluster), number)).collect()
}

/// Clusters whose number changed since the last read; none at the first.
fn changed_clusters(
    known: &mut Option<BTreeMap<ClusterName, u64>>,
    all: BTreeMap<ClusterName, u64>,
) -> Vec<ClusterName> {
    let before = known.replace(all.clone()).unwrap_or_else(|| all.clone());
    let new = all.into_iter().filter(|(cluster, number)| before.get(cluster) != Some(number));
    new.map(|(cluster, _)| cluster).collect()
}

fn removals_confirmed(cluster: ClusterName) -> SessionEvent {
    info!(%cluster, "removals confirmed by operator");
    SessionEvent::ClusterEvent(Event::RemovalsConfirmed.of(cluster))
}

fn quarantine_released(cluster: ClusterName) -> SessionEvent {
    info!(%cluster, "quarantine released by operator");
    SessionEvent::ClusterEvent(Event::QuarantineReleased.of(cluster))
}

/// Sends every change to the control loops until `stop`. Each ignores what concerns clusters that it does not own.
///
/// # Errors
/// Never; a failed read is retried.
pub async fn follow(
    mut topic: Topic,
    store: Arc<dyn Store>,
    loops: Vec<mpsc::Sender<Delivery>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut changes = store.changes();
    // Number of the latest change, and of the last that was read.
    let (mut latest, mut known) = (None, None);
    loop {
        if known != latest {
            match topic.read(&*store).await {
                Ok(batch) => {
                    known = latest;
                    for event in batch {
                        if !send_to_all(&loops, &event).await {
                            return Ok(());
                        }
                    }
                }
                Err(error) => warn!(%error, topic = topic.name(), "cannot read changes from store; retrying"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            // After the end of the stream there are no changes to miss.
            Some(next) = changes.next() => latest = Some(topic.number(next)),
            () = tokio::time::sleep(RETRY_INTERVAL), if known != latest => {}
        }
    }
}

/// Sends an event to every control loop; `false` once one has ended.
pub async fn send_to_all(loops: &[mpsc::Sender<Delivery>], event: &SessionEvent) -> bool {
    for events in loops {
        if events.send(event.clone().into()).await.is_err() {
            return false;
        }
    }
    true
}

/// Loads what the store has of refused offerings, and of those that were launched again, as an event for the control loop.
///
/// # Errors
/// The store fails.
pub async fn read_offerings(store: &dyn Store, scope: &Scope) -> Result<RegionEvent, StoreError> {
    let (region, account) = offerings::region_and_account(scope);
    let rows = store.unavailable_offerings(region, account, clock::duration(FORGOTTEN_AFTER)).await?;
    Ok(RegionEvent::OfferingsUnavailable(rows.into_iter().filter_map(offerings::decode_row).collect()))
}

/// Loads the live holds as an event for each cluster that has any, or had at the last read.
async fn read_holds(store: &dyn Store, known: &mut BTreeSet<ClusterName>) -> Result<Vec<SessionEvent>, StoreError> {
    let live = store.live_holds().await?;
    let events = holds::changed_events(&live, std::mem::take(known), clock::now());
    *known = live.holds.iter().map(|row| ClusterName::from(row.cluster.as_str())).collect();
    Ok(events.into_iter().map(SessionEvent::ClusterEvent).collect())
}

/// Freezes by number, as they were last read.
pub type KnownFreezes = BTreeMap<i64, Freeze>;

/// Loads the freezes as an event for the control loop, and logs those that are new or have ended
/// since `known` was read.
///
/// # Errors
/// The store fails.
pub async fn read_freezes(store: &dyn Store, known: &mut KnownFreezes) -> Result<SessionEvent, StoreError> {
    let freezes: Vec<Freeze> = store.freezes().await?.into_iter().map(freeze).collect();
    let now: KnownFreezes = freezes.iter().map(|freeze| (freeze.id, freeze.clone())).collect();
    for freeze in now.values().filter(|freeze| !known.contains_key(&freeze.id)) {
        log_freeze(freeze);
    }
    for freeze in known.values().filter(|freeze| !now.contains_key(&freeze.id)) {
        info!(freeze = freeze.id, scope = %scope_of(freeze), "freeze ended");
    }
    *known = now;
    Ok(SessionEvent::RegionEvent(RegionEvent::FreezesChanged(freezes)))
}

fn log_freeze(freeze: &Freeze) {
    let Freeze { id, only_disruption, by, reason, until, .. } = freeze;
    let until = until.as_ref().map_or_else(|| format!("`fleetwright thaw --id {id}`"), |until| rfc3339(*until));
    warn!(freeze = id, scope = %scope_of(freeze), only_disruption, %by, reason = &**reason, until, "freeze in effect");
}

fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_millis()).map(|at| at.to_string()).unwrap_or_default()
}

fn scope_of(freeze: &Freeze) -> String {
    match (&freeze.cluster, &freeze.pool) {
        (None, _) => "fleet".to_owned(),
        (Some(cluster), None) => format!("cluster/{cluster}"),
        (Some(cluster), Some(pool)) => format!("cluster/{cluster}/nodepool/{pool}"),
    }
}

fn freeze(row: Row) -> Freeze {
    let (cluster, pool) = match row.order.scope {
        FreezeScope::Fleet => (None, None),
        FreezeScope::Cluster(cluster) => (Some(ClusterName::from(cluster)), None),
        FreezeScope::Pool { cluster, pool } => (Some(ClusterName::from(cluster)), Some(PoolName::from(pool))),
    };
    Freeze {
        id: row.id,
        cluster,
        pool,
        only_disruption: row.order.only_disruption,
        by: Text::from(row.order.by),
        reason: Text::from(row.order.reason),
        since: Timestamp::from_millis(row.since_ms),
        until: row.order.until_ms.map(Timestamp::from_millis),
    }
}

#[cfg(test)]
mod tests;
