//! A replacement under way, as the controller writes it into the state.

use model::Timestamp;
use model::disruption_policy::DisruptionReason;

/// The replacement of a machine by other capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Why the machine is removed.
    pub reason: DisruptionReason,
    /// When it began.
    pub since: Timestamp,
    /// Whether the pods are planned elsewhere. Those of a static NodePool's machine wait until the
    /// new machine is initialized.
    pub moves_pods: bool,
}
