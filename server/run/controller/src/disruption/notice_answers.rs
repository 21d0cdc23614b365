//! What follows from the cloud's answers about notices that were not believed.

use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::removal::{BlockCause, RemovalRefusal};
use crate::{Effect, Finding, NoticeAnswer};
use model::interruption::InterruptionKind;
use model::{ClaimName, Millis, ProviderId};

/// Time until the cloud is asked again about a notice that it has not confirmed.
const AGAIN: Millis = Millis::from_secs(15);
/// How long a notice waits: it is not handed to the next owner of the cluster for longer either.
const DROPPED_AFTER: Millis = Millis::from_mins(15);
/// A question without an answer is asked again after this time.
const ANSWER_TIMEOUT: Millis = Millis::from_secs(30);
/// Most instances of one question (EC2: values of a filter).
const MOST_AT_ONCE: usize = 200;

impl ClusterController {
    /// Follows notices that an operator has confirmed, and asks the cloud about those that are due.
    pub(crate) fn ask_about_notices(&mut self, ctx: &mut Context<'_>) {
        if self.disruption.notices.awaited.is_empty() {
            return;
        }
        let claims = &self.claims;
        self.disruption.notices.awaited.retain(|(claim, _), _| claims.contains(claim));
        self.guardrails.retain_waiting_removals(BlockCause::Unconfirmed, |claim| claims.contains(claim));
        let is_confirmed = |claim: &ClaimName| claims.get(claim).is_some_and(|machine| machine.is_removal_confirmed());
        let confirmed: Vec<_> =
            self.disruption.notices.awaited.keys().filter(|(claim, _)| is_confirmed(claim)).cloned().collect();
        for (claim, kind) in confirmed {
            self.end_wait(&claim, kind, true, ctx);
        }
        if self.disruption.notices.asked_until.is_some_and(|until| ctx.now < until) {
            return;
        }
        let due =
            self.disruption.notices.awaited.iter().filter(|(_, notice)| notice.ask_at <= ctx.now).take(MOST_AT_ONCE);
        let asked = due.filter_map(|((claim, kind), _)| Some((self.claims.get(claim)?.provider_id().clone(), *kind)));
        let notices: Vec<(ProviderId, InterruptionKind)> = asked.collect();
        self.disruption.notices.asked_until = (!notices.is_empty()).then_some(ctx.now + ANSWER_TIMEOUT);
        if !notices.is_empty() {
            ctx.effects.push(Effect::ConfirmNotices { cluster: self.cluster.clone(), notices });
        }
    }

    /// Handles the cloud's answer about `asked`.
    pub(crate) fn handle_notice_answer(
        &mut self,
        asked: &[(ProviderId, InterruptionKind)],
        answer: &NoticeAnswer,
        ctx: &mut Context<'_>,
    ) {
        self.disruption.notices.asked_until = None;
        for (provider_id, kind) in asked {
            let Some(claim) = self.claims.name_of_instance(provider_id) else { continue };
            if answer.confirms(provider_id, *kind) {
                self.end_wait(&claim, *kind, true, ctx);
            } else {
                self.keep_waiting(&claim, *kind, ctx);
            }
        }
    }

    fn keep_waiting(&mut self, claim: &ClaimName, kind: InterruptionKind, ctx: &mut Context<'_>) {
        let Some(notice) = self.disruption.notices.awaited.get_mut(&(claim.clone(), kind)) else { return };
        if ctx.now.duration_since(notice.since) >= DROPPED_AFTER {
            ctx.report_finding(Finding::NoticeDropped { claim: claim.clone(), kind });
            return self.end_wait(claim, kind, false, ctx);
        }
        notice.ask_at = ctx.now + AGAIN;
        let refusal = RemovalRefusal::NoticeUnconfirmed { kind };
        self.guardrails.block_removal(BlockCause::Unconfirmed, claim, refusal, ctx.now);
    }

    fn end_wait(&mut self, claim: &ClaimName, kind: InterruptionKind, is_followed: bool, ctx: &mut Context<'_>) {
        let Some(notice) = self.disruption.notices.awaited.remove(&(claim.clone(), kind)) else { return };
        self.guardrails.release_removal(BlockCause::Unconfirmed, claim);
        if is_followed {
            self.follow_notice(claim, kind, notice.ends, ctx);
        }
    }
}
