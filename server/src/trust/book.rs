//! The judge of agents and clients: the trust file as it is on disk, and the keys of the issuers that it names.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::file::{AgentTrust, ClientTrust, IssuerTrust, TrustFile};
use super::issuer::Issuers;
use super::tls::Certificates;
use super::{Client, Refusal, Scope, token};

/// A change of the file is noticed after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whoever is let in is judged again after this long at the latest.
const JUDGE_AGAIN: Duration = Duration::from_secs(60);

/// What somebody shows at the door.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// A bearer token.
    pub(crate) token: Option<String>,
    /// The certificate of the connection and those that it was signed by, up to an authority that was trusted when the
    /// connection was opened. Empty when none was shown.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// Until when an agent is let in, before it is judged again; `None` where nobody is asked who they are.
pub(crate) type Until = Option<SystemTime>;

/// Who is trusted.
#[derive(Debug)]
pub(crate) struct Book {
    path: Option<PathBuf>,
    current: Mutex<Current>,
    issuers: Issuers,
    /// The authorities whose certificates are believed; `None` where connections are not encrypted.
    authorities: Option<Arc<Certificates>>,
    /// Counts changes of the file and of the authorities.
    changes: watch::Sender<u64>,
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
        Self::of(None, Current::of(TrustFile::default(), None))
    }

    fn of(path: Option<PathBuf>, current: Current) -> Self {
        Self {
            path,
            current: Mutex::new(current),
            issuers: Issuers::default(),
            authorities: None,
            changes: watch::channel(0).0,
        }
    }

    /// Those are trusted that the file names.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn read(path: PathBuf) -> Result<Self, String> {
        let stamp = changed_at(&path);
        let current = Current::of(TrustFile::read(&path)?, stamp);
        Ok(Self::of(Some(path), current))
    }

    /// The same, and certificates are judged by the authorities in `certificates` as they are at each moment.
    pub(crate) fn with_authorities(self, authorities: Option<Arc<Certificates>>) -> Self {
        Self { authorities, ..self }
    }

    /// Looks for changes of the file and of the authorities until `stop`, so that they reach streams that are open.
    pub(crate) async fn follow(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut looks = tokio::time::interval(LOOK_AGAIN);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = looks.tick() => {}
            }
            let _in_force = self.file();
            if self.authorities.as_ref().is_some_and(|certificates| certificates.refresh()) {
                self.changes.send_modify(|count| *count += 1);
            }
        }
    }

    /// Completes when `judged`, which let somebody in, may hold no longer: when its time is over, when what it was judged by
    /// has changed, and a minute later at the latest.
    pub(crate) async fn may_have_changed(&self, changes: &mut watch::Receiver<u64>, until: Until) {
        let left = until.map_or(JUDGE_AGAIN, |until| until.duration_since(SystemTime::now()).unwrap_or_default());
        tokio::select! {
            () = tokio::time::sleep(left.min(JUDGE_AGAIN)) => {}
            changed = changes.changed() => drop(changed),
        }
    }

    /// Hears of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
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
                        self.changes.send_modify(|count| *count += 1);
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
                (None, Some(name)) => self.certificate(name, &shown.certificates).map(Some),
                (None, None) => continue,
            };
            match judged {
                Ok(until) => return Ok(until),
                Err(refusal) => why = refusal,
            }
        }
        Err(why)
    }

    /// Whether whoever shows `shown` may be the agent of some cluster. Costs no question to an issuer and no signature, so that
    /// it can be asked before anything is read that a stranger says.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn could_be_an_agent(&self, shown: &Shown) -> Result<(), Refusal> {
        if !self.asks() {
            return Ok(());
        }
        let file = self.file();
        let mut entries = file.agents.iter();
        let issuer = shown.token.as_deref().map(token::claimed_issuer).transpose()?;
        let known = |entry: &AgentTrust| match (&entry.token, &entry.certificate_name) {
            (Some(trusted), _) => issuer.as_deref() == Some(trusted.issuer.as_str()),
            (None, Some(name)) => certified(name, shown.certificates.first()).is_ok(),
            (None, None) => false,
        };
        match (entries.any(known), &issuer, shown.certificates.first()) {
            (true, ..) => Ok(()),
            (_, None, None) => Err(Refusal("neither a bearer token nor a certificate was shown".to_owned())),
            (_, Some(issuer), _) => {
                Err(Refusal(format!("the trust file names no agent with tokens issued by {issuer:?}")))
            }
            (_, None, Some(_)) => Err(Refusal("the trust file names no agent with this certificate".to_owned())),
        }
    }

    /// Until when a certificate speaks for `name`, looked at a minute ahead.
    fn certificate(&self, name: &str, shown: &[CertificateDer<'static>]) -> Result<SystemTime, Refusal> {
        certified(name, shown.first())?;
        let now = SystemTime::now();
        match &self.authorities {
            Some(authorities) => authorities.vouch(shown, now, JUDGE_AGAIN).map_err(Refusal),
            None => Ok(now + JUDGE_AGAIN),
        }
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

/// Whether the certificate is for this name, and not for every name beside it too.
fn certified(name: &str, certificate: Option<&CertificateDer<'static>>) -> Result<(), Refusal> {
    let Some(certificate) = certificate else {
        return Err(Refusal("the connection shows no certificate of an authority in listen.client-ca".to_owned()));
    };
    let refuse = |why: String| Refusal(format!("the certificate is not for {name:?}: {why}"));
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| refuse(error.to_string()))?;
    let holds = |name: String| {
        let wanted = ServerName::try_from(name).map_err(|error| refuse(error.to_string()))?;
        rustls::client::verify_server_name(&parsed, &wanted).map_err(|error| refuse(error.to_string()))
    };
    holds(name.to_owned())?;
    match name.split_once('.').map(|(_, domain)| holds(format!("{BESIDE}.{domain}"))) {
        Some(Ok(())) => {
            Err(refuse("it has a wildcard, which would speak for every cluster; name the cluster".to_owned()))
        }
        Some(Err(_)) | None => Ok(()),
    }
}

/// A label that nobody gives a cluster: a certificate that holds for it holds for all.
const BESIDE: &str = "fleetwright-asks-for-a-wildcard";

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
