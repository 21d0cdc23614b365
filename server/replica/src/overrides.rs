//! Audit of operator overrides.

use model::{ClusterName, Timestamp};

use super::{AuditEntry, Call, FreezeScope, Output, Replica};

impl Replica {
    /// Audits that the operator has set `agent.karpenter-absent`, which overrides the agent's
    /// detection: once per process that owns the cluster.
    pub(super) fn audit_karpenter_override(&mut self, cluster: &ClusterName, now: Timestamp) -> Option<Output> {
        let audited_overrides = self.handshakes.get(cluster).is_some_and(|handshake| handshake.karpenter_absent);
        if !audited_overrides {
            self.audited_overrides.remove(cluster);
            return None;
        }
        let entry = AuditEntry {
            at_ms: now.as_millis(),
            who: format!("the agent of {cluster}"),
            what: "karpenter-absent".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_string()).key(),
            detail: "agent.karpenter-absent is set: NodeClaims are created even if a Karpenter controller is detected"
                .to_owned(),
        };
        self.audited_overrides.insert(cluster.clone()).then_some(Output::Call(Call::Audit(entry)))
    }
}
