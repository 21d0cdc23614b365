//! Which nodes may be removed at all.

use std::collections::{BTreeMap, BTreeSet};

use model::disruption_policy::DisruptionReason;
use model::removal::{NodeRemoval, RemovalInput, RemovalNode, RemovalPlan, RemovalReason};
use model::{ClaimName, NodeStage};

use super::violation::{RemovalFindings, RemovalRule};

/// A removal and the node that it removes.
#[derive(Clone, Copy)]
pub(super) struct Removed<'a> {
    pub(super) removal: &'a NodeRemoval,
    pub(super) node: &'a RemovalNode,
}

impl Removed<'_> {
    /// The reason as budgets name it; `None` for a forceful one.
    pub(super) fn voluntary_reason(self) -> Option<DisruptionReason> {
        self.removal.reason.disruption_reason()
    }

    /// Whether neither PodDisruptionBudgets nor do-not-disrupt on pods hold the node.
    pub(super) fn ignores_pod_protection(self) -> bool {
        let eventual = self.removal.reason == RemovalReason::Drifted && self.removal.deadline.is_some();
        self.voluntary_reason().is_none() || eventual
    }
}

/// The removals of known nodes in the order in which they are judged.
pub(super) fn collect<'a>(
    input: &'a RemovalInput,
    plan: &'a RemovalPlan,
    findings: &mut RemovalFindings,
) -> Vec<Removed<'a>> {
    let nodes: BTreeMap<&ClaimName, &RemovalNode> = input.nodes.iter().map(|node| (&node.claim, node)).collect();
    let mut seen: BTreeSet<&ClaimName> = BTreeSet::new();
    let mut removals = Vec::with_capacity(plan.removals.len());
    for removal in &plan.removals {
        let Some(node) = nodes.get(&removal.claim) else {
            findings.report_unknown(&removal.claim);
            continue;
        };
        if !node.ours {
            findings.report(RemovalRule::Unmanaged, node, "the NodeClaim is not of this server".to_owned());
        } else if !seen.insert(&removal.claim) {
            findings.report(RemovalRule::Terminating, node, "the node is removed twice".to_owned());
        } else {
            let removed = Removed { removal, node };
            check_candidate(input, removed, findings);
            removals.push(removed);
        }
    }
    removals.sort_by_key(|removed| removed.removal.reason);
    removals
}

/// Rules for voluntary removals of one node.
fn check_candidate(input: &RemovalInput, removed: Removed<'_>, findings: &mut RemovalFindings) {
    let Removed { node, removal: NodeRemoval { reason, .. } } = removed;
    if removed.voluntary_reason().is_none() {
        return;
    }
    match node.stage {
        NodeStage::Initialized => {}
        NodeStage::Deleting => {
            let message = format!("the node is being deleted, and {reason} is no reason to remove it again");
            findings.report(RemovalRule::Terminating, node, message);
        }
        NodeStage::InFlight | NodeStage::Registered => {
            let message = format!("the node is not initialized, and {reason} removes initialized nodes only");
            findings.report(RemovalRule::NotInitialized, node, message);
        }
    }
    if !input.pools.iter().any(|pool| pool.name == node.pool) {
        let message = format!("NodePool {:?} is not managed by this server", node.pool.as_ref());
        findings.report(RemovalRule::Unmanaged, node, message);
    }
}
