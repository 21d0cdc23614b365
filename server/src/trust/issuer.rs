//! The keys of an issuer: from a file, or asked of the issuer itself and kept. Keys that are rotated are found without a
//! restart: a file is read again when it changes, an issuer is asked again for a key that is not known, though not more
//! often than every [`ASK_AGAIN`], so that made-up tokens cost nobody anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::Refusal;
use super::file::IssuerTrust;

/// An issuer is not asked more often than this.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Keys are asked for again after this long even if all are known, so that a withdrawn key is believed no longer.
const BELIEVE: Duration = Duration::from_secs(15 * 60);
/// An issuer that does not answer in this time does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A key set is a few kilobytes.
const LARGEST: u64 = 1 << 20;

/// Keys of issuers, by where they come from.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    known: Mutex<BTreeMap<(String, Option<PathBuf>), Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    keys: Arc<JwkSet>,
    asked: Instant,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Issuers {
    /// The keys by which a token of `issuer` that names `key_id` is judged.
    ///
    /// # Errors
    /// When there are none: what was tried and why it failed.
    pub(crate) async fn keys(&self, issuer: &IssuerTrust, key_id: Option<&str>) -> Result<Arc<JwkSet>, Refusal> {
        if let Some(path) = &issuer.jwks_file {
            return read(path).map(Arc::new).map_err(Refusal);
        }
        let source = (issuer.issuer.clone(), issuer.ca_file.clone());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&source).cloned();
        if let Some(known) = &known {
            let age = known.asked.elapsed();
            let has = key_id.is_none_or(|id| known.keys.find(id).is_some());
            if age < ASK_AGAIN || has && age < BELIEVE {
                return Ok(Arc::clone(&known.keys));
            }
        }
        let (address, ca_file) = source.clone();
        let asked = tokio::task::spawn_blocking(move || ask(&address, ca_file.as_deref())).await;
        let asked = asked.unwrap_or_else(|fault| Err(fault.to_string()));
        let keys = match (asked, known) {
            (Ok(keys), _) => Arc::new(keys),
            (Err(error), Some(known)) => {
                tracing::warn!(issuer = issuer.issuer, error, "an issuer does not answer; its last keys are believed");
                known.keys
            }
            (Err(error), None) => return Err(Refusal(format!("keys of issuer {:?}: {error}", issuer.issuer))),
        };
        let entry = Known { keys: Arc::clone(&keys), asked: Instant::now() };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(source, entry);
        Ok(keys)
    }
}

fn read(path: &Path) -> Result<JwkSet, String> {
    let tried = |why: String| format!("key set {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| tried(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| tried(error.to_string()))
}

/// Asks the issuer, as OpenID Connect Discovery says.
fn ask(issuer: &str, ca_file: Option<&Path>) -> Result<JwkSet, String> {
    let roots = match ca_file {
        None => RootCerts::WebPki,
        Some(path) => RootCerts::new_with_certs(&authorities(path)?),
    };
    let tls = TlsConfig::builder().root_certs(roots).build();
    let config = ureq::Agent::config_builder().tls_config(tls).https_only(true).timeout_global(Some(PATIENCE));
    let agent = config.build().new_agent();
    let about: Discovery = get(&agent, &format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))?;
    if about.issuer != issuer {
        return Err(format!("the issuer calls itself {:?}", about.issuer));
    }
    get(&agent, &about.jwks_uri)
}

fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let pem = std::fs::read(path).map_err(|error| format!("certificates {}: {error}", path.display()))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(certificates.collect())
}

fn get<T: serde::de::DeserializeOwned>(agent: &ureq::Agent, address: &str) -> Result<T, String> {
    let tried = |why: String| format!("GET {address}: {why}");
    let mut answer = agent.get(address).call().map_err(|error| tried(error.to_string()))?;
    let body = answer.body_mut().with_config().limit(LARGEST).read_to_vec();
    let body = body.map_err(|error| tried(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| tried(error.to_string()))
}
