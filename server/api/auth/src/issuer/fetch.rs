//! Requests to an issuer: its keys by OpenID Connect Discovery, and tokens for codes.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::error::KeySetError;

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
    let client = HttpsClient::new(ca_file)?;
    let discovery: Discovery = client.discovery(issuer)?;
    if discovery.issuer != issuer {
        return Err(KeySetError::OtherIssuer(discovery.issuer));
    }
    client.get(&discovery.jwks_uri)
}

/// Requests of JSON over HTTPS.
pub(crate) struct HttpsClient(ureq::Agent);

impl HttpsClient {
    /// Verifies servers by the authorities in `ca_file` or else by the public ones.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, KeySetError> {
        let roots = match ca_file {
            None => RootCerts::WebPki,
            Some(path) => RootCerts::new_with_certs(&authorities(path)?),
        };
        let tls = TlsConfig::builder().root_certs(roots).build();
        let config = ureq::Agent::config_builder().tls_config(tls).https_only(true).timeout_global(Some(TIMEOUT));
        Ok(Self(config.build().new_agent()))
    }

    /// The discovery document of an issuer.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) fn discovery<T: DeserializeOwned>(&self, issuer: &str) -> Result<T, KeySetError> {
        self.get(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))
    }

    fn get<T: DeserializeOwned>(&self, address: &str) -> Result<T, KeySetError> {
        read(address, self.0.get(address).call())
    }

    /// Sends a form.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) fn post_form<T: DeserializeOwned>(
        &self,
        address: &str,
        form: &[(&str, &str)],
    ) -> Result<T, KeySetError> {
        read(address, self.0.post(address).send_form(form.iter().copied()))
    }
}

fn read<T: DeserializeOwned>(
    address: &str,
    response: Result<axum::http::Response<ureq::Body>, ureq::Error>,
) -> Result<T, KeySetError> {
    let failed = |error| KeySetError::Request { address: address.to_owned(), error: Box::new(error) };
    let mut response = response.map_err(failed)?;
    let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec().map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| KeySetError::Response { address: address.to_owned(), error })
}

fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, KeySetError> {
    let pem = std::fs::read(path).map_err(|error| KeySetError::Authorities { path: path.to_owned(), error })?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(certificates.collect())
}
