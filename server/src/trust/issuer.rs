//! The keys of an issuer: from a file, or asked of the issuer itself and kept. Keys that are rotated are found without a
//! restart: a file is read again when it changes, an issuer is asked again for a key that is not known, though not more
//! often than [`keyring`] allows, so that made-up tokens cost nobody anything.
//!
//! An issuer is asked once at a time, on a thread that ends with the answer: an issuer that does not answer holds up neither
//! other issuers nor anything else of this process.

mod ask;
mod keyring;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jsonwebtoken::jwk::JwkSet;
use tokio::sync::watch;

use super::Refusal;
use super::file::IssuerTrust;
use keyring::{Keyring, Look};

/// Issuers that are asked at one moment. Each has a thread, and one that hangs is not asked again at once.
const ASKED_AT_ONCE: usize = 64;

/// An issuer's claim `iss`, and the file with the authorities that vouch for its address.
type Source = (String, Option<PathBuf>);
type Ask = dyn Fn(&str, Option<&Path>) -> Result<JwkSet, String> + Send + Sync;

/// Keys of issuers, by where they come from.
pub(crate) struct Issuers {
    shared: Arc<Shared>,
}

struct Shared {
    ask: Box<Ask>,
    known: Mutex<BTreeMap<Source, Known>>,
}

#[derive(Default)]
struct Known {
    ring: Keyring,
    /// Completes when the question that is under way is answered.
    under_way: Option<watch::Receiver<()>>,
}

impl Default for Issuers {
    fn default() -> Self {
        Self::asking(ask::ask)
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuers").finish_non_exhaustive()
    }
}

impl Issuers {
    /// Issuers that are asked by `ask`.
    pub(super) fn asking(ask: impl Fn(&str, Option<&Path>) -> Result<JwkSet, String> + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { ask: Box::new(ask), known: Mutex::default() }) }
    }

    /// The keys by which a token of `issuer` that names `key_id` is judged.
    ///
    /// # Errors
    /// When there are none: what was tried and why it failed.
    pub(crate) async fn keys(&self, issuer: &IssuerTrust, key_id: Option<&str>) -> Result<Arc<JwkSet>, Refusal> {
        if let Some(path) = &issuer.jwks_file {
            return read(path).map(Arc::new).map_err(Refusal);
        }
        let source = (issuer.issuer.clone(), issuer.ca_file.clone());
        match self.look(&source, key_id)? {
            Ok(keys) => Ok(keys),
            Err(mut answered) => {
                // The sender says nothing: it is dropped when the answer is kept.
                let _closed = answered.changed().await;
                let known = self.shared.known();
                let ring = known.get(&source).map(|known| &known.ring);
                ring.map_or_else(|| Err(Refusal("nothing was asked".to_owned())), |ring| ring.kept(Instant::now()))
            }
        }
    }

    /// The keys, or what to wait for.
    fn look(&self, source: &Source, key_id: Option<&str>) -> Result<Result<Arc<JwkSet>, watch::Receiver<()>>, Refusal> {
        let mut known = self.shared.known();
        let asked = known.values().filter(|known| known.is_asked()).count();
        let entry = known.entry(source.clone()).or_default();
        match (entry.ring.look(key_id, entry.is_asked(), Instant::now()), &entry.under_way) {
            (Look::Use(keys), _) => Ok(Ok(keys)),
            (Look::Refuse(refusal), _) => Err(refusal),
            (Look::Wait, Some(answered)) => Ok(Err(answered.clone())),
            (Look::Wait, None) => Err(Refusal("nothing was asked".to_owned())),
            (Look::Ask, _) if asked >= ASKED_AT_ONCE => {
                Err(Refusal(format!("{ASKED_AT_ONCE} issuers are being asked for their keys at this moment")))
            }
            (Look::Ask, _) => {
                let (done, answered) = watch::channel(());
                entry.under_way = Some(answered.clone());
                let (shared, of) = (Arc::clone(&self.shared), source.clone());
                let thread = std::thread::Builder::new().name("issuer".to_owned());
                let begun = thread.spawn(move || shared.ask(&of, done));
                if let Err(error) = begun {
                    entry.under_way = None;
                    return Err(Refusal(format!("no thread to ask issuer {:?} on: {error}", source.0)));
                }
                Ok(Err(answered))
            }
        }
    }
}

impl Known {
    /// Whether a question is under way. Its sender is gone when it has been answered, or has failed in whatever way.
    fn is_asked(&self) -> bool {
        self.under_way.as_ref().is_some_and(|answered| answered.has_changed().is_ok())
    }
}

impl Shared {
    /// Asks the issuer and keeps what it answers; `done` goes when that is done, also by a panic.
    fn ask(&self, source: &Source, done: watch::Sender<()>) {
        let answer = (self.ask)(&source.0, source.1.as_deref());
        if let Err(error) = &answer {
            tracing::warn!(issuer = source.0, error, "an issuer does not answer; its last keys are believed for a day");
        }
        if let Some(entry) = self.known().get_mut(source) {
            entry.ring.answered(answer, Instant::now());
            entry.under_way = None;
        }
        drop(done);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Source, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<JwkSet, String> {
    let tried = |why: String| format!("key set {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| tried(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| tried(error.to_string()))
}

#[cfg(test)]
mod tests;
