//! Who may decide for what.

use std::fmt;
use std::time::Duration;

use super::StoreError;
use super::undertaking::{DisruptionRow, InstructionRow, OpenIntent};

/// An agent may have obeyed an epoch that the store does not know of, after the store was lost and made anew; one that lies
/// further ahead than this was given out by nobody. Epochs end at 2^63 - 1, and a cluster changes hands a few times a day.
pub const FARTHEST_JUMP: u64 = 1 << 32;

/// The epoch that follows `held`, the last one that was given out, and `seen`, the highest that the cluster says it has obeyed.
///
/// # Errors
/// [`StoreError::EpochTooHigh`] when `seen` was given out by nobody.
pub(super) fn next_epoch(scope: &Scope, held: u64, seen: u64) -> Result<u64, StoreError> {
    if seen.saturating_sub(held) > FARTHEST_JUMP {
        return Err(StoreError::EpochTooHigh { scope: scope.clone(), seen, held });
    }
    Ok(held.max(seen).saturating_add(1))
}

/// What a lease is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A cluster: its machines.
    Cluster(String),
    /// A region of an account: its API budget, its sold-out offerings, its orphans.
    Region {
        /// The account's number.
        account: String,
        /// The region's name.
        region: String,
    },
}

impl Scope {
    /// The cluster of this name.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self::Cluster(name.to_owned())
    }

    /// How it is written in rows: `cluster/<name>` or `region/<account>/<region>`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Cluster(name) => format!("cluster/{name}"),
            Self::Region { account, region } => format!("region/{account}/{region}"),
        }
    }

    /// Reads what [`Scope::key`] wrote.
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

    /// The cluster's name, if it is one.
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

/// The right to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// For what.
    pub scope: Scope,
    /// The replica that holds it.
    pub owner: String,
    /// Grows with every change of hands, from 1.
    pub epoch: u64,
}

/// Answer to a replica that wants a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is yours, at this epoch.
    Granted {
        /// The lease.
        lease: Lease,
        /// What its former holder left open.
        open: Open,
    },
    /// Somebody else holds it, and it has not expired.
    Held {
        /// The holder.
        owner: String,
        /// When it would expire, if it were not renewed.
        expires_in: Duration,
    },
}

/// What is under way in a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Open {
    /// Launches that are not closed, by claim: not settled, or failed and not given up, or launched and still there.
    pub intents: Vec<OpenIntent>,
    /// Instructions without an outcome, by number.
    pub instructions: Vec<InstructionRow>,
    /// Disruptions without an outcome, by number.
    pub disruptions: Vec<DisruptionRow>,
    /// How much there was in the cluster when that was last written down.
    pub extent: Option<ObservedExtent>,
}

/// How much an agent was seen to have, as it was believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObservedExtent {
    /// Nodes.
    pub nodes: u64,
    /// NodeClaims.
    pub claims: u64,
    /// NodePools.
    pub pools: u64,
    /// Pods of workloads that have a Node and are not on their way out.
    pub pods: u64,
    /// Those without a Node. It is no more than was there when one of the others changed.
    pub pending: u64,
}

/// Which cluster has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its UID.
    pub uid: String,
    /// The replica that decided for it last.
    pub owner: String,
}

/// What renewing leases showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// These have passed to somebody else.
    pub lost: Vec<Lease>,
    /// These are still held, and another replica would like to have them: (the lease, by whom).
    pub wanted: Vec<(Lease, String)>,
}
