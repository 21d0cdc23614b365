//! Events that state what keeps nodes, on their Nodes, NodeClaims and pods.

use super::StatusReporter;
use crate::EventReason;
use crate::context::Context;
use crate::node_report::{NodeBlocks, Verdict, blocks_of_nodes};
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::step_view::StepView;
use cluster::{DoNotDisrupt, PodRecord};
use model::disruption_plan::{Block, BlockCode};
use model::removal::RemovalReason;
use model::{ClaimName, Millis, Timestamp};

/// How long it is said that the protection of a pod has ended.
const ELAPSED_FOR: Millis = Millis::from_mins(15);

impl StatusReporter {
    /// What keeps the next few nodes.
    pub(super) fn node_events(&mut self, view: &StepView<'_>, ctx: &Context<'_>) -> Vec<EventOrder> {
        let nodes = self.periodic_block_events.next_nodes(view.state);
        let mut events = Vec::new();
        for NodeBlocks { claim, consolidates, verdicts } in blocks_of_nodes(&nodes, view, ctx) {
            let price = view.claims.price_of(&claim);
            events.extend(kept_events(&claim, consolidates, &verdicts, Origin { decision: None, price }, view));
        }
        let pods = nodes.iter().flat_map(|node| view.state.pods_on(&node.name));
        events.extend(pods.filter_map(|pod| protection_event(pod, view.now)));
        events
    }
}

fn kept_events(
    claim: &ClaimName,
    consolidates: bool,
    verdicts: &[Verdict],
    origin: Origin,
    view: &StepView<'_>,
) -> Vec<EventOrder> {
    let due = || verdicts.iter().filter(|verdict| !waits_for_repair(verdict));
    let blocks = || due().flat_map(|verdict| verdict.by.iter().map(move |block| (verdict.reason, block)));
    let reasons = [EventReason::NodeRepairBlocked, EventReason::DisruptionBlocked, EventReason::Unconsolidatable];
    let found = reasons.into_iter().filter_map(|reason| {
        let is_it = |(why, block): &(RemovalReason, &Block)| stated_by(*why, block, consolidates) == Some(reason);
        let (_, block) = blocks().find(is_it)?;
        let message = format!("{} {}", block.object, block.message);
        let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin);
        Some(event.in_series(format!("{} {}", block.code.as_str(), block.object)))
    });
    found.flat_map(|event| event.on_each(ObjectRef::of_machine(view.state, claim))).collect()
}

/// Whether the node is unhealthy and repairs are off, or its time has not come.
fn waits_for_repair(verdict: &Verdict) -> bool {
    is_repair(verdict.reason) && verdict.by.iter().any(|block| block.code == BlockCode::Policy)
}

fn is_repair(reason: RemovalReason) -> bool {
    matches!(reason, RemovalReason::Unhealthy | RemovalReason::Repaired)
}

/// The Event that says what `block` keeps a node from; `None` for what passes by itself, concerns the whole NodePool or
/// cluster, or has an Event of its own.
fn stated_by(reason: RemovalReason, block: &Block, consolidates: bool) -> Option<EventReason> {
    match block.code {
        BlockCode::Guardrail if is_repair(reason) => Some(EventReason::NodeRepairBlocked),
        BlockCode::PodDisruptionBudget
        | BlockCode::DoNotDisrupt
        | BlockCode::Nominated
        | BlockCode::PendingPods
        | BlockCode::Frozen
        | BlockCode::Guardrail
        | BlockCode::BackOff
        | BlockCode::RecentlyMoved
        | BlockCode::OtherScheduler
        | BlockCode::LocalVolume
        | BlockCode::SafeToEvict
        | BlockCode::NoOwner => Some(EventReason::DisruptionBlocked),
        BlockCode::ConsolidateAfter if !consolidates => Some(EventReason::Unconsolidatable),
        BlockCode::Policy
        | BlockCode::NoCapacity
        | BlockCode::NoSavings
        | BlockCode::MinValues
        | BlockCode::SpotFlexibility
        | BlockCode::Static => Some(EventReason::Unconsolidatable),
        BlockCode::Budget
        | BlockCode::ConsolidateAfter
        | BlockCode::Deleting
        | BlockCode::NotInitialized
        | BlockCode::NotSynced
        | BlockCode::NotManaged
        | BlockCode::Shadow
        | BlockCode::Replacing
        | BlockCode::NotPlanned => None,
    }
}

/// What `karpenter.sh/do-not-disrupt` of a pod says about its node.
fn protection_event(pod: &PodRecord, now: Timestamp) -> Option<EventOrder> {
    if pod.is_terminal() || pod.terminating {
        return None;
    }
    let event = |reason, message: String| Some(EventOrder::of_pod(pod, reason, message, Origin::default()));
    if pod.has_invalid_protection {
        let message = "karpenter.sh/do-not-disrupt protects nothing: its value is neither true nor a positive duration";
        return event(EventReason::InvalidDoNotDisruptAnnotation, message.to_owned());
    }
    let Some(DoNotDisrupt::For(_)) = pod.do_not_disrupt else { return None };
    let end = pod.protection_end()?;
    if end > now {
        event(EventReason::DoNotDisruptUntil, format!("protects its node from voluntary disruption until {end}"))
    } else if now.duration_since(end) < ELAPSED_FOR {
        let message = format!("its protection of its node from voluntary disruption has ended at {end}");
        event(EventReason::DoNotDisruptGracePeriodElapsed, message)
    } else {
        None
    }
}
