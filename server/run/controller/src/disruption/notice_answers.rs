//! What follows from the cloud's answers about notices that were not believed.

use super::notices::Notices;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::removal::{BlockCause, RemovalRefusal};
use crate::nodeclaim::NodeClaims;
use crate::{ClusterCall, Finding, NoticeAnswer};
use model::interruption::InterruptionKind;
use model::{ClaimName, Millis, ProviderId, Timestamp};

/// Time until the cloud is asked again about a notice that it has not confirmed.
const AGAIN: Millis = Millis::from_secs(15);
/// How long a notice waits: it is not handed to the next owner of the cluster for longer either.
const DROPPED_AFTER: Millis = Millis::from_mins(15);
/// A question without an answer is asked again after this time.
const ANSWER_TIMEOUT: Millis = Millis::from_secs(30);
/// Most instances of one question (EC2: values of a filter).
const MOST_AT_ONCE: usize = 200;

/// What follows for other parts from notices that waited for the cloud's answer.
#[derive(Debug, Default)]
pub(crate) struct NoticeOutcomes {
    /// Machines whose removal waits no longer for an answer.
    released: Vec<ClaimName>,
    /// Notices that are followed, and when the instance ends if the cloud has set a time.
    followed: Vec<(ClaimName, InterruptionKind, Option<Timestamp>)>,
    /// Notices that the cloud does not confirm.
    unconfirmed: Vec<(ClaimName, InterruptionKind)>,
}

impl Notices {
    /// Follows notices that an operator has confirmed, and asks the cloud about those that are due.
    pub(crate) fn ask(&mut self, claims: &NodeClaims, ctx: &mut Context<'_>) -> NoticeOutcomes {
        let mut outcomes = NoticeOutcomes::default();
        self.awaited.retain(|(claim, _), _| claims.contains(claim));
        let is_confirmed = |claim: &ClaimName| claims.get(claim).is_some_and(|machine| machine.is_removal_confirmed());
        let confirmed: Vec<_> = self.awaited.keys().filter(|(claim, _)| is_confirmed(claim)).cloned().collect();
        for (claim, kind) in confirmed {
            self.end_wait(&claim, kind, true, &mut outcomes);
        }
        if self.asked_until.is_some_and(|until| ctx.now < until) {
            return outcomes;
        }
        let due = self.awaited.iter().filter(|(_, notice)| notice.ask_at <= ctx.now).take(MOST_AT_ONCE);
        let asked = due.filter_map(|((claim, kind), _)| Some((claims.get(claim)?.provider_id().clone(), *kind)));
        let notices: Vec<(ProviderId, InterruptionKind)> = asked.collect();
        self.asked_until = (!notices.is_empty()).then_some(ctx.now + ANSWER_TIMEOUT);
        if !notices.is_empty() {
            ctx.call(ClusterCall::ConfirmNotices(notices));
        }
        outcomes
    }

    /// Handles the cloud's answer about `asked`.
    pub(crate) fn handle_answer(
        &mut self,
        asked: &[(ProviderId, InterruptionKind)],
        answer: &NoticeAnswer,
        claims: &NodeClaims,
        ctx: &mut Context<'_>,
    ) -> NoticeOutcomes {
        let mut outcomes = NoticeOutcomes::default();
        self.asked_until = None;
        for (provider_id, kind) in asked {
            let Some(claim) = claims.name_of_instance(provider_id) else { continue };
            if answer.confirms(provider_id, *kind) {
                self.end_wait(&claim, *kind, true, &mut outcomes);
                continue;
            }
            let Some(notice) = self.awaited.get_mut(&(claim.clone(), *kind)) else { continue };
            if ctx.now.duration_since(notice.since) >= DROPPED_AFTER {
                ctx.report_finding(Finding::NoticeDropped { claim: claim.clone(), kind: *kind });
                self.end_wait(&claim, *kind, false, &mut outcomes);
            } else {
                notice.ask_at = ctx.now + AGAIN;
                outcomes.unconfirmed.push((claim, *kind));
            }
        }
        outcomes
    }

    fn end_wait(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        is_followed: bool,
        outcomes: &mut NoticeOutcomes,
    ) {
        let Some(notice) = self.awaited.remove(&(claim.clone(), kind)) else { return };
        outcomes.released.push(claim.clone());
        if is_followed {
            outcomes.followed.push((claim.clone(), kind, notice.ends));
        }
    }
}

impl ClusterController {
    /// Has removals wait or follow as the cloud or an operator has answered.
    pub(crate) fn apply_notice_outcomes(&mut self, outcomes: NoticeOutcomes, ctx: &mut Context<'_>) {
        for claim in &outcomes.released {
            self.guardrails.release_removal(BlockCause::Unconfirmed, claim);
        }
        for (claim, kind) in outcomes.unconfirmed {
            let refusal = RemovalRefusal::NoticeUnconfirmed { kind };
            self.guardrails.block_removal(BlockCause::Unconfirmed, &claim, refusal, ctx.now);
        }
        for (claim, kind, ends) in outcomes.followed {
            self.follow_notice(&claim, kind, ends, ctx);
        }
    }
}
