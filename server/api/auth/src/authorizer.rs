//! Authorizes agents and API clients by the trust file on disk and the keys of its token issuers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::browser_session::{BrowserSession, BrowserSessionStore, BrowserSessions, PresentedSession};
use super::cluster_access::ClusterAccess;
use super::file::{AgentTrust, ClientTrust, IssuerTrust, OidcSignIn, TrustFile, TrustFileError};
use super::inspection::{Finding, inspect_file};
use super::issuer::IssuerKeys;
use super::tls::{Certificates, changed_at};
use super::{AuthError, Client, ClientDenial, ClientQuota, Scope, token};

/// Maximum delay until a changed file is noticed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum delay until an authorized peer is checked again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Name of another replica as a client.
const REPLICA_CLIENT: &str = "replica";

/// Credentials that a peer has presented.
#[derive(Debug, Clone, Default)]
pub struct PresentedCredentials {
    pub token: Option<String>,
    /// Client certificate and its chain, up to an authority that was trusted at the handshake.
    /// Empty when none was presented.
    pub certificates: Vec<CertificateDer<'static>>,
    pub session: Option<PresentedSession>,
}

/// A client that a token has identified.
pub(crate) struct IdentifiedClient {
    pub(crate) client: Client,
    /// As its entry has it ([`ClientTrust::credential`]); `None` for a replica, which signs in nowhere.
    pub(crate) credential: Option<String>,
    /// When the token ends; `None` if never.
    pub(crate) ends_at: Option<SystemTime>,
}

/// When an authorization has to be checked again; `None` without authentication.
pub type ExpiresAt = Option<SystemTime>;

/// What is known of the UID that the agent of a cluster states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UidTrust {
    NotAuthenticated,
    /// The agent is authenticated by its name, and the trust file does not say its UID.
    Authenticated,
    /// The trust file gives the UID to the name.
    Named,
}

/// Authorizes peers by the trust file.
#[derive(Debug)]
pub struct Authorizer {
    path: Option<PathBuf>,
    current: Mutex<Current>,
    issuers: IssuerKeys,
    /// Certificate authorities of agents; `None` without TLS.
    authorities: Option<Arc<Certificates>>,
    /// Hash of the token by which the other replicas read from this one.
    replica_token_sha256: Option<String>,
    browser_sessions: Option<BrowserSessions>,
    /// Names and credentials that the trust file has lost, whose sessions are to be ended: an entry that is added again must not
    /// bring them back.
    lost: Mutex<Vec<(String, String)>>,
    /// Number of changes of the trust file and the authorities.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Current {
    file: Arc<TrustFile>,
    version: Option<SystemTime>,
    checked: Instant,
}

impl Authorizer {
    /// Authorizes every peer; for loopback only.
    pub fn allow_all() -> Self {
        Self::of(None, Current::of(TrustFile::default(), None))
    }

    fn of(path: Option<PathBuf>, current: Current) -> Self {
        Self {
            path,
            current: Mutex::new(current),
            issuers: IssuerKeys::default(),
            authorities: None,
            replica_token_sha256: None,
            browser_sessions: None,
            lost: Mutex::default(),
            changes: watch::channel(0).0,
        }
    }

    /// Authorizes by the trust file at `path`.
    ///
    /// # Errors
    /// The trust file is unreadable or invalid.
    pub fn read(path: PathBuf) -> Result<Self, TrustFileError> {
        let version = changed_at(&path);
        let current = Current::of(TrustFile::read(&path)?, version);
        Ok(Self::of(Some(path), current))
    }

    /// Verifies client certificates by the current authorities in `certificates`.
    pub fn with_authorities(self, authorities: Option<Arc<Certificates>>) -> Self {
        let authorizer = Self { authorities, ..self };
        authorizer.warn_of_entries_without_effect();
        authorizer
    }

    /// Admits the other replicas with scope `read` by `token`, which only what reads the store knows.
    pub fn with_replica_token(self, token: &str) -> Self {
        Self { replica_token_sha256: Some(in_hexadecimal(&Sha256::digest(token))), ..self }
    }

    /// Signs browsers in to sessions in `store`.
    pub fn with_browser_sessions(self, store: Arc<dyn BrowserSessionStore>) -> Self {
        Self { browser_sessions: Some(BrowserSessions::new(store)), ..self }
    }

