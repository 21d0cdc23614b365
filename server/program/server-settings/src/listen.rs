//! The table `listen`, and `auth.file`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::layers::Layers;
use auth::check_listen_address;
use auth::tls::TlsFiles;
use settings::ConfigError;

/// Listener addresses and their protection.
#[derive(Debug, Clone)]
pub struct Listen {
    /// `listen.grpc`: agents and API clients.
    pub grpc: SocketAddr,
    /// `listen.advertised-address`: where other replicas reach `grpc`; `None` if they do not.
    pub advertised: Option<String>,
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
        advertised: advertised(layers)?,
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

fn advertised(layers: &Layers) -> Result<Option<String>, ConfigError> {
    let Some(address) = layers.optional("listen.advertised-address") else { return Ok(None) };
    if is_host_and_port(&address) {
        return Ok(Some(address));
    }
    Err(ConfigError::Conflict(format!(
        "listen.advertised-address = {address:?} is not HOST:PORT, such as 10.0.0.7:7450, fleetwright-0.fleetwright:7450 or [fd00::7]:7450"
    )))
}

fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some();
    let is_host = is_bracketed || !host.contains([':', '/', '@', '[', ']']);
    !host.is_empty() && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_address_has_a_host_and_a_port() {
        for address in ["10.0.0.7:7450", "fleetwright-0.fleetwright:7450", "[fd00::7]:7450", "localhost:1"] {
            assert!(is_host_and_port(address), "{address}");
        }
        for address in [
            "",
            "10.0.0.7",
            ":7450",
            "fd00::7:7450",
            "http://10.0.0.7:7450",
            "10.0.0.7:0",
            "10.0.0.7:x",
            "a@b:1",
            "[::1:1",
        ] {
            assert!(!is_host_and_port(address), "{address}");
        }
    }
}
