//! Kubernetes Events with Karpenter's reasons, for what has changed since the last pass.

use super::StatusReporter;
use super::machine_events::{drain_events, replacement_events};
use super::pool_events::pool_events;
use crate::EventReason;
use crate::context::Context;
use crate::disruption::BlockedRepair;
use crate::guardrails::removal::BlockCause;
use crate::nodeclaim::ManagedClaim;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::step_view::StepView;
use cluster::ClusterState;
use model::repair_policy::MAX_UNHEALTHY_PERCENT;
use model::{ClaimName, Text};

/// Held removals for which Events are recorded in one pass.
const MAX_WAITING_EVENTS: usize = 5;

impl StatusReporter {
    /// The Events of everything since the last pass, as far as the rate allows them. A full pass also looks at what nodes are
    /// kept by.
    pub(super) fn due_events(&mut self, is_full: bool, view: &StepView<'_>, ctx: &Context<'_>) -> Vec<EventOrder> {
        let mut events = self.machine_events(view);
        events.extend(self.pending_events.take());
        events.extend(replacement_events(view));
        events.extend(drain_events(view));
        events.extend(self.held_events());
        events.extend(waiting_events(view));
        events.extend(self.inconsistent_events(view));
        events.extend(class_events(view.state));
        events.extend(self.decision_events(view));
        // The last get what the others leave of the rate.
        if is_full && self.periodic_block_events.begin_pass(view.now) {
            events.extend(pool_events(view));
            events.extend(self.node_events(view, ctx));
        }
        events.retain(|event| self.event_recorder.allow(event, view.now));
        events
    }

    fn held_events(&self) -> Vec<EventOrder> {
        let of_pool = |pool: &model::PoolName, reason, message: String| {
            EventOrder::new(ObjectRef::Pool(pool.clone()), reason, message, Origin::default()).in_series("")
        };
        let blocked = self.blocked_repairs.iter().map(|(pool, blocked)| {
            let BlockedRepair { unhealthy, nodes } = blocked;
            let message = format!(
                "{unhealthy} of {nodes} nodes of this NodePool are unhealthy, more than {MAX_UNHEALTHY_PERCENT} %: none is repaired"
            );
            of_pool(pool, EventReason::NodeRepairBlocked, message)
        });
        let held = self.budget_blocked.iter().map(|(pool, nodes)| {
            let message = format!("disruption budgets or windows keep {nodes} nodes of this NodePool for now");
            of_pool(pool, EventReason::DisruptionBlocked, message)
        });
        blocked.chain(held).collect()
    }

    fn inconsistent_events(&mut self, view: &StepView<'_>) -> Vec<EventOrder> {
        let failed = self.consistency.take_failed();
        let event = |(claim, why): (ClaimName, Text)| {
            let origin = view.claims.get(&claim).map(ManagedClaim::launch_origin).unwrap_or_default();
            EventOrder::new(ObjectRef::Claim(claim), EventReason::FailedConsistencyCheck, why.to_string(), origin)
        };
        failed.into_iter().map(event).collect()
    }
}

fn waiting_events(view: &StepView<'_>) -> Vec<EventOrder> {
    let waiting = view.guardrails.waiting_removals().take(MAX_WAITING_EVENTS);
    let events = waiting.map(|(cause, claim, held)| {
        let reason = match cause {
            BlockCause::Foreign => EventReason::ForeignInstance,
            BlockCause::ByHand | BlockCause::NodeVanished | BlockCause::Missing | BlockCause::Unconfirmed => {
                EventReason::RemovalHeld
            }
        };
        let message =
            format!("the removal of the machine waits {}: {}", held.refusal.release(view.cluster), held.refusal);
        let origin = view.removal_origin_of(claim);
        EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin).in_series("")
    });
    events.collect()
}

fn class_events(state: &ClusterState) -> Vec<EventOrder> {
    let going = state.classes().filter(|class| class.deleting && class.has_finalizer && !state.is_karpenter_active());
    let waiting = going.filter_map(|class| {
        let claims: Vec<&ClaimName> = state.claims().filter(|c| c.node_class == class.name).map(|c| &c.name).collect();
        let first = claims.first()?;
        let message = format!("waits for {} NodeClaims to end, {first} among them", claims.len());
        let (subject, reason) = (ObjectRef::Class(class.name.clone()), EventReason::WaitingOnNodeClaimTermination);
        Some(EventOrder::new(subject, reason, message, Origin::default()).in_series(""))
    });
    waiting.collect()
}
