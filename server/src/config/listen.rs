//! The table `listen`, and `auth.file`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::error::ConfigError;
use super::layers::Layers;
use auth::check_listen_address;
use auth::tls::TlsFiles;

/// Listener addresses and their protection.
#[derive(Debug, Clone)]
pub struct Listen {
    /// `listen.grpc`: agents and API clients.
    pub grpc: SocketAddr,
    /// `listen.http`: dashboard, metrics, health.
    pub http: SocketAddr,
    /// `listen.tls-*` and `listen.client-ca`: TLS files; `None` disables TLS.
    pub tls: Option<TlsFiles>,
    /// `auth.file`: agents and clients; `None` disables authentication.
    pub trust: Option<PathBuf>,
}

/// Parses the listener settings.
///
/// # Errors
/// [`ConfigError::Value`] for an invalid value; [`ConfigError::Conflict`] for an unprotected
/// non-loopback address or an incomplete pair of TLS files.
pub(super) fn resolve(layers: &Layers) -> Result<Listen, ConfigError> {
    let listen = Listen {
        grpc: layers.address("listen.grpc")?,
        http: layers.address("listen.http")?,
        tls: tls(layers)?,
        trust: path(layers, "auth.file"),
    };
    for (key, address) in [("listen.grpc", listen.grpc), ("listen.http", listen.http)] {
        let refused = check_listen_address(key, address, listen.tls.is_some(), listen.trust.is_some());
        refused.map_or(Ok(()), |why| Err(ConfigError::Conflict(why)))?;
    }
    Ok(listen)
}

fn tls(layers: &Layers) -> Result<Option<TlsFiles>, ConfigError> {
    let [certificate, key, client_ca] =
        ["listen.tls-certificate", "listen.tls-key", "listen.client-ca"].map(|name| path(layers, name));
    match (certificate, key, client_ca) {
        (Some(certificate), Some(key), client_ca) => Ok(Some(TlsFiles { certificate, key, client_ca })),
        (None, None, None) => Ok(None),
        _ => Err(ConfigError::Conflict(
            "listen.tls-certificate and listen.tls-key must be set together, and listen.client-ca requires both"
                .to_owned(),
        )),
    }
}

fn path(layers: &Layers, name: &str) -> Option<PathBuf> {
    layers.optional(name).map(PathBuf::from)
}
