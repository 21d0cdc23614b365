//! Which effects the guardrail mode lets pass.

use super::mode::Mode;
use super::settings::GuardrailSettings;
use crate::effect::Effect;

/// Whether the mode lets `effect` pass: shadow mode passes records and views, and no actions.
pub(crate) fn is_allowed_by_mode(settings: &GuardrailSettings, effect: &Effect) -> bool {
    let cluster = match effect {
        Effect::Plan(_) | Effect::RecordDecision(_) | Effect::PublishView { .. } | Effect::Resync { .. } => {
            return true;
        }
        Effect::PersistCounts { .. }
        | Effect::EndReplacements { .. }
        | Effect::WriteHold { .. }
        | Effect::RecordCosts { .. } => return true,
        Effect::CloseLaunch { .. }
        | Effect::RecordLaunched { .. }
        | Effect::Describe { .. }
        | Effect::ReportFinding { .. } => return true,
        // A read; what it finds is not written while statuses are not.
        Effect::Inspect { .. } | Effect::ConfirmNotices { .. } | Effect::ResolveNodeClass(_) => return true,
        Effect::Instruct { cluster, .. } | Effect::Terminate { cluster, .. } | Effect::ClaimProbes { cluster, .. } => {
            cluster
        }
        Effect::Launch(order) => &order.cluster,
        Effect::Relaunch(decided) => &decided.machine.launch.cluster,
    };
    settings.mode_of(cluster) == Mode::Act
}
