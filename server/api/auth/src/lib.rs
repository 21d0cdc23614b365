//! Authentication and authorization. An agent authenticates by a service-account token or a client
//! certificate and is authorized for one cluster; an API client authenticates by a token and has a
//! scope. No other crate authenticates peers.
//!
//! - [`file`]: the trust file of the operator, reloaded when it changes.
//! - [`inspection`]: all errors of a trust file, and entries that admit nobody.
//! - [`token`]: JWT verification from keys and a time; pure.
//! - [`issuer`]: keys of token issuers, from a file or by OpenID Connect discovery.
//! - [`authorizer`]: authorizes agents and clients by the trust file and the keys.
//! - [`cluster_access`]: the clusters that a client is confined to.
//! - [`middleware`]: authorizes every gRPC method and every page.
//! - [`sign_in`]: signs browsers in, by token or by OpenID Connect ([`oidc`]), to sessions ([`browser_session`]).
//! - [`same_origin`]: refuses requests of pages of other origins.
//! - [`admission`]: limits what is read of an agent's stream before admission.
//! - [`tls`]: TLS listener and its certificates, reloaded when they change.
//! - [`connections`]: limits on unauthenticated connections.
//! - [`rate_limit`]: rate limit per agent.
//! - [`replica_connection`]: connections to the other replicas.
//!
//! Without a trust file every peer has every right; startup then rejects any non-loopback address
//! ([`check_listen_address`]).

pub mod admission;
pub mod authorizer;
pub mod browser_session;
pub mod cluster_access;
pub mod connections;
pub mod file;
pub mod inspection;
pub mod issuer;
pub mod middleware;
mod oidc;
pub mod rate_limit;
pub mod replica_connection;
mod revocable_body;
mod same_origin;
pub mod sign_in;
pub mod tls;
pub mod token;

use std::fmt;
use std::net::SocketAddr;

use serde::Deserialize;

use cluster_access::ClusterAccess;

/// Scope of a client; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Plan,
    /// Freeze, thaw, release a quarantine.
    Operate,
    /// Read the audit log.
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Plan => "plan",
            Self::Operate => "operate",
            Self::Admin => "admin",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub name: String,
    /// Scope that the trust file grants.
    pub scope: Scope,
    /// What it may hold and ask for.
    pub quota: ClientQuota,
    /// Clusters that it may see and act on.
    pub clusters: ClusterAccess,
    /// Whether it is another replica, which passes on requests of clients that it has authorized.
    pub is_replica: bool,
}

impl Client {
    /// Says that its scope is too small.
    pub(crate) fn lacks(&self, needed: Scope) -> String {
        format!("{} has scope {}; this needs scope {needed}", self.name, self.scope)
    }
}

/// Quota of a client; `None` has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientQuota {
    pub holds: Option<u32>,
    /// Price of the nodes of its holds, in micro-dollars per hour.
    pub hold_price: Option<i64>,
    /// Plans, quotes and holds that each replica accepts in a minute.
    pub requests_per_minute: Option<u32>,
}

/// Authentication or authorization failure. Never contains credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthError(pub String);

/// Why a client may not call a method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientDenial {
    /// It is not known.
    #[error(transparent)]
    Unauthenticated(#[from] AuthError),
    /// It is known, and its scope is too small.
    #[error("{0}")]
    Scope(String),
}

/// Error when `address` is not loopback and TLS or the trust file is missing.
pub fn check_listen_address(key: &str, address: SocketAddr, tls: bool, trust: bool) -> Option<String> {
    let missing = match (tls, trust) {
        _ if address.ip().is_loopback() => return None,
        (true, true) => return None,
        (true, false) => "auth.file",
        (false, true) => "listen.tls-certificate and listen.tls-key",
        (false, false) => "listen.tls-certificate, listen.tls-key and auth.file",
    };
    Some(format!(
        "{key} = {address} is not a loopback address and requires {missing}; set them, or listen on 127.0.0.1"
    ))
}

#[cfg(test)]
mod tests;
