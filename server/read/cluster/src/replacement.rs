//! A replacement under way, as the controller writes it into the state and as it is recorded.

use super::target::Target;
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, Millis, PodKey, PoolName, Timestamp};

/// The replacement of a machine by other capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    pub reason: DisruptionReason,
    /// When it began.
    pub since: Timestamp,
    /// Whether the pods are planned elsewhere. Those of a static NodePool's machine wait until the
    /// new machine is initialized.
    pub moves_pods: bool,
}

/// A replacement under way, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedReplacement {
    /// NodeClaim of the machine that is replaced.
    pub claim: ClaimName,
    pub pool: PoolName,
    /// Why, since when, and whether its pods are planned elsewhere.
    pub begun: Replacement,
    /// Its pods that have a place.
    pub places: Vec<(PodKey, Target)>,
}

/// What the previous owner of a cluster recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplacementsRead {
    pub replacements: Vec<RecordedReplacement>,
    /// NodePools that wait after a failure.
    pub waits: Vec<(PoolName, ReplacementWait)>,
}

/// How long a NodePool begins no replacement after one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacementWait {
    /// The whole wait; the next one is twice as long.
    pub wait: Millis,
    pub until: Timestamp,
}
