//! The provisioner: which pods are planned, and when.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::batch::BatchWindow;
use super::demand_cursor::DemandCursor;
use super::pending_plan::PendingPlan;
use super::window_search::WindowSearch;
use super::{LaunchView, PlanAnswer, PlanNumber, PlanRequest, Planned};
use crate::guardrails::BackedOffPods;
use crate::provisioning::InterruptedOwners;
use crate::search_allowance::UnusedSearch;
use crate::{DecisionAnswer, DecisionInput, Settings, UnplacedPod};
use cluster::ClusterState;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, ReasonCode, Unschedulable};
use model::{ClaimName, ClusterName, PodKey, Timestamp};

/// After a plan that left pods unplaced, they are planned again after this multiple of the time
/// that the plan took.
const PAUSE_FACTOR: i64 = 4;

/// Plans the pending pods of one cluster. At most one plan is in progress.
#[derive(Debug, Default)]
pub(crate) struct Provisioner {
    window: BatchWindow,
    /// Position in the demand: which pods the next plan takes.
    demand_cursor: DemandCursor,
    pending_plan: Option<(PlanNumber, PendingPlan)>,
    /// The search for a cheaper plan in the window.
    search: WindowSearch,
    /// Owners of pods on machines that the cloud interrupted lately.
    pub(crate) interrupted_owners: InterruptedOwners,
    /// When unplaced pods are planned again.
    retry_at: Option<Timestamp>,
    /// When the next pod held for Cluster Autoscaler is planned.
    next_hold_expiry: Option<Timestamp>,
    /// Unplaced pods with their reasons, for each plan of a planning round.
    last_unplaced: Vec<Vec<UnplacedPod>>,
    /// Why the last plan, NodeClaim creation or launch failed, until a plan succeeds.
    last_error: Option<String>,
}

/// The input of a due plan, from which guardrails may exclude pods and NodePools.
#[derive(Debug)]
pub(crate) struct PlanDraft {
    input: PlanningInput,
    /// Pods for which guardrails have no machine launched.
    backed_off: BackedOffPods,
    due: Timestamp,
    opened: Option<Timestamp>,
    has_fixed_pools: bool,
}

/// A plan without the parts that do not hold any more.
#[derive(Debug)]
pub(crate) struct ArrivedPlan {
    /// The request, with the complete plan.
    pub basis: DecisionInput,
    pub plan: Plan,
    pub report: PlanReport,
    /// Pods without a node, and why.
    pub unplaced: Vec<UnplacedPod>,
    /// NodeClaims whose drain waits for the plan.
    pub drains: Vec<ClaimName>,
    /// When the plan was due.
    pub due: Timestamp,
    /// Version of the cluster state in the request.
    pub version: u64,
}

impl PlanDraft {
    /// The input, from which guardrails exclude pods and NodePools.
    pub fn input_mut(&mut self) -> &mut PlanningInput {
        &mut self.input
    }

    /// Records the pods for which guardrails have no machine launched.
    pub fn hold_pods(&mut self, backed_off: BackedOffPods) {
        self.backed_off = backed_off;
    }

    /// Whether a plan would change nothing.
    pub fn is_empty(&self) -> bool {
        self.input.pods.is_empty() && !self.has_fixed_pools
    }
}

impl Provisioner {
    /// The pod has changed: it is planned if it needs a node.
    pub fn add_pending_pod(&mut self, key: &PodKey, state: &ClusterState, now: Timestamp) {
        if let Some(pod) = state.pod(key).filter(|pod| state.is_demand(pod, now)) {
            self.window.add_pod(&pod.uid, now);
        }
    }

    /// A snapshot was accepted: every pod that needs a node is planned.
    pub fn add_all_pending_pods(&mut self, state: &ClusterState, now: Timestamp) {
        for pod in state.demand(now) {
            self.window.add_pod(&pod.uid, now);
        }
        self.window.extend(now);
    }

    /// Plans the pods whose hold after an external scale-up has ended.
    pub fn plan_released_pods(&mut self, state: &ClusterState, now: Timestamp) {
        if self.next_hold_expiry.is_some_and(|until| until <= now) {
            self.window.extend(now);
        }
        self.next_hold_expiry = state.next_hold_expiry(now);
    }

