//! Leases: the right of one replica to decide for a cluster or region.

use std::fmt;
use std::time::Duration;

use cost::CostInterval;

use super::holds::LiveHolds;
use super::operations::OpenIntent;
use super::replacements::{BackoffRow, ReplacementRow};

/// Largest accepted distance between an agent's epoch and the last issued one. After the loss of a
/// database an agent is ahead of the store, but no server issued an epoch further ahead than this.
/// Epochs end at 2^63 - 1, and a cluster changes its owner a few times a day.
pub const MAX_EPOCH_JUMP: u64 = 1 << 32;

/// Subject of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A cluster: its instances.
    Cluster(String),
    /// A region of an account: its API rate limit, its unavailable offerings, its orphans.
    Region {
        /// The account's number.
        account: String,
        /// The region's name.
        region: String,
    },
}

impl Scope {
    /// Scope of the cluster `name`.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self::Cluster(name.to_owned())
    }

    /// Database key: `cluster/<name>` or `region/<account>/<region>`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Cluster(name) => format!("cluster/{name}"),
            Self::Region { account, region } => format!("region/{account}/{region}"),
        }
    }

    /// Parses a key written by [`Scope::key`].
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        match key.split_once('/')? {
            ("cluster", name) => Some(Self::Cluster(name.to_owned())),
            ("region", rest) => {
                let (account, region) = rest.split_once('/')?;
                Some(Self::Region { account: account.to_owned(), region: region.to_owned() })
            }
            _ => None,
        }
    }

    /// Cluster name; `None` for a region.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        match self {
            Self::Cluster(name) => Some(name),
            Self::Region { .. } => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(f, "cluster {name}"),
            Self::Region { account, region } => write!(f, "region {region} of account {account}"),
        }
    }
}

/// A held lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Subject of the lease.
    pub scope: Scope,
    /// Replica that holds it.
    pub owner: String,
    /// Raised by every acquisition, from 1.
    pub epoch: u64,
}

/// Result of a lease acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// Acquired, at this epoch.
    Granted {
        /// The lease.
        lease: Lease,
        /// Operations that the previous holder left open.
        open: Box<OpenOperations>,
    },
    /// Another replica holds it, and it has not expired.
    Held {
        /// Present holder.
        owner: String,
        /// Time until expiry without a renewal.
        expires_in: Duration,
    },
}

/// Open operations of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOperations {
    /// Launches that are not closed, by NodeClaim: without outcome, or failed and not abandoned, or
    /// launched with the NodeClaim still present.
    pub intents: Vec<OpenIntent>,
    /// Last written object counts of the cluster.
    pub extent: Option<ObservedExtent>,
    /// Replacements that have not ended, by NodeClaim.
    pub replacements: Vec<ReplacementRow>,
    /// NodePools whose last replacement failed, by name.
    pub backoffs: Vec<BackoffRow>,
    /// Holds that have not ended.
    pub holds: LiveHolds,
    /// The last interval of each machine that ran when its costs were last written.
    pub costs: Vec<CostInterval>,
}

/// Object counts of the last accepted snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObservedExtent {
    /// Nodes.
    pub nodes: u64,
    /// NodeClaims.
    pub claims: u64,
    /// NodePools.
    pub pools: u64,
    /// Workload pods with a Node that are not terminating.
    pub pods: u64,
    /// Pods without a Node; written only when another count changed.
    pub pending: u64,
}

/// Result of a renewal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Leases that other replicas hold now.
    pub lost: Vec<Lease>,
    /// Leases still held that another replica has requested: (lease, requester).
    pub requested: Vec<(Lease, String)>,
}
