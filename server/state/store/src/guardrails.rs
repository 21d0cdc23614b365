//! State that concerns many clusters: freezes and the audit log.

/// Scope of a freeze.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreezeScope {
    /// All clusters.
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
    /// Audit key: `fleet`, `cluster/<name>` or `pool/<cluster>/<pool>`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Fleet => "fleet".to_owned(),
            Self::Cluster(name) => format!("cluster/{name}"),
            Self::Pool { cluster, pool } => format!("pool/{cluster}/{pool}"),
        }
    }

    /// Whether a freeze of this scope covers a pool of a cluster; without a pool, the cluster as a
    /// whole.
    #[must_use]
    pub fn covers(&self, in_cluster: &str, in_pool: Option<&str>) -> bool {
        match self {
            Self::Fleet => true,
            Self::Cluster(name) => name == in_cluster,
            Self::Pool { cluster, pool } => cluster == in_cluster && Some(pool.as_str()) == in_pool,
        }
    }
}

/// An operator's order to freeze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeOrder {
    /// What is frozen.
    pub scope: FreezeScope,
    /// Whether it stops voluntary disruption alone: launches and all other removals go on.
    pub only_disruption: bool,
    /// Operator.
    pub by: String,
    /// Reason given by the operator.
    pub reason: String,
    /// Expiry, in milliseconds since 1970; `None` for never.
    pub until_ms: Option<i64>,
}

impl FreezeOrder {
    /// What the audit log says about it.
    #[must_use]
    pub fn audit_detail(&self) -> String {
        let Self { only_disruption, reason, .. } = self;
        if *only_disruption { format!("only disruption: {reason}") } else { reason.clone() }
    }
}

/// A freeze in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// Id to thaw it by.
    pub id: i64,
    /// Start, in milliseconds since 1970.
    pub since_ms: i64,
    /// The order.
    pub order: FreezeOrder,
}

/// What a client did with a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldAudit {
    /// It created the hold.
    Created,
    /// It ended the expiry of the hold.
    Committed,
    /// It ended the hold.
    Released,
}

/// An audit entry: one action of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time of the action, in milliseconds since 1970.
    pub at_ms: i64,
    /// Operator.
    pub who: String,
    /// Action: `freeze`, `thaw`, …
    pub what: String,
    /// Key of the affected scope.
    pub scope: String,
    /// Details, for operators.
    pub detail: String,
}

impl AuditEntry {
    /// An operator bound a cluster name to another UID.
    pub fn acceptance(cluster: &str, before: Option<&str>, uid: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "accept-uid".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: format!("UID {uid} in place of {}", before.unwrap_or("none")),
        }
    }

    /// The UID of a cluster was given to another name, whose agent is authenticated.
    pub fn yielded(cluster: &str, uid: &str, to: &str, is_trusted: bool, at_ms: i64) -> Self {
        let why =
            if is_trusted { "the trust file gives it to that name" } else { "nothing proves the claim of this one" };
        Self {
            at_ms,
            who: format!("agent of {to}"),
            what: "yield-uid".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: format!("UID {uid} is that of {to}: {why}"),
        }
    }

    /// An operator had a cluster forgotten, which had this many open launches.
    pub fn forgotten(cluster: &str, open_launches: u64, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "forget-cluster".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: format!("open launches: {open_launches}"),
        }
    }

    /// An operator released the quarantine of a cluster.
    pub fn release(cluster: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "release-quarantine".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: "snapshot accepted by operator".to_owned(),
        }
    }

    /// A client created, committed or released a hold of `client`.
    pub fn hold(command: HoldAudit, (cluster, id, client): (&str, &str, &str), by: &str, at_ms: i64) -> Self {
        let what = match command {
            HoldAudit::Created => "create-hold",
            HoldAudit::Committed => "commit-hold",
            HoldAudit::Released => "release-hold",
        };
        Self {
            at_ms,
            who: by.to_owned(),
            what: what.to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: if by == client { format!("hold {id}") } else { format!("hold {id} of {client}") },
        }
    }

    /// An operator confirmed the pending removals of a cluster.
    pub fn confirmation(cluster: &str, by: &str, at_ms: i64) -> Self {
        Self {
            at_ms,
            who: by.to_owned(),
            what: "confirm-removals".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_owned()).key(),
            detail: "pending removals confirmed".to_owned(),
        }
    }
}

/// An audit entry read from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Increasing id.
    pub id: i64,
    /// The entry.
    pub entry: AuditEntry,
}

/// Change counters that every replica watches. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Freezes: read [`Store::freezes`](super::Store::freezes).
    pub freezes: u64,
    /// Leases were requested or released: renew, or acquire again.
    pub leases: u64,
    /// Offerings were refused, or launched again: read
    /// [`Store::unavailable_offerings`](super::Store::unavailable_offerings).
    pub offerings: u64,
    /// A client created, committed or released a hold: read [`Store::live_holds`](super::Store::live_holds).
    pub holds: u64,
    /// A quarantine was released or removals were confirmed: read
    /// [`Store::quarantine_releases`](super::Store::quarantine_releases) and
    /// [`Store::removal_confirmations`](super::Store::removal_confirmations).
    pub releases: u64,
}
