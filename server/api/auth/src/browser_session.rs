//! Sessions of browsers. After a sign-in ([`super::sign_in`]) a browser has a cookie, which scripts cannot read, and a key, which
//! only scripts of the page can read. A request needs both: a forged request has no key, and a cookie that was copied from a
//! proxy's log or another port of the host authorizes nothing.
//!
//! The store has digests of both, so that a reader of the store cannot act. A session has the scope that the trust file gives its
//! client now: it ends for good when the entry, or the credential that signed it in, is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use futures::future::BoxFuture;
use sha2::{Digest, Sha256};

use super::AuthError;

/// Name of the cookie. Browsers accept this prefix only from this host, for all paths, over TLS or from loopback.
pub(crate) const COOKIE: &str = "__Host-fleetwright-session";

/// Header that carries the key. A page of another origin cannot send it.
pub(crate) const KEY_HEADER: &str = "x-fleetwright-session-key";

pub(crate) const LIFETIME: Duration = Duration::from_hours(12);

/// Maximum delay until a sign-out at another replica is noticed.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Maximum number of sessions in memory; above it they are read again.
const CACHED_SESSIONS: usize = 10_000;

/// Maximum number of ids in a second that this replica asks the store about for the first time: anybody may send any cookie,
/// and the store has more important readers.
const NEW_IDS_PER_SECOND: u32 = 50;

const ENDED: &str = "the session has ended; sign in again";

pub type Sha256Digest = [u8; 32];

/// A session as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSession {
    pub id_sha256: Sha256Digest,
    pub key_sha256: Sha256Digest,
    /// Name of the client in the trust file.
    pub client: String,
    /// What identified the client at the sign-in, as its entry in the trust file has it. No secret.
    pub credential: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// Where sessions are stored, for all replicas.
pub trait BrowserSessionStore: Send + Sync + fmt::Debug {
    fn create<'a>(&'a self, session: &'a BrowserSession) -> BoxFuture<'a, Result<(), AuthError>>;

    /// The session with this id, also when it has expired.
    fn find<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<Option<BrowserSession>, AuthError>>;

    fn delete<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<(), AuthError>>;

    /// Deletes all sessions of a client that `credential` has signed in.
    fn delete_of<'a>(&'a self, client: &'a str, credential: &'a str) -> BoxFuture<'a, Result<(), AuthError>>;
}

#[derive(Clone, PartialEq, Eq)]
pub struct PresentedSession {
    id: String,
    key: Option<String>,
}

impl fmt::Debug for PresentedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PresentedSession").finish_non_exhaustive()
    }
}

impl PresentedSession {
    /// The session in the headers of a request, if there is one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let id = cookie(headers, COOKIE)?;
        let key = headers.get(KEY_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Some(Self { id, key })
    }
}

pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// Sessions of the store, of which the recent ones are in memory: a page asks several times in a second.
#[derive(Debug)]
pub(crate) struct BrowserSessions {
    store: Arc<dyn BrowserSessionStore>,
    recent: Mutex<RecentSessions>,
}

#[derive(Debug, Default)]
struct RecentSessions {
    /// With the time at which each was read.
    by_id: BTreeMap<Sha256Digest, (BrowserSession, Instant)>,
    /// The second in which ids were asked about for the first time, and how many.
    new_ids: Option<(Instant, u32)>,
}

impl RecentSessions {
    fn fresh(&self, id: &Sha256Digest, now: Instant) -> Option<BrowserSession> {
        let (session, read) = self.by_id.get(id)?;
        (now.duration_since(*read) < MAX_AGE).then(|| session.clone())
    }

    /// Whether the store may be asked about this id now. A session that is known here is never kept waiting by unknown ones.
    fn admits(&mut self, id: &Sha256Digest, now: Instant) -> bool {
        if self.by_id.contains_key(id) {
            return true;
        }
        let (since, count) = self.new_ids.filter(|(since, _)| now.duration_since(*since) < SECOND).unwrap_or((now, 0));
        self.new_ids = Some((since, count.saturating_add(1)));
        count < NEW_IDS_PER_SECOND
    }

