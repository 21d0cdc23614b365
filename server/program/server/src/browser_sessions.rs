//! Sessions of browsers in the store.

use std::fmt;
use std::sync::Arc;

use auth::AuthError;
use auth::authorizer::Authorizer;
use auth::browser_session::{BrowserSession, BrowserSessionStore, Sha256Digest};
use futures::future::BoxFuture;
use store::browser_sessions::BrowserSessionRow;
use store::{Store, StoreError};
use tracing::warn;

/// The authorizer of a server: replicas show it `token`, and browsers sign in to sessions in `store`.
pub(crate) fn authorizer(authorizer: Authorizer, token: &str, store: &Arc<dyn Store>) -> Arc<Authorizer> {
    let sessions = Arc::new(StoredBrowserSessions(Arc::clone(store)));
    Arc::new(authorizer.with_replica_token(token).with_browser_sessions(sessions))
}

struct StoredBrowserSessions(Arc<dyn Store>);

impl fmt::Debug for StoredBrowserSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBrowserSessions").finish_non_exhaustive()
    }
}

impl BrowserSessionStore for StoredBrowserSessions {
    fn create<'a>(&'a self, session: &'a BrowserSession) -> BoxFuture<'a, Result<(), AuthError>> {
        let row = BrowserSessionRow {
            id_sha256: session.id_sha256.to_vec(),
            key_sha256: session.key_sha256.to_vec(),
            client: session.client.clone(),
            credential: session.credential.clone(),
            expires_ms: session.expires_ms,
        };
        Box::pin(async move { self.0.create_browser_session(&row).await.map_err(unavailable) })
    }

    fn find<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<Option<BrowserSession>, AuthError>> {
        Box::pin(async move {
            let row = self.0.browser_session(id_sha256).await.map_err(unavailable)?;
            Ok(row.and_then(session_of))
        })
    }

    fn delete<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<(), AuthError>> {
        Box::pin(async move { self.0.delete_browser_session(id_sha256).await.map_err(unavailable) })
    }

    fn delete_of<'a>(&'a self, client: &'a str, credential: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        Box::pin(async move { self.0.delete_browser_sessions_of(client, credential).await.map_err(unavailable) })
    }
}

fn session_of(row: BrowserSessionRow) -> Option<BrowserSession> {
    Some(BrowserSession {
        id_sha256: row.id_sha256.try_into().ok()?,
        key_sha256: row.key_sha256.try_into().ok()?,
        client: row.client,
        credential: row.credential,
        expires_ms: row.expires_ms,
    })
}

/// Callers are not authenticated yet: the error itself goes to the log only.
#[allow(clippy::needless_pass_by_value)]
fn unavailable(error: StoreError) -> AuthError {
    warn!(%error, "cannot read or write browser sessions");
    AuthError("the store of sessions is unavailable; try again".to_owned())
}
