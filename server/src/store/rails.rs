//! What holds for many clusters: offerings that are not to be had, what people have frozen, and who did what.

/// An offering that the cloud has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferingEntry {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// How it is paid for.
    pub capacity_type: String,
    /// Not to be tried before this moment, in milliseconds since 1970.
    pub until_ms: i64,
    /// What the cloud said.
    pub reason: String,
}

/// How far a freeze reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreezeScope {
    /// Everything.
    Fleet,
    /// One cluster.
    Cluster(String),
    /// One NodePool of one cluster.
    Pool {
        /// The cluster.
        cluster: String,
        /// The NodePool.
        pool: String,
    },
}

impl FreezeScope {
    /// How it is written in audit: `fleet`, `cluster/<name>` or `pool/<cluster>/<pool>`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Fleet => "fleet".to_owned(),
            Self::Cluster(name) => format!("cluster/{name}"),
            Self::Pool { cluster, pool } => format!("pool/{cluster}/{pool}"),
        }
    }

    /// Whether a freeze of this scope holds for a pool of a cluster; without a pool, for the cluster as a whole.
    #[must_use]
    pub fn covers(&self, in_cluster: &str, in_pool: Option<&str>) -> bool {
        match self {
            Self::Fleet => true,
            Self::Cluster(name) => name == in_cluster,
            Self::Pool { cluster, pool } => cluster == in_cluster && Some(pool.as_str()) == in_pool,
        }
    }
}

/// An order to freeze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeOrder {
    /// What.
    pub scope: FreezeScope,
    /// Who wants it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it ends by itself, in milliseconds since 1970; `None` for never.
    pub until_ms: Option<i64>,
}

/// A freeze in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// The number that thaws it.
    pub id: i64,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// The order.
    pub order: FreezeOrder,
}

/// What somebody did by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who.
    pub who: String,
    /// What: `freeze`, `thaw`, …
    pub what: String,
    /// To what.
    pub scope: String,
    /// The particulars, for people.
    pub detail: String,
}

impl AuditEntry {
    /// A person gave the name of a cluster to the cluster of another UID.
    pub(super) fn acceptance(cluster: &str, before: Option<&str>, uid: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "accept-uid".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: format!("UID {uid} in place of {}", before.unwrap_or("none")),
        }
    }

    /// Somebody vouched for what the agent of a cluster tells.
    pub(super) fn release(cluster: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "release-quarantine".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: "what its agent tells is believed".to_owned(),
        }
    }

    /// A person confirmed the removals that wait in a cluster.
    pub(super) fn confirmation(cluster: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "confirm-removals".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: "removals that wait go on".to_owned(),
        }
    }
}

/// A line of audit as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Grows with time.
    pub id: i64,
    /// The line.
    pub entry: AuditEntry,
}

/// How often things have changed that every replica must know. The numbers only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Freezes: read [`Store::freezes`](super::Store::freezes).
    pub freezes: u64,
    /// Leases were asked for or given back: renew, or ask again.
    pub leases: u64,
    /// Offerings were refused: read [`Store::recall_offerings`](super::Store::recall_offerings).
    pub offerings: u64,
    /// People vouched for a cluster, or confirmed removals there: read
    /// [`Store::quarantine_releases`](super::Store::quarantine_releases) and
    /// [`Store::removal_confirmations`](super::Store::removal_confirmations).
    pub releases: u64,
}