    fn keep(&mut self, session: BrowserSession, now: Instant) {
        if self.by_id.len() >= CACHED_SESSIONS {
            self.by_id.clear();
        }
        self.by_id.insert(session.id_sha256, (session, now));
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Cookie and key of a new session. Both are secret.
pub(crate) struct SessionSecrets {
    pub(crate) id: String,
    pub(crate) key: String,
}

impl BrowserSessions {
    pub(crate) fn new(store: Arc<dyn BrowserSessionStore>) -> Self {
        Self { store, recent: Mutex::default() }
    }

    /// Creates a session of `client`, which `credential` has identified.
    pub(crate) async fn create(
        &self,
        client: String,
        credential: String,
        expires_ms: i64,
    ) -> Result<SessionSecrets, AuthError> {
        let secrets = SessionSecrets { id: super::token::random()?, key: super::token::random()? };
        let (id_sha256, key_sha256) = (digest(&secrets.id), digest(&secrets.key));
        let session = BrowserSession { id_sha256, key_sha256, client, credential, expires_ms };
        self.store.create(&session).await?;
        self.recent().keep(session, Instant::now());
        Ok(secrets)
    }

    /// The session that a browser has presented with its key.
    ///
    /// # Errors
    /// It is unknown, has expired, or the key is missing or that of another session.
    pub(crate) async fn verify(&self, presented: &PresentedSession, now_ms: i64) -> Result<BrowserSession, AuthError> {
        let Some(key) = &presented.key else {
            return Err(AuthError(format!("a session's cookie without its key in the header {KEY_HEADER}")));
        };
        let session = self.read(digest(&presented.id)).await?.ok_or_else(|| AuthError(ENDED.to_owned()))?;
        // Digests are compared, so the timing reveals nothing about the key.
        if session.key_sha256 != digest(key) || session.expires_ms <= now_ms {
            return Err(AuthError(ENDED.to_owned()));
        }
        Ok(session)
    }

    /// Ends a session at all replicas.
    pub(crate) async fn end(&self, session: &BrowserSession) -> Result<(), AuthError> {
        self.store.delete(&session.id_sha256).await?;
        self.recent().by_id.remove(&session.id_sha256);
        Ok(())
    }

    /// Ends all sessions of a client that `credential` has signed in, at all replicas.
    pub(crate) async fn end_of(&self, client: &str, credential: &str) -> Result<(), AuthError> {
        self.store.delete_of(client, credential).await?;
        self.recent().by_id.retain(|_, (session, _)| session.client != client || session.credential != credential);
        Ok(())
    }

    async fn read(&self, id: Sha256Digest) -> Result<Option<BrowserSession>, AuthError> {
        let now = Instant::now();
        let (fresh, is_admitted) = {
            let mut recent = self.recent();
            (recent.fresh(&id, now), recent.admits(&id, now))
        };
        if fresh.is_some() {
            return Ok(fresh);
        }
        if !is_admitted {
            return Err(AuthError("too many unknown sessions are presented; try again in a second".to_owned()));
        }
        let found = self.store.find(&id).await?;
        let mut recent = self.recent();
        match &found {
            Some(session) => recent.keep(session.clone(), now),
            None => drop(recent.by_id.remove(&id)),
        }
        Ok(found)
    }

    fn recent(&self) -> MutexGuard<'_, RecentSessions> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(secret: &str) -> Sha256Digest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u8) -> BrowserSession {
        let (id_sha256, key_sha256) = ([id; 32], [0; 32]);
        BrowserSession { id_sha256, key_sha256, client: String::new(), credential: String::new(), expires_ms: 0 }
    }

    #[test]
    fn unknown_cookies_ask_the_store_for_a_limited_number_of_times_and_delay_no_known_session() {
        let (mut recent, start) = (RecentSessions::default(), Instant::now());
        recent.keep(session(255), start);
        let admitted = (0..200).filter(|id| recent.admits(&[*id; 32], start)).count();
        assert_eq!(admitted, 50);
        let later = start + MAX_AGE - Duration::from_millis(1);
        assert!(recent.admits(&[255; 32], start) && recent.fresh(&[255; 32], later).is_some());
        assert!(!recent.admits(&[7; 32], start + Duration::from_millis(999)));
        assert!(recent.admits(&[7; 32], start + Duration::from_secs(1)), "another second");
        // It is read again, and still known.
        let old = start + MAX_AGE;
        assert!(recent.fresh(&[255; 32], old).is_none() && recent.admits(&[255; 32], old));
    }
}
