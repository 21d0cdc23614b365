//! WHO may say what. Agents show a service-account token or a certificate and speak for one cluster; clients show a token
//! and have scopes. Nothing else in the server asks who somebody is.
//!
//! - [`file`]: whom the operator trusts, in one file that is read again when it changes.
//! - [`token`]: a signed token, judged by keys and a moment. Pure.
//! - [`issuer`]: an issuer's keys, from a file or from the issuer itself.
//! - [`book`]: the file and the keys together; the judge of agents and clients.
//! - [`gate`]: stands before every gRPC method and every page.
//! - [`admission`]: what is read of an agent's stream before the agent is admitted.
//! - [`tls`]: certificates of this server and of agents, read again when they change.
//! - [`connections`]: how many strangers may be connected, and for how long.
//! - [`budget`]: how much one agent may say.
//!
//! Without a trust file everybody may do everything, which is refused at start on any address but loopback
//! ([`refuse_to_listen`]).

pub(crate) mod admission;
pub(crate) mod book;
pub(crate) mod budget;
pub(crate) mod connections;
pub(crate) mod file;
pub(crate) mod gate;
pub(crate) mod issuer;
pub(crate) mod tls;
pub(crate) mod token;

use std::fmt;
use std::net::SocketAddr;

use serde::Deserialize;

/// What a client may do; each scope contains those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// Look.
    Read,
    /// Ask for plans.
    Plan,
    /// Freeze and thaw, release a quarantine.
    Operate,
    /// Read who did what.
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

/// A client that was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Client {
    /// Its name, for the audit.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) scope: Scope,
}

/// Why somebody is not let in. Never holds what was shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub(crate) String);

/// Why a server must not listen on `address`, if so: whatever can be reached from other machines is encrypted and asks
/// everybody who they are.
pub(crate) fn refuse_to_listen(key: &str, address: SocketAddr, tls: bool, trust: bool) -> Option<String> {
    let missing = match (tls, trust) {
        _ if address.ip().is_loopback() => return None,
        (true, true) => return None,
        (true, false) => "trust.file says whom to trust",
        (false, true) => "listen.tls-certificate and listen.tls-key encrypt what is said",
        (false, false) => {
            "listen.tls-certificate and listen.tls-key encrypt what is said and trust.file says whom to trust"
        }
    };
    Some(format!(
        "{key} = {address} can be reached from other machines, and is refused until {missing}; without them, listen on 127.0.0.1"
    ))
}

#[cfg(test)]
pub(crate) mod tests;
