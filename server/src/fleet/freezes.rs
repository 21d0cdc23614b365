//! Freezes, from the store to this process's control loop: whichever replica took the order, every one obeys it.

use std::sync::Arc;
use std::time::Duration;

use engine::control::Event;
use engine::control::rails::Freeze;
use engine::model::{Text, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::session::SessionEvent;
use crate::store::rails::{Freeze as Row, FreezeScope};
use crate::store::{Store, StoreError};

/// A store that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Tells the control loop of every change, until `stop`. What is frozen when it begins was [read](read) before it.
///
/// # Errors
/// Never; a store that fails is asked again.
pub(crate) async fn follow(
    store: Arc<dyn Store>,
    events: mpsc::Sender<SessionEvent>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut changes = store.changes();
    let mut known = None;
    loop {
        let seen = changes.borrow_and_update().freezes;
        if known != Some(seen) {
            match read(&*store).await {
                Ok(event) => {
                    known = Some(seen);
                    if events.send(event).await.is_err() {
                        return Ok(());
                    }
                }
                Err(error) => warn!(%error, "what is frozen could not be read; asking again"),
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
pub(crate) async fn read(store: &dyn Store) -> Result<SessionEvent, StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::rails::FreezeOrder;

    async fn heard(events: &mut mpsc::Receiver<SessionEvent>) -> Vec<String> {
        let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap();
        let SessionEvent::Happened(Event::FreezesChanged { freezes }) = event else { panic!("{event:?}") };
        freezes.iter().map(|freeze| freeze.sentence().to_string()).collect()
    }

    #[tokio::test]
    async fn every_replica_hears_of_freezes_and_thaws_and_of_those_before_its_start() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let stop = CancellationToken::new();
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let (events, heard) = mpsc::channel(8);
            tokio::spawn(follow(Arc::clone(&store), events, stop.clone()));
            replicas.push(heard);
        }
        for replica in &mut replicas {
            assert!(heard(replica).await.is_empty());
        }
        let scope = FreezeScope::Pool { cluster: "c".to_owned(), pool: "p".to_owned() };
        let order = FreezeOrder { scope, by: "alice".to_owned(), reason: "why".to_owned(), until_ms: None };
        let id = store.freeze(&order).await.unwrap();
        let frozen = format!("NodePool p of cluster c is frozen by alice: why (freeze {id})");
        for replica in &mut replicas {
            assert_eq!(heard(replica).await, std::slice::from_ref(&frozen));
        }
        let (events, mut late) = mpsc::channel(8);
        tokio::spawn(follow(Arc::clone(&store), events, stop.clone()));
        assert_eq!(heard(&mut late).await, [frozen]);
        store.thaw(id, "bob").await.unwrap();
        for replica in replicas.iter_mut().chain([&mut late]) {
            assert!(heard(replica).await.is_empty());
        }
        stop.cancel();
    }
}
