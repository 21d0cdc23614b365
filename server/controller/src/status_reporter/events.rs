//! Kubernetes Events with Karpenter's reasons, for what has changed since the last pass.

use crate::cluster_controller::{ClusterController, Context};
use crate::disruption::BlockedRepair;
use crate::guardrails::removal::BlockCause;
use crate::nodeclaim::ManagedClaim;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::{Effect, EventReason, Instruction, InstructionId};
use model::interruption::InterruptionKind;
use model::repair_policy::MAX_UNHEALTHY_PERCENT;
use model::{ClaimName, Text};

/// Held removals for which Events are recorded in one pass.
const MAX_WAITING_EVENTS: usize = 5;

impl ClusterController {
    /// Records Events for everything since the last pass; a full one also looks at what nodes are kept by.
    pub(super) fn record_events(&mut self, is_full: bool, ctx: &mut Context<'_>) {
        let mut events = self.machine_events(ctx.settings.class_facts);
        events.extend(self.status_reporter.pending_events.take());
        events.extend(self.replacement_events());
        events.extend(self.drain_events(ctx.now));
        events.extend(self.held_events());
        events.extend(self.waiting_events());
        events.extend(self.inconsistent_events());
        events.extend(self.class_events());
        events.extend(self.decision_events());
        // The last get what the others leave of the rate.
        if is_full && self.status_reporter.periodic_block_events.begin_pass(ctx.now) {
            events.extend(self.pool_events(ctx));
            events.extend(self.node_events(ctx));
        }
        self.emit_events(events, ctx);
    }

    fn emit_events(&mut self, events: Vec<EventOrder>, ctx: &mut Context<'_>) {
        if !self.may_report_status(ctx) {
            return;
        }
        for event in events {
            if self.status_reporter.event_recorder.allow(&event, ctx.now) {
                let id = InstructionId(ctx.next_id());
                let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::RecordEvent(event)));
                ctx.effects.push(Effect::Instruct { cluster, id, instruction });
            }
        }
    }

    /// The decision that removes the machine, as far as this process knows.
    pub(super) fn removal_origin_of(&self, claim: &ClaimName) -> Origin {
        self.claims.get(claim).map(ManagedClaim::removal_origin).unwrap_or_default()
    }

    /// Records what the cloud says about a machine, on its NodeClaim and Node.
    pub(crate) fn record_notice_events(&mut self, claim: &ClaimName, kind: InterruptionKind, ctx: &mut Context<'_>) {
        let reason = EventReason::of_interruption(kind);
        let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, kind.to_string(), Origin::default());
        self.emit_events(event.on_each(ObjectRef::of_machine(&self.state, claim)), ctx);
    }

    /// Records that a machine is removed for what the cloud says.
    pub(crate) fn record_interrupted_event(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        ctx: &mut Context<'_>,
    ) {
        if self.claims.get(claim).is_some_and(|machine| machine.termination_reason().is_some()) {
            let (message, origin) = (format!("the machine is being removed: {kind}"), self.removal_origin_of(claim));
            let reason = EventReason::TerminatingOnInterruption;
            let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin);
            self.emit_events(vec![event], ctx);
        }
    }

    fn held_events(&self) -> Vec<EventOrder> {
        let of_pool = |pool: &model::PoolName, reason, message: String| {
            EventOrder::new(ObjectRef::Pool(pool.clone()), reason, message, Origin::default()).in_series("")
        };
        let blocked = self.status_reporter.blocked_repairs.iter().map(|(pool, blocked)| {
            let BlockedRepair { unhealthy, nodes } = blocked;
            let message = format!(
                "{unhealthy} of {nodes} nodes of this NodePool are unhealthy, more than {MAX_UNHEALTHY_PERCENT} %: none is repaired"
            );
            of_pool(pool, EventReason::NodeRepairBlocked, message)
        });
        let held = self.status_reporter.budget_blocked.iter().map(|(pool, nodes)| {
            let message = format!("disruption budgets or windows keep {nodes} nodes of this NodePool for now");
            of_pool(pool, EventReason::DisruptionBlocked, message)
        });
        blocked.chain(held).collect()
    }

    fn waiting_events(&self) -> Vec<EventOrder> {
        let waiting = self.guardrails.waiting_removals().take(MAX_WAITING_EVENTS);
        let events = waiting.map(|(cause, claim, held)| {
            let reason = match cause {
                BlockCause::Foreign => EventReason::ForeignInstance,
                BlockCause::ByHand | BlockCause::NodeVanished | BlockCause::Missing | BlockCause::Unconfirmed => {
                    EventReason::RemovalHeld
                }
            };
            let message =
                format!("the removal of the machine waits {}: {}", held.refusal.release(&self.cluster), held.refusal);
            let origin = self.removal_origin_of(claim);
            EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin).in_series("")
        });
        events.collect()
    }

    fn inconsistent_events(&mut self) -> Vec<EventOrder> {
        let failed = self.status_reporter.consistency.take_failed();
        let event = |(claim, why): (ClaimName, Text)| {
            let origin = self.claims.get(&claim).map(ManagedClaim::launch_origin).unwrap_or_default();
            EventOrder::new(ObjectRef::Claim(claim), EventReason::FailedConsistencyCheck, why.to_string(), origin)
        };
        failed.into_iter().map(event).collect()
    }

    fn class_events(&self) -> Vec<EventOrder> {
        let going = self
            .state
            .classes()
            .filter(|class| class.deleting && class.has_finalizer && !self.state.is_karpenter_active());
        let waiting = going.filter_map(|class| {
            let claims: Vec<&ClaimName> =
                self.state.claims().filter(|c| c.node_class == class.name).map(|c| &c.name).collect();
            let first = claims.first()?;
            let message = format!("waits for {} NodeClaims to end, {first} among them", claims.len());
            let (subject, reason) = (ObjectRef::Class(class.name.clone()), EventReason::WaitingOnNodeClaimTermination);
            Some(EventOrder::new(subject, reason, message, Origin::default()).in_series(""))
        });
        waiting.collect()
    }
}
