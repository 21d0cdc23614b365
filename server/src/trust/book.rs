//! The judge of agents and clients: the trust file as it is on disk, and the keys of the issuers that it names.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use super::file::{ClientTrust, IssuerTrust, TrustFile};
use super::issuer::Issuers;
use super::{Client, Refusal, Scope, token};

/// A change of the file is noticed after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What somebody shows at the door.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// A bearer token.
    pub(crate) token: Option<String>,
    /// The certificate of the connection, which an authority that is trusted has signed.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// Until when an agent is let in; `None` as long as the connection lasts.
pub(crate) type Until = Option<SystemTime>;

/// Who is trusted.
#[derive(Debug)]
pub(crate) struct Book {
    path: Option<PathBuf>,
    current: Mutex<Current>,
    issuers: Issuers,
}

#[derive(Debug)]
struct Current {
    file: Arc<TrustFile>,
    stamp: Option<SystemTime>,
    looked: Instant,
}

impl Book {
    /// Everybody is trusted; for loopback only.
    pub(crate) fn open() -> Self {
        Self { path: None, current: Mutex::new(Current::of(TrustFile::default(), None)), issuers: Issuers::default() }
    }

    /// Those are trusted that the file names.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn read(path: PathBuf) -> Result<Self, String> {
        let stamp = changed_at(&path);
        let current = Current::of(TrustFile::read(&path)?, stamp);
        Ok(Self { path: Some(path), current: Mutex::new(current), issuers: Issuers::default() })
    }

    /// Whether anybody is asked who they are.
    pub(crate) fn asks(&self) -> bool {
        self.path.is_some()
    }

    /// The file as it is on disk. One that cannot be read leaves the last good one in force.
    fn file(&self) -> Arc<TrustFile> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path.as_ref().filter(|_| current.looked.elapsed() >= LOOK_AGAIN) {
            current.looked = Instant::now();
            let stamp = changed_at(path);
            if stamp != current.stamp {
                match TrustFile::read(path) {
                    Ok(file) => {
                        info!(path = %path.display(), "the trust file has changed and is in force");
                        *current = Current::of(file, stamp);
                    }
                    Err(error) => {
                        warn!(error, "the trust file has changed and cannot be used; the last one stays in force")
                    }
                }
            }
        }
        Arc::clone(&current.file)
    }

    /// Whether whoever shows `shown` may speak for `cluster`, and until when.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn agent(&self, cluster: &str, shown: &Shown) -> Result<Until, Refusal> {
        if !self.asks() {
            return Ok(None);
        }
        let file = self.file();
        let mut why = Refusal(format!("the trust file names no agent of cluster {cluster:?}"));
        for entry in file.agents.iter().filter(|entry| entry.cluster == cluster) {
            let judged = match (&entry.token, &entry.certificate_name) {
                (Some(issuer), _) => self.token(issuer, shown.token.as_deref()).await.map(Some),
                (None, Some(name)) => certified(name, shown.certificate.as_ref()).map(|()| None),
                (None, None) => continue,
            };
            match judged {
                Ok(until) => return Ok(until),
                Err(refusal) => why = refusal,
            }
        }
        Err(why)
    }

    /// Who shows `token`, with at least the scope `needed`. Without a trust file everybody may do everything.
    ///
    /// # Errors
    /// Why nobody is recognised, or what they lack.
    pub(crate) async fn client(&self, token: Option<&str>, needed: Scope) -> Result<Option<Client>, Refusal> {
        if !self.asks() {
            return Ok(None);
        }
        let client = self.recognise(token).await?;
        if client.scope < needed {
            let (name, scope) = (client.name, client.scope);
            return Err(Refusal(format!("{name} has scope {scope}; this needs scope {needed}")));
        }
        Ok(Some(client))
    }

    async fn recognise(&self, token: Option<&str>) -> Result<Client, Refusal> {
        let Some(token) = token else { return Err(Refusal("no bearer token was sent".to_owned())) };
        let file = self.file();
        let hash = in_hexadecimal(&Sha256::digest(token));
        let named = |entry: &ClientTrust| Client { name: entry.name.clone(), scope: entry.scope };
        let fixed = file.clients.iter().find(|entry| {
            // Hashes are compared, so the time that it takes tells nothing about the token.
            entry.token_sha256.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(&hash))
        });
        if let Some(entry) = fixed {
            let ended = entry.expires.filter(|expires| expires.as_second() <= now_s());
            return match ended {
                None => Ok(named(entry)),
                Some(expires) => Err(Refusal(format!("the token of {} ended at {expires}", entry.name))),
            };
        }
        for entry in &file.clients {
            if let Some(issuer) = &entry.token
                && self.token(issuer, Some(token)).await.is_ok()
            {
                return Ok(named(entry));
            }
        }
        Err(Refusal("the trust file names no client with this token".to_owned()))
    }

    async fn token(&self, issuer: &IssuerTrust, token: Option<&str>) -> Result<SystemTime, Refusal> {
        let Some(token) = token else { return Err(Refusal("no bearer token was sent".to_owned())) };
        let named = token::key_id(token)?;
        let keys = self.issuers.keys(issuer, named.as_deref()).await?;
        let ends_s = token::judge(token, issuer, &keys, now_s())?.saturating_add(token::LEEWAY_S);
        Ok(UNIX_EPOCH + Duration::from_secs(ends_s.unsigned_abs()))
    }
}

impl Current {
    fn of(file: TrustFile, stamp: Option<SystemTime>) -> Self {
        Self { file: Arc::new(file), stamp, looked: Instant::now() }
    }
}

/// Whether the certificate is for this name.
fn certified(name: &str, certificate: Option<&CertificateDer<'static>>) -> Result<(), Refusal> {
    let Some(certificate) = certificate else {
        return Err(Refusal("the connection shows no certificate of an authority in listen.client-ca".to_owned()));
    };
    let refuse = |why: String| Refusal(format!("the certificate is not for {name:?}: {why}"));
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| refuse(error.to_string()))?;
    let wanted = ServerName::try_from(name.to_owned()).map_err(|error| refuse(error.to_string()))?;
    rustls::client::verify_server_name(&parsed, &wanted).map_err(|error| refuse(error.to_string()))
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn changed_at(path: &std::path::Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// Seconds since 1970.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
