//! Changes that every replica must hear of. A notification tells at once that a number has grown; whoever missed it, or
//! sits behind a proxy that drops notifications, reads the numbers twice a second.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgListener, PgPool};
use tokio::sync::watch;
use tracing::debug;

use super::super::StoreError;
use super::super::rails::Changes;
use super::database;

const CHANNEL: &str = "fleetwright_changes";

const POLL: Duration = Duration::from_millis(500);

const WHAT: &str = "read what has changed";

/// What has changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    Freezes,
    Leases,
    Offerings,
    Releases,
}

/// Part of the transaction that makes the change: told when it commits.
pub(super) async fn raise(connection: &mut PgConnection, signal: Signal, what: &'static str) -> Result<(), StoreError> {
    let name = match signal {
        Signal::Freezes => "freezes",
        Signal::Leases => "leases",
        Signal::Offerings => "offerings",
        Signal::Releases => "releases",
    };
    sqlx::query!("UPDATE signals SET version = version + 1 WHERE name = $1", name)
        .execute(&mut *connection)
        .await
        .map_err(database(what))?;
    sqlx::query!("SELECT pg_notify($1, '')", CHANNEL).execute(connection).await.map_err(database(what))?;
    Ok(())
}

pub(super) async fn read(pool: &PgPool) -> Result<Changes, StoreError> {
    let rows = sqlx::query!("SELECT name, version FROM signals").fetch_all(pool).await.map_err(database(WHAT))?;
    let version = |name: &str| rows.iter().find(|row| row.name == name).map_or(0, |row| row.version.unsigned_abs());
    let (freezes, leases) = (version("freezes"), version("leases"));
    Ok(Changes { freezes, leases, offerings: version("offerings"), releases: version("releases") })
}

/// Publishes changes until it is stopped.
pub(super) async fn follow(pool: PgPool, changes: watch::Sender<Changes>) {
    let mut listener = None;
    loop {
        if listener.is_none() {
            listener = listen(&pool).await;
        }
        match read(&pool).await {
            Ok(read) => {
                changes.send_if_modified(|known| std::mem::replace(known, read) != read);
            }
            Err(error) => debug!(%error, "asking again"),
        }
        if !heard_or_due(listener.as_mut()).await {
            listener = None;
        }
    }
}

async fn listen(pool: &PgPool) -> Option<PgListener> {
    let mut listener = PgListener::connect_with(pool).await.ok()?;
    listener.listen(CHANNEL).await.ok()?;
    Some(listener)
}

/// Waits for a notification or for the next poll; answers whether the listener is still of use.
async fn heard_or_due(listener: Option<&mut PgListener>) -> bool {
    let Some(listener) = listener else {
        tokio::time::sleep(POLL).await;
        return true;
    };
    match tokio::time::timeout(POLL, listener.recv()).await {
        Ok(Ok(_)) | Err(_) => true,
        Ok(Err(error)) => {
            debug!(%error, "no notifications; asking twice a second");
            tokio::time::sleep(POLL).await;
            false
        }
    }
}
