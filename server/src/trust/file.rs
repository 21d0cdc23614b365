//! The trust file: which agents speak for which cluster, and which clients may do what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use super::Scope;

/// Whom the operator trusts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustFile {
    /// Agents. A cluster may have several entries; one that fits is enough.
    #[serde(default)]
    pub(crate) agents: Vec<AgentTrust>,
    /// Clients.
    #[serde(default)]
    pub(crate) clients: Vec<ClientTrust>,
}

/// How the agent of a cluster shows that it is: by a token, or by a certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AgentTrust {
    /// The cluster that it speaks for.
    pub(crate) cluster: String,
    /// The issuer of its tokens, and what they must say.
    pub(crate) token: Option<IssuerTrust>,
    /// DNS name in its certificate, which an authority of `listen.client-ca` signed.
    pub(crate) certificate_name: Option<String>,
}

/// An issuer of tokens and what a token of it must say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct IssuerTrust {
    /// Claim `iss`.
    pub(crate) issuer: String,
    /// Claim `sub`, such as `system:serviceaccount:fleetwright-system:fleetwright-agent`.
    pub(crate) subject: String,
    /// One of the claim `aud`.
    #[serde(default = "audience")]
    pub(crate) audience: String,
    /// The issuer's keys as a JSON web key set; absent: asked of `<issuer>/.well-known/openid-configuration`.
    pub(crate) jwks_file: Option<PathBuf>,
    /// Certificates (PEM) of the authorities that may vouch for the issuer's address; absent: the public ones.
    pub(crate) ca_file: Option<PathBuf>,
}

fn audience() -> String {
    "fleetwright".to_owned()
}

/// How a client shows who it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClientTrust {
    /// Its name, for the audit.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) scope: Scope,
    /// SHA-256 of its token, in hexadecimal.
    pub(crate) token_sha256: Option<String>,
    /// When the token ends; absent: never.
    pub(crate) expires: Option<Timestamp>,
    /// The issuer of its tokens, in place of one fixed token.
    pub(crate) token: Option<IssuerTrust>,
}

impl TrustFile {
    /// Reads a trust file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let tried = |why: String| format!("trust file {}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| tried(error.to_string()))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, folder).map_err(tried)
    }

    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for agent in &file.agents {
            agent.check()?;
        }
        for client in &file.clients {
            client.check()?;
        }
        distinct(&file.agents)?;
        let agents = file.agents.iter_mut().filter_map(|agent| agent.token.as_mut());
        let clients = file.clients.iter_mut().filter_map(|client| client.token.as_mut());
        for issuer in agents.chain(clients) {
            for path in [&mut issuer.jwks_file, &mut issuer.ca_file].into_iter().flatten() {
                *path = folder.join(&*path);
            }
        }
        Ok(file)
    }
}

/// One token speaks for one cluster.
fn distinct(agents: &[AgentTrust]) -> Result<(), String> {
    let mut known = BTreeMap::new();
    for AgentTrust { cluster, token, certificate_name } in agents {
        let token = token.as_ref().map(|token| (&token.issuer, &token.subject, &token.audience, &token.jwks_file));
        if let Some(other) = known.insert((token, certificate_name), cluster).filter(|other| *other != cluster) {
            return Err(format!(
                "[[agents]] of clusters {other:?} and {cluster:?} trust the same issuer and subject, or the same \
                 certificate-name: whoever shows it would speak for both; give each cluster its own"
            ));
        }
    }
    Ok(())
}

impl AgentTrust {
    fn check(&self) -> Result<(), String> {
        if self.token.is_some() == self.certificate_name.is_some() {
            return Err(format!(
                "[[agents]] of cluster {:?}: give either token = {{ issuer = …, subject = … }} or certificate-name",
                self.cluster
            ));
        }
        Ok(())
    }
}

impl ClientTrust {
    fn check(&self) -> Result<(), String> {
        let entry = format!("[[clients]] {:?}", self.name);
        match (&self.token_sha256, &self.token) {
            (Some(hash), None) if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(()),
            (Some(_), None) => Err(format!(
                "{entry}: token-sha256 is not 64 hexadecimal digits; make it with `printf %s \"$TOKEN\" | sha256sum`"
            )),
            (None, Some(_)) => Ok(()),
            _ => Err(format!("{entry}: give either token-sha256 or token = {{ issuer = …, subject = … }}")),
        }
    }
}
