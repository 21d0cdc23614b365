//! The taint `karpenter.sh/disrupted` on Nodes that nothing removes (Karpenter: each pass of disruption takes it off such
//! nodes).
//!
//! A Karpenter that ended in the middle of a command leaves it, and anybody may set it. It keeps pods away for as long as
//! it is there, so the agent takes it off; it never leads to a removal.

use crate::Instruction;
use crate::step_view::StepView;
use cluster::{ClaimRecord, NodeRecord};
use model::{NodeName, Text, Timestamp};

/// What the taint means for the Node.
const UNUSABLE: &str = "has the taint karpenter.sh/disrupted, which no drain of this server has set: no pod is placed on it. \
                        The agent takes the taint off; if it comes back, something else sets it";

/// Instructions that take the taint off Nodes that nothing removes. Drains that the previous owner began are resumed
/// first: until then it is not known which Nodes are left.
pub(crate) fn taint_removals(view: &StepView<'_>) -> Vec<Instruction> {
    if !view.is_ready() || view.recovery.is_pending() {
        return Vec::new();
    }
    let may_be_instructed =
        |claim: &ClaimRecord| view.claims.get(&claim.name).is_some_and(|machine| machine.may_be_instructed(view.now));
    let due = disrupted_by_others(view).filter(|(claim, _)| may_be_instructed(claim));
    let removal = |(claim, node): (&ClaimRecord, &NodeRecord)| Instruction::RemoveDisruptedTaint {
        claim: claim.name.clone(),
        node: node.name.clone(),
        provider_id: node.provider_id.clone(),
    };
    due.map(removal).collect()
}

/// When a taint is taken off that was postponed.
pub(crate) fn next_taint_removal(now: Timestamp, view: &StepView<'_>) -> Option<Timestamp> {
    let machines = disrupted_by_others(view).filter_map(|(claim, _)| view.claims.get(&claim.name));
    machines.filter(|machine| machine.waits_for_time(now)).map(|machine| machine.not_before()).min()
}

/// Nodes of this server with a taint that none of its drains has set, by name.
fn disrupted_by_others<'v>(view: &StepView<'v>) -> impl Iterator<Item = (&'v ClaimRecord, &'v NodeRecord)> + use<'v> {
    let view = *view;
    // A Karpenter that is active has taints of its own commands.
    let is_managed = move |claim: &ClaimRecord| {
        claim.ours && view.state.pool(&claim.pool).is_none_or(|pool| view.state.unmanaged_reason(pool).is_none())
    };
    let stays = move |claim: &ClaimRecord| {
        view.claims.get(&claim.name).is_some_and(|machine| machine.termination_reason().is_none())
    };
    view.state.claims_disrupted_by_others().filter(move |(claim, _)| is_managed(claim) && stays(claim))
}

/// Why no pod is placed on the Node although it stays.
pub(crate) fn unusable_reason(node: &NodeRecord, view: &StepView<'_>) -> Option<Text> {
    let name = &node.name;
    disrupted_by_others(view).any(|(_, tainted)| tainted.name == *name).then(|| Text::from(UNUSABLE))
}

/// Nodes on which no pod is placed although they stay, and why.
pub(crate) fn unusable_nodes(view: &StepView<'_>) -> Vec<(NodeName, Text)> {
    disrupted_by_others(view).map(|(_, node)| (node.name.clone(), Text::from(UNUSABLE))).collect()
}
