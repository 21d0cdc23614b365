//! Replacements under way: machines that are removed once other capacity is there for their pods, and the NodePools
//! that wait after one that failed. They come back with the lease.
//!
//! Times are distances to the present by the store's clock, because the clocks of replicas may differ.

/// A replacement under way, written with the decision that launches for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplacementRow {
    /// NodeClaim of the machine that is replaced.
    pub claim: String,
    /// Its NodePool.
    pub pool: String,
    /// Why it is replaced, as in manifests.
    pub reason: String,
    /// Whether its pods are planned elsewhere.
    pub moves_pods: bool,
    /// Its pods that have a place: `namespace/name`, and `NodeClaim/name` or `Node/name`.
    pub places: Vec<(String, String)>,
    /// Time since it began.
    pub begun_ago_ms: i64,
}

/// A NodePool that begins no replacement for a while, because one failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackoffRow {
    /// The NodePool.
    pub pool: String,
    /// The whole wait.
    pub wait_ms: i64,
    /// The rest of the wait; negative when it is over.
    pub left_ms: i64,
}

/// What one transaction changes when replacements end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplacementsEnd {
    /// NodeClaims whose replacements have ended.
    pub claims: Vec<String>,
    /// NodePools that wait.
    pub backoffs: Vec<BackoffRow>,
    /// NodePools that wait no longer.
    pub ended_backoffs: Vec<String>,
}
