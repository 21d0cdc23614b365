//! The trust file: maps agent identities to clusters and clients to scopes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::cluster_access::ClusterAccess;
use super::{AuthError, Client, ClientQuota, Scope};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustFile {
    /// Agents. A cluster may have several entries; one match is sufficient.
    #[serde(default)]
    pub agents: Vec<AgentTrust>,
    #[serde(default)]
    pub clients: Vec<ClientTrust>,
    /// How people sign in to the dashboard, besides by token.
    #[serde(default)]
    pub(crate) oidc: Option<OidcSignIn>,
}

/// Identity of a cluster's agent: a token or a certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AgentTrust {
    pub cluster: String,
    /// Issuer and required claims of its tokens.
    #[serde(default, deserialize_with = "issuer_trust")]
    pub token: Option<IssuerTrust>,
    /// DNS name in its certificate, which an authority of `listen.client-ca` signed.
    pub(crate) certificate_name: Option<String>,
    /// UID of the cluster, that of its namespace `kube-system`: no other name may state it, and this one no other.
    pub(crate) cluster_uid: Option<String>,
}

/// Token issuer and the required claims.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IssuerTrust {
    /// Claim `iss`.
    pub issuer: String,
    /// Claim `sub`, such as `system:serviceaccount:fleetwright-system:fleetwright-agent`.
    pub subject: String,
    /// Required audience in the claim `aud`.
    #[serde(default = "audience")]
    pub audience: String,
    /// Keys of the issuer as a JSON web key set; absent: fetched by OpenID Connect discovery from
    /// `<issuer>/.well-known/openid-configuration`.
    pub(crate) jwks_file: Option<PathBuf>,
    /// Certificate authorities (PEM) of the issuer's HTTPS address; absent: the public ones.
    pub ca_file: Option<PathBuf>,
}

fn audience() -> String {
    "fleetwright".to_owned()
}

/// Identity and scope of a client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClientTrust {
    /// Its name, for the audit.
    pub name: String,
    pub scope: Scope,
    /// SHA-256 of its token, in hexadecimal.
    pub(crate) token_sha256: Option<String>,
    /// Expiry of the token; absent: never.
    pub expires: Option<Timestamp>,
    /// Holds at one time; absent: no limit.
    pub max_holds: Option<u32>,
    /// Price of the nodes of its holds, in dollars per hour; absent: no limit.
    pub max_hold_usd_per_hour: Option<f64>,
    /// Plans, quotes and holds that each replica accepts in a minute; absent: no limit.
    pub max_requests_per_minute: Option<u32>,
    /// Names of the clusters that it may see and act on, and prefixes of names with a `*` behind them; absent: all clusters, and
    /// what concerns the whole fleet.
    #[serde(default, deserialize_with = "cluster_access")]
    pub(crate) clusters: ClusterAccess,
    /// Token issuer, instead of one fixed token.
    #[serde(default, deserialize_with = "issuer_trust")]
    pub token: Option<IssuerTrust>,
}

/// `[oidc]` in the trust file: how people sign in to the dashboard.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct OidcSignIn {
    /// Address of the identity provider; the claim `iss` of its ID tokens.
    pub(crate) issuer: String,
    /// The server's id there; the claim `aud`.
    pub(crate) client_id: String,
    /// File with the server's secret there; absent: a public client.
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Address of this server in browsers, such as `https://fleet.example.com`. The identity provider must allow the redirect to
    /// this address with `/session/oidc/return`.
    pub(crate) url: String,
    /// Certificate authorities (PEM) of the issuer's HTTPS address; absent: the public ones.
    pub(crate) ca_file: Option<PathBuf>,
}

