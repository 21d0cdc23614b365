//! Operations in flight: launches. They are written before the external call, so that a successor
//! knows what may have happened.

/// An attempt to launch an instance, written before the cloud is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// NodeClaim name, unique in its cluster.
    pub claim: String,
    /// Counts from 1; a definitive failure permits the next one.
    pub attempt: u32,
    /// Client token: the cloud returns the first call's result for a repeated token.
    pub token: String,
    /// Encoded request; a retry sends the same bytes.
    pub request: Vec<u8>,
    /// NodeClaim to create and the pods assigned to it, as text.
    pub claim_order: String,
}

/// State of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentState {
    /// The cloud may have been called; the outcome is unknown.
    Open,
    /// The attempt has an outcome.
    Ended(AttemptOutcome),
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// An instance was launched.
    Launched {
        /// Provider id of the instance.
        provider_id: String,
    },
    /// No instance; the same token will never yield one.
    Failed {
        /// Error text of the cloud.
        why: String,
    },
}

/// Latest attempt of a launch that is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// The attempt. For a launched one, request and claim order are not read, because they are
    /// never sent again.
    pub intent: Intent,
    /// State of the attempt.
    pub state: IntentState,
}

/// An attempt, as the time windows of the guardrails need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentAttempt {
    /// NodeClaim name.
    pub claim: String,
    /// NodeClaim of the attempt and the pods assigned to it, as text.
    pub claim_order: String,
    /// Whether an instance was launched; `None` while the outcome is unknown.
    pub launched: Option<bool>,
    /// Age of the attempt, by the store's clock.
    pub begun_ago_ms: i64,
    /// Time since it was closed, if it is.
    pub closed_ago_ms: Option<i64>,
}
