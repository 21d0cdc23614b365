//! The table `listen`, and who is let in.

use std::path::PathBuf;

use super::{ConfigError, Layers, Listen};
use crate::trust::refuse_to_listen;
use crate::trust::tls::TlsFiles;

/// The addresses that `layers` amount to.
///
/// # Errors
/// [`ConfigError::Value`] for a value that its key does not take, [`ConfigError::Together`] for an address that other machines
/// reach without protection, or half a pair of files.
pub(super) fn resolve(layers: &Layers) -> Result<Listen, ConfigError> {
    let listen = Listen {
        grpc: layers.address("listen.grpc")?,
        http: layers.address("listen.http")?,
        tls: tls(layers)?,
        trust: path(layers, "trust.file"),
    };
    for (key, address) in [("listen.grpc", listen.grpc), ("listen.http", listen.http)] {
        let refused = refuse_to_listen(key, address, listen.tls.is_some(), listen.trust.is_some());
        refused.map_or(Ok(()), |why| Err(ConfigError::Together(why)))?;
    }
    Ok(listen)
}

fn tls(layers: &Layers) -> Result<Option<TlsFiles>, ConfigError> {
    let [certificate, key, client_ca] =
        ["listen.tls-certificate", "listen.tls-key", "listen.client-ca"].map(|name| path(layers, name));
    match (certificate, key, client_ca) {
        (Some(certificate), Some(key), client_ca) => Ok(Some(TlsFiles { certificate, key, client_ca })),
        (None, None, None) => Ok(None),
        _ => Err(ConfigError::Together(
            "listen.tls-certificate and listen.tls-key belong together, and listen.client-ca needs both".to_owned(),
        )),
    }
}

fn path(layers: &Layers, name: &str) -> Option<PathBuf> {
    layers.optional(name).map(PathBuf::from)
}
