//! TLS and token credentials of a connection. The files are read for every connection: tokens are
//! valid for an hour and certificates for weeks, while the agent runs for longer.

use std::fs;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::config::Credentials;
use crate::error_chain::error_chain;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {key} from {}: {reason}", path.display())]
    Unreadable {
        /// Configuration key that names the file.
        key: &'static str,
        path: PathBuf,
        reason: std::io::Error,
    },
    /// The content of the token file is no valid token.
    #[error("the token in {} cannot be sent: it is empty or has invalid characters", path.display())]
    Token { path: PathBuf },
    #[error("cannot use the certificates that server.ca-file and server.client-certificate name: {0}")]
    Certificates(String),
}

/// Configures TLS on the endpoint, with the certificates of both sides.
pub(crate) fn encrypt(endpoint: Endpoint, credentials: &Credentials) -> Result<Endpoint, CredentialsError> {
    let Some(ca_file) = &credentials.ca_file else { return Ok(endpoint) };
    let authorities = read("server.ca-file", ca_file)?;
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
    if let (Some(certificate), Some(key)) = (&credentials.client_certificate, &credentials.client_key) {
        let certificate = read("server.client-certificate", certificate)?;
        tls = tls.identity(Identity::from_pem(certificate, read("server.client-key", key)?));
    }
    endpoint.tls_config(tls).map_err(|error| CredentialsError::Certificates(error_chain(&error)))
}

/// The value of the header `authorization`; `None` without a token.
pub(crate) fn bearer(credentials: &Credentials) -> Result<Option<MetadataValue<Ascii>>, CredentialsError> {
    let Some(path) = &credentials.token_file else { return Ok(None) };
    let token = read("server.token-file", path)?;
    let invalid = || CredentialsError::Token { path: path.clone() };
    let token = std::str::from_utf8(&token).map_err(|_| invalid())?.trim();
    if token.is_empty() {
        return Err(invalid());
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, CredentialsError> {
    fs::read(path).map_err(|reason| CredentialsError::Unreadable { key, path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_again_every_time_and_never_shown() {
        let path = std::env::temp_dir().join(format!("fleetwright-agent-{}-token", std::process::id()));
        let credentials = Credentials { token_file: Some(path.clone()), ..Credentials::default() };
        for token in ["first", "second\n"] {
            fs::write(&path, token).unwrap();
            let value = bearer(&credentials).unwrap().unwrap();
            assert_eq!(value.to_str().unwrap(), format!("Bearer {}", token.trim()));
            assert!(!format!("{value:?}").contains("first"));
        }
        fs::write(&path, " \n").unwrap();
        assert!(bearer(&credentials).unwrap_err().to_string().contains("empty"));
        fs::remove_file(&path).unwrap();
        let error = bearer(&credentials).unwrap_err().to_string();
        assert!(error.contains("server.token-file") && error.contains(path.to_str().unwrap()), "{error}");
    }
}
