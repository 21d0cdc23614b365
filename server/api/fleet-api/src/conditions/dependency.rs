//! What a replica depends on outside of its process.

use std::fmt;
use std::sync::Arc;

use cloud::catalogue::refreshed::RefreshKind;
use model::Millis;
use store::lease::Scope;

/// How bad it is that a dependency does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// To be looked at today.
    Warning,
    /// To be looked at now: nothing is decided, launched or removed.
    Critical,
}

/// A kind of call of a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloudAction {
    Launch,
    Terminate,
    Describe,
    List,
    /// Reads what the cloud announces about instances.
    ReadNotices,
}

impl CloudAction {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Terminate => "terminate",
            Self::Describe => "describe",
            Self::List => "list",
            Self::ReadNotices => "read-notices",
        }
    }
}

/// What a replica depends on. Causes precede what may follow from them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The store: it answers and takes writes.
    Store,
    /// The renewal of the leases that this replica holds.
    Leases,
    /// The cloud in an account and region: it answers with the server's credentials.
    Cloud(Scope),
    /// The right to an action there.
    CloudAction(Scope, CloudAction),
    /// The listing of the instances there.
    Listing(Scope),
    /// The queue of notices there.
    Queue(Scope),
    /// A part of the catalogue there.
    Catalogue(Scope, RefreshKind),
    /// Another replica, by the instance of its process.
    Replica(Arc<str>),
}

impl Dependency {
    /// How long it must fail before it counts as not working: calls of the cloud get lost, and are repeated.
    pub(crate) fn patience(&self) -> Millis {
        match self {
            Self::Cloud(_) | Self::Queue(_) => Millis::from_secs(10),
            Self::Store
            | Self::Leases
            | Self::CloudAction(..)
            | Self::Listing(_)
            | Self::Catalogue(..)
            | Self::Replica(_) => Millis::ZERO,
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Store | Self::Leases | Self::Cloud(_) | Self::CloudAction(..) | Self::Queue(_) => Severity::Critical,
            Self::Listing(_) | Self::Catalogue(..) | Self::Replica(_) => Severity::Warning,
        }
    }

    /// The account and region that it is about.
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Cloud(scope)
            | Self::CloudAction(scope, _)
            | Self::Listing(scope)
            | Self::Queue(scope)
            | Self::Catalogue(scope, _) => Some(scope),
            Self::Store | Self::Leases | Self::Replica(_) => None,
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::Leases => f.write_str("lease renewal"),
            Self::Cloud(scope) => write!(f, "cloud, {scope}"),
            Self::CloudAction(scope, action) => write!(f, "right to {}, {scope}", action.as_str()),
            Self::Listing(scope) => write!(f, "instance listing, {scope}"),
            Self::Queue(scope) => write!(f, "queue of notices, {scope}"),
            Self::Catalogue(scope, kind) => write!(f, "catalogue {}, {scope}", kind.as_str()),
            Self::Replica(instance) => write!(f, "replica {instance}"),
        }
    }
}
