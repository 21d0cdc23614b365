//! Fetches an issuer's keys by OpenID Connect Discovery.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::error::KeySetError;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A key set has a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Fetches the keys of `issuer` over HTTPS, verified by the authorities in `ca_file` or else by the
/// public ones.
///
/// # Errors
/// The failed request and its cause.
pub(super) fn fetch(issuer: &str, ca_file: Option<&Path>) -> Result<JwkSet, KeySetError> {
    let roots = match ca_file {
        None => RootCerts::WebPki,
        Some(path) => RootCerts::new_with_certs(&authorities(path)?),
    };
    let tls = TlsConfig::builder().root_certs(roots).build();
    let config = ureq::Agent::config_builder().tls_config(tls).https_only(true).timeout_global(Some(TIMEOUT));
    let agent = config.build().new_agent();
    let discovery: Discovery =
        get(&agent, &format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))?;
    if discovery.issuer != issuer {
        return Err(KeySetError::OtherIssuer(discovery.issuer));
    }
    get(&agent, &discovery.jwks_uri)
}

fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, KeySetError> {
    let pem = std::fs::read(path).map_err(|error| KeySetError::Authorities { path: path.to_owned(), error })?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(certificates.collect())
}

fn get<T: serde::de::DeserializeOwned>(agent: &ureq::Agent, address: &str) -> Result<T, KeySetError> {
    let failed = |error| KeySetError::Request { address: address.to_owned(), error: Box::new(error) };
    let mut response = agent.get(address).call().map_err(failed)?;
    let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec().map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| KeySetError::Response { address: address.to_owned(), error })
}
