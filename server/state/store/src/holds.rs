//! Room in clusters that clients hold for pods to come.
//!
//! Clients create, commit and release holds through any replica; the owner of the cluster writes under its lease where their
//! room is. Times left are distances to the present by the store's clock, because the clocks of replicas may differ.

/// Message of holds whose cluster was forgotten, or whose name another cluster has.
pub const CLUSTER_FORGOTTEN: &str = "the cluster was forgotten";

/// How long a hold is found after its end, in milliseconds: a week.
pub const RETENTION_MS: i64 = 7 * 24 * 3_600_000;

/// A hold to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewHold {
    /// Its id, unique in the fleet.
    pub id: String,
    /// Name of the cluster.
    pub cluster: String,
    /// The client.
    pub client: String,
    /// Identifies the request of the client.
    pub request_id: String,
    /// Digest of the request.
    pub fingerprint: Vec<u8>,
    /// The pods as the client wrote them, for the API.
    pub pod_sets: Vec<u8>,
    /// The pods as they are planned.
    pub pods: Vec<u8>,
    /// Whether it has nodes of its own.
    pub dedicated: bool,
    /// How long it lasts unless it is committed.
    pub ttl_ms: i64,
    /// Price of its nodes at most, in micro-dollars per hour; `None` for no limit of its own.
    pub max_price: Option<i64>,
    /// What the client may hold.
    pub quota: HoldQuota,
}

/// What a client may hold at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HoldQuota {
    /// Holds that have not ended; `None` for no limit.
    pub holds: Option<u32>,
    /// Sum of the prices of their nodes, in micro-dollars per hour; `None` for no limit. A hold whose nodes are not launched
    /// yet counts with its own limit.
    pub price: Option<i64>,
}

/// Who commits or releases a hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldCaller {
    /// Name for the audit log; the creator of a hold has the same.
    pub name: String,
    /// Whether it may change holds of other clients.
    pub is_admin: bool,
    /// What it may hold. A hold that it commits for another client counts against it.
    pub quota: HoldQuota,
}

impl HoldCaller {
    /// Whether it may change a hold of `client`.
    #[must_use]
    pub fn may_change_hold_of(&self, client: &str) -> bool {
        self.is_admin || self.name == client
    }
}

/// State of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldState {
    /// Not all of its room is there.
    Pending,
    /// All of its room is there.
    Active,
    /// The holder uses it.
    Committed,
    /// The holder released it.
    Released,
    /// It was not committed in time.
    Expired,
    /// Its room could not be had.
    Failed,
}

impl HoldState {
    /// Whether the hold has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Released | Self::Expired | Self::Failed)
    }

    /// The state of a hold by its columns.
    #[must_use]
    pub fn of(ended: Option<&str>, is_committed: bool, is_ready: bool, left_ms: i64) -> Self {
        match ended {
            Some("released") => Self::Released,
            Some("expired") => Self::Expired,
            Some(_) => Self::Failed,
            None if is_committed => Self::Committed,
            // No replica may have noticed it yet.
            None if left_ms <= 0 => Self::Expired,
            None if is_ready => Self::Active,
            None => Self::Pending,
        }
    }
}

/// Booked pods on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldPlaceRow {
    /// `NodeClaim/name` or `Node/name`.
    pub target: String,
    /// Position of the pod set.
    pub pod_set: u32,
    /// Number of pods.
    pub pods: u32,
    /// Price of the node if it was launched for the hold, in micro-dollars per hour.
    pub price: i64,
}

/// What the owner of the cluster writes of a hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldStatusRow {
    /// The hold.
    pub id: String,
    /// Where its pods have room.
    pub places: Vec<HoldPlaceRow>,
    /// Whether all of its room is there.
    pub ready: bool,
    /// What it waits for, or why it ended.
    pub message: String,
    /// How the owner ended it: [`HoldState::Expired`] or [`HoldState::Failed`].
    pub end: Option<HoldState>,
}

/// A hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRow {
    /// Its id.
    pub id: String,
    /// Name of the cluster.
    pub cluster: String,
    /// The client.
    pub client: String,
    /// The pods as the client wrote them.
    pub pod_sets: Vec<u8>,
    /// The pods as they are planned.
    pub pods: Vec<u8>,
    /// Whether it has nodes of its own.
    pub dedicated: bool,
    /// Price of its nodes at most, in micro-dollars per hour.
    pub max_price: Option<i64>,
    /// Its state.
    pub state: HoldState,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it ends unless it is committed, in milliseconds since 1970.
    pub expires_ms: i64,
    /// Time until then.
    pub left_ms: i64,
    /// When it was committed.
    pub committed_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// What the owner of the cluster wrote last.
    pub status: HoldStatusRow,
    /// Grows with each change.
    pub version: u64,
}

/// All holds of a cluster, or of all clusters, that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveHolds {
    /// Number of the list: one with a higher number is newer.
    pub read: u64,
    /// The holds, by cluster and id.
    pub holds: Vec<HoldRow>,
}

/// Result of the creation of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldCreation {
    /// It was created, now or by an earlier call with this request id.
    Created(Box<HoldRow>),
    /// The client used the request id for another request.
    OtherRequest,
    /// The client has this many holds, which is all that it may have.
    TooManyHolds(u32),
    /// The client holds nodes of this price per hour, which leaves nothing of its quota.
    TooExpensive(i64),
    /// No replica ever held the lease of the cluster.
    UnknownCluster,
}

/// Result of a command about a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldCommand {
    /// The hold is as the client wants it.
    Done(Box<HoldRow>),
    /// The hold is in a state that does not allow it.
    Refused(Box<HoldRow>),
    /// The hold has changed since the version that the client named.
    OtherVersion(Box<HoldRow>),
    /// Another client created it, and the caller is no admin.
    OtherClient(Box<HoldRow>),
    /// Another client created it, and the caller has this many holds, which is all that it may have.
    TooManyHolds(u32),
    /// Another client created it, and the caller would hold nodes of this price per hour, which is more than it may hold.
    TooExpensive(i64),
    /// There is no such hold.
    Unknown,
}
