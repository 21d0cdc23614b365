//! What was promised to the outside and is not finished: launches, instructions, disruptions. Written before anybody is
//! told, so that a successor knows what may have happened.

/// An attempt to launch a machine, written before the cloud is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Name of the NodeClaim, unique in its cluster.
    pub claim: String,
    /// Counts from 1; a definitive failure makes the next one.
    pub attempt: u32,
    /// The client token of the attempt: the cloud answers a repeated token with the first call's result.
    pub token: String,
    /// The exact request; a retry sends the same bytes.
    pub request: Vec<u8>,
    /// The NodeClaim to create and the pods that it is for, as text.
    pub claim_order: String,
}

/// Where an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentState {
    /// The cloud may have been called; nobody knows with what result.
    Open,
    /// It ended, like this.
    Settled(Settlement),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// With this machine.
    Launched {
        /// The machine's provider id.
        provider_id: String,
    },
    /// Without a machine, definitively: the same token will never give one.
    Failed {
        /// What the cloud said.
        why: String,
    },
}

/// The latest attempt of a launch that is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// The attempt. Of one that was launched neither request nor claim order is read back: nobody sends them again.
    pub intent: Intent,
    /// Where it stands.
    pub state: IntentState,
}

/// An attempt that somebody began, as the windows of the rails look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    /// Name of the NodeClaim.
    pub claim: String,
    /// The NodeClaim that was to be created and the pods that it was for, as text.
    pub claim_order: String,
    /// Whether a machine came of it; `None` as long as nobody knows.
    pub launched: Option<bool>,
    /// How long ago it was begun, by the store's clock.
    pub begun_ago_ms: i64,
    /// How long ago it was closed, if it is.
    pub closed_ago_ms: Option<i64>,
}

/// What an agent is told to do, written before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionRow {
    /// Its number, unique in its cluster.
    pub id: u64,
    /// Generation of what it is about.
    pub generation: u64,
    /// What kind of instruction, for people.
    pub kind: String,
    /// The instruction, as it is sent.
    pub payload: Vec<u8>,
    /// Not to be begun after this moment, in milliseconds since 1970.
    pub deadline_ms: i64,
}

/// How an instruction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionEnd {
    /// Its number.
    pub id: u64,
    /// What the agent said, or that nobody said anything in time.
    pub outcome: String,
}

/// Machines on their way out, and what replaces them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionRow {
    /// Its number, unique in its cluster.
    pub id: u64,
    /// What kind: empty, drifted, underused.
    pub kind: String,
    /// NodeClaims that go.
    pub claims: Vec<String>,
    /// NodeClaims that come first.
    pub replacements: Vec<String>,
    /// Whatever else a successor needs, as text.
    pub detail: String,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: i64,
}

/// How a disruption ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionEnd {
    /// Its number.
    pub id: u64,
    /// What became of it.
    pub outcome: String,
}