    /// Capacity that pods use, or are assigned to, is given up or lost: they are planned again.
    pub fn replan_displaced_pods(&mut self, now: Timestamp) {
        self.window.extend(now);
    }

    /// A Node that was to be removed stays: its capacity is planned with again.
    pub fn plan_with_kept_node(&mut self, now: Timestamp) {
        self.window.extend(now);
    }

    /// A NodePool, a DaemonSet or another autoscaler has changed: unplaced pods may fit now.
    pub fn replan_for_changed_objects(&mut self, now: Timestamp) {
        self.window.extend(now);
    }

    /// The limits of the fleet have changed: pods that they held back may be planned now.
    pub fn replan_for_changed_limits(&mut self, now: Timestamp) {
        self.window.extend(now);
    }

    /// Offerings may be probed: unplaced pods are planned with them. An open window closes as before.
    pub fn plan_with_probes(&mut self, settings: &Settings, now: Timestamp) {
        if self.window_closes_at(settings).is_none() {
            self.window.extend(now);
        }
    }

    /// Plans at `at` or earlier, when a hold of launches ends.
    pub fn schedule_retry(&mut self, at: Timestamp) {
        self.retry_at = Some(self.retry_at.map_or(at, |retry| retry.min(at)));
    }

    /// Records why a NodeClaim was not created or launched; its pods are planned again at
    /// `retry_at`.
    pub fn record_failed_launch(&mut self, error: String, retry_at: Timestamp) {
        self.last_error = Some(error);
        self.retry_at = Some(retry_at);
    }
}

/// From a due plan to its answer.
impl Provisioner {
    /// When the next plan is due; `None` while one is in progress.
    pub fn next_plan_at(&self, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
        if self.pending_plan.is_some() {
            return None;
        }
        let closed = self.window.closes_at(settings.batch_idle, settings.batch_max);
        let rest = self.demand_cursor.has_more().then_some(now);
        closed.into_iter().chain(self.retry_at).chain(rest).min()
    }

    /// Takes the pods of a plan that was due at `due`: the batch window has closed, unplaced pods
    /// have waited long enough, or the last plan left pods for the next. `None` if there is nothing
    /// to plan; `has_backed_off_pods` keeps pods in launch backoff planned, so that their wait is
    /// scheduled.
    pub fn draft_plan(
        &mut self,
        due: Timestamp,
        state: &ClusterState,
        has_backed_off_pods: bool,
        settings: &Settings,
        now: Timestamp,
    ) -> Option<PlanDraft> {
        let mut opened = None;
        // Within a round the window stays open: new pods may rank before pods already planned, so
        // they join the next round.
        if !self.demand_cursor.has_more() {
            opened = self.window.close();
            self.retry_at = None;
        }
        let has_fixed_pools = state.pools().any(|pool| pool.pool.replicas.is_some());
        let demand = state.demand(now);
        // Building an input covers every pod, and mostly there is nothing to plan.
        if !has_fixed_pools && !has_backed_off_pods && demand.is_empty() {
            self.demand_cursor = DemandCursor::default();
            return None;
        }
        let taken = self.demand_cursor.take_pods(demand, settings.plan_pods);
        let input = state.provisioning_input_for(taken, &settings.policy, now);
        Some(PlanDraft { input, backed_off: BackedOffPods::default(), due, opened, has_fixed_pools })
    }

    /// The request for a draft, which is in progress from now on. `drains` are NodeClaims whose
    /// drain waits for it.
    pub fn request_plan(
        &mut self,
        draft: PlanDraft,
        number: PlanNumber,
        cluster: ClusterName,
        drains: Vec<ClaimName>,
        state: &ClusterState,
        now: Timestamp,
    ) -> PlanRequest {
        let PlanDraft { input, backed_off, due, opened, .. } = draft;
        let pending = PendingPlan::of(state, &input, (due, opened), backed_off, drains, now);
        self.pending_plan = Some((number, pending));
        PlanRequest { number, cluster, input, disruption: None }
    }