    /// Logs the entries of the trust file that admit nobody.
    fn warn_of_entries_without_effect(&self) {
        let Some(path) = &self.path else { return };
        let has_client_ca = self.authorities.as_ref().is_some_and(|authorities| authorities.has_client_authorities());
        // A file that was removed since it was read is reported by the next reload.
        let warnings = inspect_file(path, has_client_ca).map(|found| found.warnings).unwrap_or_default();
        for Finding { line, message } in warnings {
            warn!(file = %path.display(), line, reason = message, "trust file entry without effect");
        }
    }

    /// Polls for changes of the trust file and the authorities until `stop`, so that open streams
    /// are checked again.
    pub async fn watch_files(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut interval = tokio::time::interval(RELOAD_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = interval.tick() => {}
            }
            let _current = self.file();
            self.end_sessions_of_lost_clients().await;
            if self.authorities.as_ref().is_some_and(|certificates| certificates.refresh()) {
                self.changes.send_modify(|count| *count += 1);
            }
        }
    }

    /// Ends the sessions of what the trust file has lost. What the store refuses is tried again.
    async fn end_sessions_of_lost_clients(&self) {
        let Some(sessions) = &self.browser_sessions else { return };
        let lost = std::mem::take(&mut *self.lost());
        for (client, credential) in lost {
            match sessions.end_of(&client, &credential).await {
                Ok(()) => info!(client, "browser sessions ended: client removed from trust file"),
                Err(_) => self.lost().push((client, credential)),
            }
        }
    }

    fn lost(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when an authorization has to be checked again: at `expires_at`, after a change of
    /// the trust file or the authorities, and after a minute at the latest.
    pub async fn recheck_due(&self, changes: &mut watch::Receiver<u64>, expires_at: ExpiresAt) {
        let left = expires_at.map_or(RECHECK_INTERVAL, |at| at.duration_since(SystemTime::now()).unwrap_or_default());
        tokio::select! {
            () = tokio::time::sleep(left.min(RECHECK_INTERVAL)) => {}
            changed = changes.changed() => drop(changed),
        }
    }

    /// Subscribes to changes of the trust file and the authorities.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn enforces(&self) -> bool {
        self.path.is_some()
    }

    /// Current trust file. An invalid new version leaves the last valid one in effect.
    fn file(&self) -> Arc<TrustFile> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path.as_ref().filter(|_| current.checked.elapsed() >= RELOAD_INTERVAL) {
            current.checked = Instant::now();
            let version = changed_at(path);
            if version != current.version {
                match TrustFile::read(path) {
                    Ok(file) => {
                        info!(path = %path.display(), "trust file reloaded");
                        self.lost().extend(lost_clients(&current.file, &file));
                        *current = Current::of(file, version);
                        self.changes.send_modify(|count| *count += 1);
                        self.warn_of_entries_without_effect();
                    }
                    Err(error) => {
                        warn!(%error, "cannot reload trust file; keeping previous version")
                    }
                }
            }
        }
        Arc::clone(&current.file)
    }

    /// Authorizes the peer with `credentials` as agent of `cluster`; returns when to check again.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub async fn authorize_agent(
        &self,
        cluster: &str,
        credentials: &PresentedCredentials,
    ) -> Result<ExpiresAt, AuthError> {
        if !self.enforces() {
            return Ok(None);
        }
        let file = self.file();
        let mut why = AuthError(format!("the trust file has no agent of cluster {cluster:?}"));
        for entry in file.agents.iter().filter(|entry| entry.cluster == cluster) {
            let result = match (&entry.token, &entry.certificate_name) {
                (Some(issuer), _) => self.token(issuer, credentials.token.as_deref()).await.map(Some),
                (None, Some(name)) => self.certificate(name, &credentials.certificates).map(Some),
                (None, None) => continue,
            };
            match result {
                Ok(until) => return Ok(until),
                Err(denial) => why = denial,
            }
        }
        Err(why)
    }

    /// What the trust file says of a cluster that states `uid`, once its agent is authorized by its name.
    ///
    /// # Errors
    /// The trust file gives the UID to another name, or the name another UID.
    pub fn check_uid(&self, cluster: &str, uid: &str) -> Result<UidTrust, AuthError> {
        if !self.enforces() {
            return Ok(UidTrust::NotAuthenticated);
        }
        let file = self.file();
        let mut is_named = false;
        for entry in &file.agents {
            let Some(trusted) = entry.cluster_uid.as_deref() else { continue };
            match (entry.cluster == cluster, trusted == uid) {
                (true, true) => return Ok(UidTrust::Named),
                (true, false) => is_named = true,
                (false, true) => {
                    let other = &entry.cluster;
                    return Err(AuthError(format!("the trust file gives the UID {uid} to {other}, not to {cluster}")));
                }
                (false, false) => {}
            }
        }
        match is_named {
            true => Err(AuthError(format!("the trust file gives {cluster} another UID than {uid}"))),
            false => Ok(UidTrust::Authenticated),
        }
    }

    /// Checks cheaply whether the peer with `credentials` may be the agent of some cluster, without
    /// requests to an issuer and without verifying signatures. Runs before any message of the peer
    /// is read.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub(crate) fn precheck_agent(&self, credentials: &PresentedCredentials) -> Result<(), AuthError> {
        if !self.enforces() {
            return Ok(());
        }
        let file = self.file();
        let mut entries = file.agents.iter();
        let issuer = credentials.token.as_deref().map(token::claimed_issuer).transpose()?;
        let known = |entry: &AgentTrust| match (&entry.token, &entry.certificate_name) {
            (Some(trusted), _) => issuer.as_deref() == Some(trusted.issuer.as_str()),
            (None, Some(name)) => matches_name(name, credentials.certificates.first()).is_ok(),
            (None, None) => false,
        };
        match (entries.any(known), &issuer, credentials.certificates.first()) {
            (true, ..) => Ok(()),
            (_, None, None) => Err(AuthError("no bearer token and no client certificate presented".to_owned())),
            (_, Some(issuer), _) => {
                Err(AuthError(format!("the trust file has no agent with tokens issued by {issuer:?}")))
            }
            (_, None, Some(_)) => Err(AuthError("the trust file has no agent with this certificate".to_owned())),
        }
    }

    /// Verifies a certificate for `name`; returns its expiry, at most a minute ahead.
    fn certificate(&self, name: &str, chain: &[CertificateDer<'static>]) -> Result<SystemTime, AuthError> {
        matches_name(name, chain.first())?;
        let now = SystemTime::now();
        match &self.authorities {
            Some(authorities) => {
                authorities.verify_until(chain, now, RECHECK_INTERVAL).map_err(|error| AuthError(error.to_string()))
            }
            None => Ok(now + RECHECK_INTERVAL),
        }
    }

    /// Authorizes a client for the scope `needed`, by its token or else its session. Without a trust file every client has
    /// every scope.
    ///
    /// # Errors
    /// The client is unknown, or its scope is insufficient.
    pub(crate) async fn authorize_client(
        &self,
        credentials: &PresentedCredentials,
        needed: Scope,
    ) -> Result<Option<Client>, ClientDenial> {
        if !self.enforces() {
            return Ok(None);
        }
        let client = match (&credentials.token, &credentials.session) {
            (Some(token), _) => self.identify_client(token).await?.client,
            (None, Some(session)) => self.client_of_session(session).await?.0,
            (None, None) => return Err(AuthError("no bearer token was sent".to_owned()).into()),
        };
        if client.scope < needed {
            return Err(ClientDenial::Scope(client.lacks(needed)));
        }
        Ok(Some(client))
    }

    /// The client with this token.
    ///
    /// # Errors
    /// The trust file has none, or the token has expired.
    pub(crate) async fn identify_client(&self, token: &str) -> Result<IdentifiedClient, AuthError> {
        let file = self.file();
        let hash = in_hexadecimal(&Sha256::digest(token));
        // Hashes are compared, so the timing reveals nothing about the token.
        if self.replica_token_sha256.as_ref() == Some(&hash) {
            // Besides what is read, replicas ask each other for their parts of quotes and plans.
            let quota = ClientQuota::default();
            let (name, clusters) = (REPLICA_CLIENT.to_owned(), ClusterAccess::all());
            let client = Client { name, scope: Scope::Plan, quota, clusters, is_replica: true };
            return Ok(IdentifiedClient { client, credential: None, ends_at: None });
        }
        let identified = |entry: &ClientTrust, ends_at| IdentifiedClient {
            client: entry.client(),
            credential: Some(entry.credential()),
            ends_at,
        };
        let fixed = file
            .clients
            .iter()
            .find(|entry| entry.token_sha256.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(&hash)));
        if let Some(entry) = fixed {
            entry.check_expiry(now_s())?;
            return Ok(identified(entry, entry.expires.map(SystemTime::from)));
        }
        for entry in &file.clients {
            if let Some(issuer) = &entry.token
                && let Ok(ends_at) = self.token(issuer, Some(token)).await
            {
                return Ok(identified(entry, Some(ends_at)));
            }
        }
        Err(AuthError("the trust file has no client with this token".to_owned()))
    }

    /// The client of a session, as the trust file has it now.
    ///
    /// # Errors
    /// The session is not valid, or the trust file no longer has the credential that signed it in.
    pub(crate) async fn client_of_session(
        &self,
        presented: &PresentedSession,
    ) -> Result<(Client, BrowserSession), AuthError> {
        let sessions = self.browser_sessions()?;
        let session = sessions.verify(presented, now_s().saturating_mul(1_000)).await?;
        let file = self.file();
        let is_signed_in =
            |entry: &&ClientTrust| entry.name == session.client && entry.credential() == session.credential;
        let Some(entry) = file.clients.iter().find(is_signed_in) else {
            return Err(AuthError(format!("{} signed in by what is no longer trusted; sign in again", session.client)));
        };
        entry.check_expiry(now_s())?;
        Ok((entry.client(), session))
    }

    /// Sessions of browsers.
    ///
    /// # Errors
    /// There are none without authentication.
    pub(crate) fn browser_sessions(&self) -> Result<&BrowserSessions, AuthError> {
        self.browser_sessions.as_ref().ok_or_else(|| AuthError("this server has no sessions of browsers".to_owned()))
    }

    /// How people sign in besides by token.
    pub(crate) fn oidc(&self) -> Option<OidcSignIn> {
        self.file().oidc.clone()
    }

    async fn token(&self, issuer: &IssuerTrust, token: Option<&str>) -> Result<SystemTime, AuthError> {
        let Some(token) = token else { return Err(AuthError("no bearer token was sent".to_owned())) };
        let named = token::key_id(token)?;
        let keys = self.issuers.keys(issuer, named.as_deref()).await?;
        let ends_s = token::verify(token, issuer, &keys, now_s())?.saturating_add(token::LEEWAY_S);
        Ok(UNIX_EPOCH + Duration::from_secs(ends_s.unsigned_abs()))
    }
}

