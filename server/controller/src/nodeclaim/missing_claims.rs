//! Snapshots that lack NodeClaims.

use crate::Finding;
use crate::cluster_controller::{ClusterController, Context};

/// Fewer machines than this may lose their NodeClaims without making the snapshot suspicious.
const MIN_SUSPICIOUS_MACHINES: usize = 3;

impl ClusterController {
    /// Whether the absence of `missing` out of `of` NodeClaims is more likely an error of the
    /// snapshot than a fact.
    pub(crate) fn snapshot_suspicious(&self, missing: usize, of: usize, ctx: &Context<'_>) -> bool {
        let most = missing >= MIN_SUSPICIOUS_MACHINES && missing * 2 > of;
        let held = missing > 0 && (most || self.state.has_no_objects());
        let vouched = self.operator_confirmed_until.is_some_and(|until| ctx.now < until);
        held && !vouched
    }

    /// Reports a finding about missing NodeClaims, once while it is unchanged.
    pub(crate) fn report_missing_claims(&mut self, finding: Finding, ctx: &mut Context<'_>) {
        if self.last_absence_finding.as_ref() != Some(&finding) {
            self.last_absence_finding = Some(finding.clone());
            self.report_finding(finding, ctx);
        }
    }
}