fn cluster_access<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClusterAccess, D::Error> {
    ClusterAccess::of_patterns(&Vec::<String>::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A table. The obvious mistake, a token in clear, is told without the token.
fn issuer_trust<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IssuerTrust>, D::Error> {
    struct Table;

    impl<'de> Visitor<'de> for Table {
        type Value = IssuerTrust;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table { issuer = …, subject = … }")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<IssuerTrust, A::Error> {
            IssuerTrust::deserialize(MapAccessDeserializer::new(fields))
        }

        fn visit_str<E: Error>(self, _token: &str) -> Result<IssuerTrust, E> {
            Err(E::custom(
                "a token in clear is not accepted; [[clients]] take the SHA-256 of a fixed token in token-sha256 (made with \
                 `printf %s \"$TOKEN\" | sha256sum`), and token is a table { issuer = …, subject = … }",
            ))
        }
    }

    deserializer.deserialize_any(Table).map(Some)
}

impl TrustFile {
    /// Reads a trust file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// The file is unreadable or invalid.
    pub fn read(path: &Path) -> Result<Self, TrustFileError> {
        let file_error = |why| TrustFileError { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(|error| file_error(error.into()))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, folder).map_err(file_error)
    }

    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, TrustError> {
        let mut file: Self = toml::from_str(text).map_err(|error| TrustError::syntax(&error, text))?;
        for agent in &file.agents {
            agent.check()?;
        }
        for client in &file.clients {
            client.check()?;
        }
        distinct(&file.agents)?;
        distinct_uids(&file.agents)?;
        let agents = file.agents.iter_mut().filter_map(|agent| agent.token.as_mut());
        let clients = file.clients.iter_mut().filter_map(|client| client.token.as_mut());
        for issuer in agents.chain(clients) {
            for path in [&mut issuer.jwks_file, &mut issuer.ca_file].into_iter().flatten() {
                *path = folder.join(&*path);
            }
        }
        if let Some(oidc) = &mut file.oidc {
            oidc.check()?;
            for path in [&mut oidc.client_secret_file, &mut oidc.ca_file].into_iter().flatten() {
                *path = folder.join(&*path);
            }
        }
        Ok(file)
    }
}

/// A trust file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("trust file {}: {why}", path.display())]
pub struct TrustFileError {
    path: PathBuf,
    why: TrustError,
}

/// What is wrong with a trust file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("line {line}: {message}")]
    Syntax { line: usize, message: String },
    #[error(
        "[[agents]] of clusters {0:?} and {1:?} trust the same issuer and subject, or the same certificate-name; give \
         each cluster its own identity"
    )]
    SharedIdentity(String, String),
    #[error(
        "[[agents]] of clusters {0:?} and {1:?} have the same cluster-uid {2:?}; a UID has one name, and a name one UID"
    )]
    SharedUid(String, String, String),
    #[error("[[agents]] of cluster {0:?}: give either token = {{ issuer = …, subject = … }} or certificate-name")]
    AgentIdentity(String),
    #[error(
        "[[clients]] {0:?}: token-sha256 is not 64 hexadecimal digits; make it with `printf %s \"$TOKEN\" | sha256sum`"
    )]
    TokenHash(String),
    #[error("[[clients]] {0:?}: max-hold-usd-per-hour is not between 0 and 1,000,000,000 dollars")]
    HoldPrice(String),
    #[error("[[clients]] {0:?}: give either token-sha256 or token = {{ issuer = …, subject = … }}")]
    ClientIdentity(String),
    #[error("[oidc]: {0} = {1:?} is not an address https://…")]
    OidcAddress(&'static str, String),
}

impl TrustError {
    /// The line and the message of `error`. The line itself is left out, because it may have a
    /// secret.
    fn syntax(error: &toml::de::Error, text: &str) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        Self::Syntax { line, message: described(error.message()) }
    }
}

/// `message` without values that may be secrets, and with the name that was meant by an unknown one.
pub(super) fn described(message: &str) -> String {
    without_value(message) + &suggestion(message)
}

/// The end of a message about an unknown field or value: the most similar one of those that it expects, if half of the letters
/// are right.
pub(super) fn suggestion(message: &str) -> String {
    let parts = message.strip_prefix("unknown ").and_then(|rest| rest.split_once("`, expected "));
    let Some((unknown, expected)) = parts else { return String::new() };
    let unknown = unknown.split_once('`').map_or(unknown, |(_, name)| name);
    // Each of the expected ones is between backticks.
    let expected = expected.split('`').skip(1).step_by(2);
    let nearest = expected.map(|name| (strsim::osa_distance(unknown, name), name)).min();
    let similar = nearest.filter(|(distance, name)| distance * 2 <= name.chars().count());
    similar.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// `message` without the value that has the wrong type: it may be a secret.
fn without_value(message: &str) -> String {
    let found = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match found.and_then(|found| found.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let kind = found.split([' ', '`', '"']).next().unwrap_or("value");
            format!("found a value of type {kind}, expected {expected}")
        }
        None => message.to_owned(),
    }
}

