//! Launches as recorded, and the recovery of those that the previous owner left unfinished.

use std::collections::BTreeSet;

use crate::decision::{DecisionId, PlannedMachine};
use model::{ClaimName, ProviderId, Text, Timestamp};

/// A recorded launch that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLaunch {
    pub claim: ClaimName,
    /// The latest attempt, from 1.
    pub attempt: u32,
    pub state: LaunchState,
    /// The decided launch. `None` for a launch that succeeded, which is never repeated, and for an
    /// unreadable record.
    pub planned: Option<Box<DecidedLaunch>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchState {
    /// The cloud may have been called; the outcome is unknown.
    Open,
    Launched {
        provider_id: ProviderId,
    },
    Failed {
        why: Text,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedLaunch {
    /// The exact orders, with the launch of the latest attempt.
    pub machine: PlannedMachine,
    pub decision: DecisionId,
    /// When it was decided.
    pub at: Timestamp,
}

/// What a recovery waits for, until the first accepted snapshot.
#[derive(Debug, Default)]
pub(crate) struct PendingRecovery {
    /// Whether a lease was acquired since the last snapshot.
    pending: bool,
    launches: Vec<OpenLaunch>,
    /// NodeClaims that are missing and whose instances have ended.
    ended: BTreeSet<ClaimName>,
}

impl PendingRecovery {
    /// The recovery of `launches`.
    pub fn of(launches: Vec<OpenLaunch>) -> Self {
        Self { pending: true, launches, ended: BTreeSet::new() }
    }

    /// Whether recovery waits for a snapshot.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    pub fn launches(&self) -> &[OpenLaunch] {
        &self.launches
    }

    /// Excludes NodeClaims whose instances have ended from the check for missing NodeClaims.
    pub fn exclude_ended(&mut self, claims: BTreeSet<ClaimName>) {
        self.ended = claims;
    }

    /// Whether the instance of the launch is known to have ended.
    pub fn is_excluded(&self, launch: &OpenLaunch) -> bool {
        self.ended.contains(&launch.claim)
    }

    /// Removes a launch whose record was closed.
    pub fn remove_launch(&mut self, claim: &ClaimName) {
        self.launches.retain(|launch| launch.claim != *claim);
    }

    /// Ends the recovery; returns its launches.
    pub fn complete(&mut self) -> Vec<OpenLaunch> {
        std::mem::take(self).launches
    }
}
