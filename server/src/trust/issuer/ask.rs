//! Asks an issuer for its keys, as OpenID Connect Discovery says.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// An issuer that does not answer in this time does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A key set is a few kilobytes.
const LARGEST: u64 = 1 << 20;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The keys of `issuer`, whose address the authorities in `ca_file` vouch for, or else the public ones.
///
/// # Errors
/// What was asked, and why there is no answer.
pub(super) fn ask(issuer: &str, ca_file: Option<&Path>) -> Result<JwkSet, String> {
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
