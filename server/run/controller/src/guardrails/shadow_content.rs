//! What a shadow decision says.

use crate::{Decision, UnplacedPod};
use model::{NodeName, PodKey};

/// What a shadow decision says; an unchanged one is not recorded again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShadowContent {
    would: Vec<String>,
    notes: Vec<String>,
    assignments: Vec<(PodKey, NodeName)>,
    unplaced: Vec<UnplacedPod>,
}

impl ShadowContent {
    pub fn of(decision: &Decision) -> Self {
        Self {
            would: decision.would.clone(),
            notes: decision.notes.clone(),
            assignments: decision.assignments.clone(),
            unplaced: decision.unplaced.clone(),
        }
    }
}
