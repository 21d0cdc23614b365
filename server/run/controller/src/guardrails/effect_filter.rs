//! Which effects the guardrail mode lets pass.

use super::mode::Mode;
use crate::effect::{ClusterCall, Effect};

/// Whether the mode lets `effect` pass: shadow mode passes records and views, and no actions.
pub(crate) fn is_allowed_by_mode(mode: Mode, effect: &Effect) -> bool {
    match effect {
        Effect::Plan(_) | Effect::PublishView | Effect::Resync(_) | Effect::ReportFinding(_) => true,
        Effect::Instruct { .. } | Effect::ClaimProbes(_) => mode == Mode::Act,
        Effect::Call(call) => match call {
            ClusterCall::RecordDecision(_)
            | ClusterCall::PersistCounts(_)
            | ClusterCall::EndReplacements { .. }
            | ClusterCall::WriteHold { .. }
            | ClusterCall::RecordCosts(_)
            | ClusterCall::CloseLaunch(_)
            | ClusterCall::RecordLaunched { .. }
            | ClusterCall::Describe { .. } => true,
            // A read; what it finds is not written while statuses are not.
            ClusterCall::Inspect { .. } | ClusterCall::ConfirmNotices(_) | ClusterCall::ResolveNodeClass(_) => true,
            ClusterCall::Terminate { .. } | ClusterCall::Launch(_) | ClusterCall::Relaunch(_) => mode == Mode::Act,
        },
    }
}
