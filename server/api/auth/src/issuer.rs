//! Keys of token issuers, from a JWKS file or by OpenID Connect discovery. Rotated keys are picked
//! up without a restart: a file is reloaded when it changes, and an unknown key id refetches the
//! issuer's keys, rate-limited by [`jwks_cache`] so that forged tokens cannot trigger requests.
//!
//! Each issuer has at most one fetch in flight, on a thread of its own, so an unresponsive issuer
//! blocks neither other issuers nor the rest of the process.

mod error;
pub(crate) mod fetch;
mod jwks_cache;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jsonwebtoken::jwk::JwkSet;
use tokio::sync::watch;

use super::AuthError;
use super::file::IssuerTrust;
use error::KeySetError;
use jwks_cache::{JwksCache, Lookup};

/// Maximum concurrent fetches. Each uses a thread; a failed issuer is retried with backoff.
const MAX_CONCURRENT_FETCHES: usize = 64;

/// Claim `iss` of an issuer, and the file with the authorities of its address.
type Source = (String, Option<PathBuf>);
type FetchKeys = dyn Fn(&str, Option<&Path>) -> Result<JwkSet, KeySetError> + Send + Sync;

/// Keys of all issuers, by source.
pub(crate) struct IssuerKeys {
    shared: Arc<Shared>,
}

struct Shared {
    fetch: Box<FetchKeys>,
    known: Mutex<BTreeMap<Source, IssuerState>>,
}

#[derive(Default)]
struct IssuerState {
    cache: JwksCache,
    /// Closed when the fetch in flight has completed.
    in_flight: Option<watch::Receiver<()>>,
}

impl Default for IssuerKeys {
    fn default() -> Self {
        Self::with_fetcher(fetch::fetch)
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKeys").finish_non_exhaustive()
    }
}

impl IssuerKeys {
    /// Issuers whose keys are fetched by `fetch`.
    pub(super) fn with_fetcher(
        fetch: impl Fn(&str, Option<&Path>) -> Result<JwkSet, KeySetError> + Send + Sync + 'static,
    ) -> Self {
        Self { shared: Arc::new(Shared { fetch: Box::new(fetch), known: Mutex::default() }) }
    }

    /// Keys that verify a token of `issuer` with `key_id`.
    ///
    /// # Errors
    /// No keys are available, and why.
    pub async fn keys(&self, issuer: &IssuerTrust, key_id: Option<&str>) -> Result<Arc<JwkSet>, AuthError> {
        if let Some(path) = &issuer.jwks_file {
            return read(path).map(Arc::new).map_err(|error| AuthError(error.to_string()));
        }
        let source = (issuer.issuer.clone(), issuer.ca_file.clone());
        match self.look_up(&source, key_id)? {
            Ok(keys) => Ok(keys),
            Err(mut completed) => {
                // The sender never sends: it is dropped when the result is stored.
                let _closed = completed.changed().await;
                let known = self.shared.known();
                let cache = known.get(&source).map(|known| &known.cache);
                cache.map_or_else(
                    || Err(AuthError("no fetch in flight".to_owned())),
                    |cache| cache.cached(Instant::now()),
                )
            }
        }
    }

    /// The keys, or the fetch to wait for.
    fn look_up(
        &self,
        source: &Source,
        key_id: Option<&str>,
    ) -> Result<Result<Arc<JwkSet>, watch::Receiver<()>>, AuthError> {
        let mut known = self.shared.known();
        let fetching = known.values().filter(|known| known.is_fetching()).count();
        let entry = known.entry(source.clone()).or_default();
        // The lock is held from the lookup to the start of a fetch, so an issuer has one in flight.
        match (entry.cache.look_up(key_id, entry.is_fetching(), Instant::now()), &entry.in_flight) {
            (Lookup::Use(keys), _) => Ok(Ok(keys)),
            (Lookup::Refuse(denial), _) => Err(denial),
            (Lookup::Wait, Some(completed)) => Ok(Err(completed.clone())),
            (Lookup::Wait, None) => Err(AuthError("no fetch in flight".to_owned())),
            (Lookup::Fetch, _) if fetching >= MAX_CONCURRENT_FETCHES => {
                Err(AuthError(format!("{MAX_CONCURRENT_FETCHES} JWKS fetches are already in flight; retry later")))
            }
            (Lookup::Fetch, _) => {
                let (done, completed) = watch::channel(());
                entry.in_flight = Some(completed.clone());
                let (shared, of) = (Arc::clone(&self.shared), source.clone());
                let thread = std::thread::Builder::new().name("issuer".to_owned());
                let started = thread.spawn(move || shared.fetch_keys(&of, done));
                if let Err(error) = started {
                    entry.in_flight = None;
                    return Err(AuthError(format!(
                        "cannot start a thread to fetch the keys of issuer {:?}: {error}",
                        source.0
                    )));
                }
                Ok(Err(completed))
            }
        }
    }
}

impl IssuerState {
    /// Whether a fetch is in flight. Its sender is dropped on completion and on failure.
    fn is_fetching(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|completed| completed.has_changed().is_ok())
    }
}

impl Shared {
    /// Fetches the keys and stores the result; `done` is dropped afterwards, also on panic.
    fn fetch_keys(&self, source: &Source, done: watch::Sender<()>) {
        let result = (self.fetch)(&source.0, source.1.as_deref());
        if let Err(error) = &result {
            tracing::warn!(issuer = source.0, %error, "cannot refresh JWKS; using cached keys");
        }
        if let Some(entry) = self.known().get_mut(source) {
            entry.cache.record_fetch(result, Instant::now());
            entry.in_flight = None;
        }
        drop(done);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Source, IssuerState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<JwkSet, KeySetError> {
    let text = std::fs::read_to_string(path).map_err(|error| KeySetError::File { path: path.to_owned(), error })?;
    serde_json::from_str(&text).map_err(|error| KeySetError::FileContent { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests;