/// Checks that one identity belongs to one cluster.
pub(super) fn distinct(agents: &[AgentTrust]) -> Result<(), TrustError> {
    let mut known = BTreeMap::new();
    for AgentTrust { cluster, token, certificate_name, cluster_uid: _ } in agents {
        let token = token.as_ref().map(|token| (&token.issuer, &token.subject, &token.audience, &token.jwks_file));
        if let Some(other) = known.insert((token, certificate_name), cluster).filter(|other| *other != cluster) {
            return Err(TrustError::SharedIdentity(other.clone(), cluster.clone()));
        }
    }
    Ok(())
}

/// Checks that a UID belongs to one cluster.
pub(super) fn distinct_uids(agents: &[AgentTrust]) -> Result<(), TrustError> {
    let mut known = BTreeMap::new();
    for (uid, cluster) in agents.iter().filter_map(|agent| Some((agent.cluster_uid.as_ref()?, &agent.cluster))) {
        if let Some(other) = known.insert(uid, cluster).filter(|other| *other != cluster) {
            return Err(TrustError::SharedUid(other.clone(), cluster.clone(), uid.clone()));
        }
    }
    Ok(())
}

impl AgentTrust {
    pub(super) fn check(&self) -> Result<(), TrustError> {
        if self.token.is_some() == self.certificate_name.is_some() {
            return Err(TrustError::AgentIdentity(self.cluster.clone()));
        }
        Ok(())
    }
}

impl OidcSignIn {
    /// Tokens and codes travel to these addresses.
    pub(super) fn check(&self) -> Result<(), TrustError> {
        for (key, address) in [("issuer", &self.issuer), ("url", &self.url)] {
            if !address.starts_with("https://") {
                return Err(TrustError::OidcAddress(key, address.clone()));
            }
        }
        Ok(())
    }
}

impl ClientTrust {
    /// What identifies the client, without secrets: it is the same as long as the entry trusts the same token.
    pub(super) fn credential(&self) -> String {
        match (&self.token_sha256, &self.token) {
            (_, Some(token)) => format!("{:?}", (&token.issuer, &token.subject, &token.audience)),
            (hash, None) => hash.as_deref().unwrap_or_default().to_ascii_lowercase(),
        }
    }

    /// Checks that its fixed token has not expired.
    pub(super) fn check_expiry(&self, now_s: i64) -> Result<(), AuthError> {
        match self.expires.filter(|expires| expires.as_second() <= now_s) {
            None => Ok(()),
            Some(expires) => Err(AuthError(format!("the token of {} expired at {expires}", self.name))),
        }
    }

    pub(super) fn client(&self) -> Client {
        let (name, quota, clusters) = (self.name.clone(), self.quota(), self.clusters.clone());
        Client { name, scope: self.scope, quota, clusters, is_replica: false }
    }

    /// What it may hold and ask for.
    fn quota(&self) -> ClientQuota {
        ClientQuota {
            holds: self.max_holds,
            hold_price: self.max_hold_usd_per_hour.map(|usd| (usd * 1e6).round() as i64),
            requests_per_minute: self.max_requests_per_minute,
        }
    }

    pub(super) fn check(&self) -> Result<(), TrustError> {
        if self.max_hold_usd_per_hour.is_some_and(|usd| !(0.0..=1e9).contains(&usd)) {
            return Err(TrustError::HoldPrice(self.name.clone()));
        }
        match (&self.token_sha256, &self.token) {
            (Some(hash), None) if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(()),
            (Some(_), None) => Err(TrustError::TokenHash(self.name.clone())),
            (None, Some(_)) => Ok(()),
            _ => Err(TrustError::ClientIdentity(self.name.clone())),
        }
    }
}
