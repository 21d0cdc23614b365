//! What a person overrules for a cluster, written down.

use engine::control::ClusterId;
use engine::model::Timestamp;

use super::{AuditEntry, Call, FreezeScope, Output, Replica};

impl Replica {
    /// A person has said that no Karpenter is at work in the cluster, whatever its agent finds: written down once by each process
    /// that decides for it.
    pub(super) fn audit_overruling(&mut self, cluster: &ClusterId, now: Timestamp) -> Option<Output> {
        let overruled = self.hellos.get(cluster).is_some_and(|said| said.karpenter_absent);
        if !overruled {
            self.overruled.remove(cluster);
            return None;
        }
        let entry = AuditEntry {
            at_ms: now.0,
            who: format!("the agent of {cluster}"),
            what: "karpenter-absent".to_owned(),
            scope: FreezeScope::Cluster(cluster.to_string()).key(),
            detail: "agent.karpenter-absent is set: NodeClaims are made whatever shows that a Karpenter is at work"
                .to_owned(),
        };
        self.overruled.insert(cluster.clone()).then_some(Output::Call(Call::Audit(entry)))
    }
}