    /// Takes the answer to the request in progress. Parts whose assumptions do not hold any more
    /// are dropped and planned again, and so is the whole plan while the state is not synced:
    /// assumptions cannot be checked then. `None` if there is nothing to carry out.
    pub fn take_answer(
        &mut self,
        answer: PlanAnswer,
        is_ready: bool,
        settings: &Settings,
        view: &LaunchView<'_>,
    ) -> Option<ArrivedPlan> {
        let PlanAnswer { request: PlanRequest { number, input, .. }, outcome, .. } = answer;
        // The answer to an earlier request is outdated.
        let (_, pending) = self.pending_plan.take_if(|(expected, _)| *expected == number)?;
        if !is_ready {
            self.window.extend(view.now);
            return None;
        }
        let retry_at = retry_time(pending.since(), settings, view.now);
        let (mut plan, mut report) = match outcome {
            Ok(Planned::Pods(planned)) => *planned,
            // The answer to another kind of request.
            Ok(Planned::Disruption(_)) => return None,
            Err(error) => {
                self.last_error = Some(error.to_string());
                self.retry_at = Some(retry_at);
                return None;
            }
        };
        self.last_error = None;
        let answer = DecisionAnswer::Pods(Box::new((plan.clone(), report.clone())));
        let basis = DecisionInput { opened: pending.opened(), input, answer };
        if pending.drop_outdated_parts(&basis.input, (&mut plan, &mut report), view) {
            self.window.extend(view.now);
        }
        let (BackedOffPods { held, deferred }, drains, due, version) = pending.into_parts();
        self.demand_cursor.defer_unreached(unreached_pods(&basis.input, &report).into_iter().chain(deferred).collect());
        if !plan.unschedulable.is_empty() {
            self.schedule_retry(retry_at);
        }
        report.notes.extend(search_note(&report));
        report.notes.extend(self.remaining_pods_note(basis.input.pods.len(), settings.plan_pods));
        let unplaced = unplaced_pods(&basis.input, &plan, &report, held);
        Some(ArrivedPlan { basis, plan, report, unplaced, drains, due, version })
    }

    /// Records what the last plan of a round left unplaced; returns whether that is what it left in
    /// the previous round.
    pub fn record_unplaced(&mut self, unplaced: &[UnplacedPod]) -> bool {
        let index = self.demand_cursor.plan_index();
        self.last_unplaced.truncate(index + 1);
        self.last_unplaced.resize(index + 1, Vec::new());
        let before = std::mem::replace(&mut self.last_unplaced[index], unplaced.to_vec());
        before == unplaced
    }

    /// Note that a plan of `taken` pods does not cover all pending pods.
    fn remaining_pods_note(&self, taken: usize, most: usize) -> Option<String> {
        let left = self.demand_cursor.remaining();
        (left > 0).then(|| {
            format!(
                "{left} more pods are pending: a plan takes at most {most} pods (this one {taken}); the next plan \
                 follows"
            )
        })
    }
}

/// The search for a cheaper plan while the window is open.
impl Provisioner {
    /// When the next search is due; `None` while a plan is in progress or pods are left of the last
    /// one, which the window does not delay.
    pub fn next_search_at(&self, settings: &Settings) -> Option<Timestamp> {
        let is_idle = self.pending_plan.is_none() && !self.demand_cursor.has_more();
        self.search.next_at(&self.window, settings).filter(|_| is_idle)
    }

    /// Whether a batch window is open or a plan is due.
    pub fn is_plan_expected(&self, settings: &Settings, now: Timestamp) -> bool {
        self.window_closes_at(settings).is_some() || self.next_plan_at(settings, now).is_some_and(|due| due <= now)
    }

    /// When the window closes; `None` while it is not open.
    pub fn window_closes_at(&self, settings: &Settings) -> Option<Timestamp> {
        self.window.closes_at(settings.batch_idle, settings.batch_max)
    }

    /// The input of the plan that is due when the window closes, if nothing changes until then;
    /// `None` without pods.
    pub fn draft_search(&self, state: &ClusterState, settings: &Settings, now: Timestamp) -> Option<PlanningInput> {
        let demand = state.demand(now);
        if demand.is_empty() {
            return None;
        }
        let taken = self.demand_cursor.clone().take_pods(demand, settings.plan_pods);
        Some(state.provisioning_input_for(taken, &settings.policy, now))
    }

    /// Records that a search is requested, or skipped, for the pods of the window. Returns why an
    /// earlier search of the window is not used.
    pub fn attempt_search(&mut self, requested: Option<PlanNumber>) -> Option<UnusedSearch> {
        self.search.attempt(&self.window, requested)
    }