/// Names and credentials of the clients of `before` that `now` does not have.
fn lost_clients(before: &TrustFile, now: &TrustFile) -> Vec<(String, String)> {
    let identity = |entry: &ClientTrust| (entry.name.clone(), entry.credential());
    let kept: BTreeSet<(String, String)> = now.clients.iter().map(identity).collect();
    before.clients.iter().map(identity).filter(|client| !kept.contains(client)).collect()
}

impl Current {
    fn of(file: TrustFile, version: Option<SystemTime>) -> Self {
        Self { file: Arc::new(file), version, checked: Instant::now() }
    }
}

/// Checks that the certificate is valid for `name` and not for a wildcard.
fn matches_name(name: &str, certificate: Option<&CertificateDer<'static>>) -> Result<(), AuthError> {
    let Some(certificate) = certificate else {
        return Err(AuthError("no client certificate of an authority in listen.client-ca presented".to_owned()));
    };
    let refuse = |why: String| AuthError(format!("the certificate is not for {name:?}: {why}"));
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| refuse(error.to_string()))?;
    let holds = |name: String| {
        let wanted = ServerName::try_from(name).map_err(|error| refuse(error.to_string()))?;
        rustls::client::verify_server_name(&parsed, &wanted).map_err(|error| refuse(error.to_string()))
    };
    holds(name.to_owned())?;
    match name.split_once('.').map(|(_, domain)| holds(format!("{WILDCARD_PROBE}.{domain}"))) {
        Some(Ok(())) => {
            Err(refuse("it is a wildcard certificate, valid for every cluster; issue one per cluster".to_owned()))
        }
        Some(Err(_)) | None => Ok(()),
    }
}

/// DNS label that no cluster has: a certificate that is valid for it has a wildcard.
const WILDCARD_PROBE: &str = "fleetwright-asks-for-a-wildcard";

fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seconds since 1970.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
