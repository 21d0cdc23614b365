//! Change counters that every replica watches. A notification announces that a counter grew; a
//! replica that misses it, or whose proxy drops notifications, polls the counters twice a second.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgListener, PgPool};
use tokio::sync::watch;
use tracing::debug;

use super::conversion::database;
use store::StoreResult;
use store::guardrails::Changes;

const CHANNEL: &str = "fleetwright_changes";

const POLL: Duration = Duration::from_millis(500);

const WHAT: &str = "read the change counters";

#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    Freezes,
    Holds,
    Leases,
    Releases,
}

/// Increments a counter in the transaction of the change; the notification is sent at commit.
pub(super) async fn bump_signal(connection: &mut PgConnection, signal: Signal, what: &'static str) -> StoreResult<()> {
    let name = match signal {
        Signal::Freezes => "freezes",
        Signal::Holds => "holds",
        Signal::Leases => "leases",
        Signal::Releases => "releases",
    };
    sqlx::query!("UPDATE signals SET version = version + 1 WHERE name = $1", name)
        .execute(&mut *connection)
        .await
        .map_err(database(what))?;
    notify(connection, what).await
}

/// Increments the counter of offerings; the caller notifies if it changes any. Returns the new version.
pub(super) async fn raise_offerings(connection: &mut PgConnection, what: &'static str) -> StoreResult<i64> {
    sqlx::query_scalar!("UPDATE signals SET version = version + 1 WHERE name = 'offerings' RETURNING version")
        .fetch_one(connection)
        .await
        .map_err(database(what))
}

/// Sends the notification at commit.
pub(super) async fn notify(connection: &mut PgConnection, what: &'static str) -> StoreResult<()> {
    sqlx::query!("SELECT pg_notify($1, '')", CHANNEL).execute(connection).await.map_err(database(what))?;
    Ok(())
}

pub(super) async fn read(pool: &PgPool) -> StoreResult<Changes> {
    let rows = sqlx::query!("SELECT name, version FROM signals").fetch_all(pool).await.map_err(database(WHAT))?;
    let version = |name: &str| rows.iter().find(|row| row.name == name).map_or(0, |row| row.version.unsigned_abs());
    let (freezes, leases, holds) = (version("freezes"), version("leases"), version("holds"));
    Ok(Changes { freezes, leases, holds, offerings: version("offerings"), releases: version("releases") })
}

/// Publishes counter changes until it is aborted.
pub(super) async fn publish_changes(pool: PgPool, changes: watch::Sender<Changes>) {
    let mut listener = None;
    loop {
        if listener.is_none() {
            listener = listen(&pool).await;
        }
        match read(&pool).await {
            Ok(read) => {
                changes.send_if_modified(|known| std::mem::replace(known, read) != read);
            }
            Err(error) => debug!(%error, "could not read change counters"),
        }
        if !wait_for_notification(listener.as_mut()).await {
            listener = None;
        }
    }
}

async fn listen(pool: &PgPool) -> Option<PgListener> {
    let mut listener = PgListener::connect_with(pool).await.ok()?;
    listener.listen(CHANNEL).await.ok()?;
    Some(listener)
}

/// Waits for a notification or the next poll; returns whether the listener is still usable.
async fn wait_for_notification(listener: Option<&mut PgListener>) -> bool {
    let Some(listener) = listener else {
        tokio::time::sleep(POLL).await;
        return true;
    };
    match tokio::time::timeout(POLL, listener.recv()).await {
        Ok(Ok(_)) | Err(_) => true,
        Ok(Err(error)) => {
            debug!(%error, "LISTEN connection lost; polling");
            tokio::time::sleep(POLL).await;
            false
        }
    }
}
