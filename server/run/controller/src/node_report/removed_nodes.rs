//! The last nodes that went, for reports. Decisions in the log are the durable part of it.

use std::collections::VecDeque;

use crate::nodeclaim::ManagedClaim;
use model::{ClaimName, NodeName, Text, Timestamp};

/// Number of nodes that are kept.
const KEPT: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedNode {
    pub node: NodeName,
    pub claim: ClaimName,
    /// When the cluster did not show it any more, or this server deleted it.
    pub at: Timestamp,
    /// Why this server removed it; `None` if something else deleted its Node, NodeClaim or instance.
    pub reason: Option<Text>,
    /// What something else did that this server finished: it drained the Node, or terminated the instance.
    pub external_reason: Option<Text>,
}

/// The last nodes that went, latest first.
#[derive(Debug, Default)]
pub(crate) struct RemovedNodes(VecDeque<RemovedNode>);

impl RemovedNodes {
    /// Records that the cluster does not show `node` of `machine` any more, or that this server deletes it.
    pub fn record(&mut self, node: NodeName, machine: &ManagedClaim, now: Timestamp) {
        let text = |is_external: bool| {
            let reason = machine.termination_reason().filter(|reason| reason.is_external() == is_external);
            reason.map(|reason| Text::from(reason.to_string()))
        };
        let (reason, external_reason) = (text(false), text(true));
        self.0.retain(|known| known.node != node);
        self.0.push_front(RemovedNode { node, claim: machine.name().clone(), at: now, reason, external_reason });
        self.0.truncate(KEPT);
    }

    /// The node of this name, or of the NodeClaim of this name.
    pub fn get(&self, name: &str) -> Option<&RemovedNode> {
        self.0.iter().find(|removed| removed.node.as_ref() == name || removed.claim.as_ref() == name)
    }
}
