//! Snapshots that lack NodeClaims.

use crate::Finding;
use crate::context::Context;
use crate::nodeclaim::GarbageCollector;
use crate::step_view::StepView;

/// Fewer machines than this may lose their NodeClaims without making the snapshot suspicious.
const MIN_SUSPICIOUS_MACHINES: usize = 3;

/// Reports a finding about missing NodeClaims, once while it is unchanged.
pub(crate) fn report_missing_claims(finding: Finding, ctx: &mut Context<'_>, gc: &mut GarbageCollector) {
    if gc.last_absence_finding.as_ref() != Some(&finding) {
        gc.last_absence_finding = Some(finding.clone());
        ctx.report_finding(finding);
    }
}

/// Whether the absence of `missing` out of `of` NodeClaims is more likely an error of the
/// snapshot than a fact.
pub(crate) fn snapshot_suspicious(missing: usize, of: usize, view: &StepView<'_>) -> bool {
    let most = missing >= MIN_SUSPICIOUS_MACHINES && missing * 2 > of;
    let held = missing > 0 && (most || view.state.has_no_objects());
    let vouched = view.guardrails.is_snapshot_confirmed(view.now);
    held && !vouched
}