    /// Keeps the answer to the search in progress; returns any other one.
    pub fn keep_search(&mut self, answer: PlanAnswer) -> Option<PlanAnswer> {
        self.search.keep_answer(answer)
    }

    /// Ends the search of the window for the plan that is due with `input`: its plan, or why it is
    /// not used; `None` if there was no search.
    pub fn finish_search(&mut self, input: &PlanningInput) -> Option<Result<PlanAnswer, UnusedSearch>> {
        self.search.finish(input)
    }
}

/// What other parts and the view read.
impl Provisioner {
    /// Whether a plan is in progress.
    pub fn is_planning(&self) -> bool {
        self.pending_plan.is_some()
    }

    /// Until when it is unknown which empty nodes pending pods need: until they are planned, or the
    /// plan in progress is abandoned.
    pub fn needs_nodes_until(&self, state: &ClusterState, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
        if let Some((_, plan)) = &self.pending_plan {
            return Some(plan.keeps_nodes_until()).filter(|until| *until > now);
        }
        let planned_at = self.window.closes_at(settings.batch_idle, settings.batch_max)?;
        (!state.demand(now).is_empty()).then_some(planned_at)
    }

    /// When it has to be advanced without an event. A cluster that is not ready requests no plan.
    pub fn next_wakeup(&self, is_ready: bool, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
        let plan = self.next_plan_at(settings, now).filter(|_| is_ready);
        let search = self.next_search_at(settings).filter(|_| is_ready);
        plan.into_iter().chain(search).chain(self.next_hold_expiry).min()
    }

    pub fn plan_in_progress(&self) -> Option<PlanNumber> {
        self.pending_plan.as_ref().map(|(number, _)| *number)
    }

    /// View of the plan in progress.
    pub fn view(&self) -> Option<PlanningView> {
        let (_, plan) = self.pending_plan.as_ref()?;
        Some(PlanningView { since: plan.since(), pods: plan.pods(), left: self.demand_cursor.remaining() })
    }

    /// Why the last plan, NodeClaim creation or launch failed, until a plan succeeds.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanningView {
    /// When it was requested.
    pub since: Timestamp,
    pub pods: usize,
    /// Number of pods that remain for the next plans.
    pub left: usize,
}

/// When unplaced pods are planned again after a plan requested at `since`. The pause grows with the
/// duration of the plan, which bounds the share of time spent on planning.
fn retry_time(since: Timestamp, settings: &Settings, now: Timestamp) -> Timestamp {
    now + settings.retry_delay.max(now.duration_since(since) * PAUSE_FACTOR)
}

/// Note on what the search saves; `None` without a search, or if it found nothing cheaper.
fn search_note(report: &PlanReport) -> Option<String> {
    let first = report.first_cost.filter(|first| *first > report.new_cost)?;
    Some(format!("the search found nodes for {} an hour; those of the first packing cost {first}", report.new_cost))
}

/// Pods that the plan had no steps left for.
fn unreached_pods(input: &PlanningInput, report: &PlanReport) -> BTreeSet<PodKey> {
    let held_back = |entry: &&Unschedulable| entry.reasons.iter().any(|reason| reason.code == ReasonCode::HeldBack);
    report.unschedulable.iter().filter(held_back).map(|entry| input.pods[entry.pod as usize].key()).collect()
}

/// Why pods have no place. Of one in launch backoff, of `held`, that is why no machine is launched for it.
fn unplaced_pods(
    input: &PlanningInput,
    plan: &Plan,
    report: &PlanReport,
    mut held: Vec<UnplacedPod>,
) -> Vec<UnplacedPod> {
    let key = |pod: u32| input.pods[pod as usize].key();
    if !held.is_empty() {
        let left: BTreeSet<PodKey> = plan.unschedulable.iter().map(|pod| key(*pod)).collect();
        held.retain(|one| left.contains(&one.pod));
    }
    let is_held: BTreeSet<&PodKey> = held.iter().map(|one| &one.pod).collect();
    let found = report
        .unschedulable
        .iter()
        .map(|entry| UnplacedPod { pod: key(entry.pod), reasons: Arc::clone(&entry.reasons) });
    let mut unplaced: Vec<UnplacedPod> = found.filter(|one| !is_held.contains(&one.pod)).collect();
    unplaced.extend(held);
    unplaced
}

#[cfg(test)]
mod tests;
