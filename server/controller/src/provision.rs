//! From pending pods to NodeClaims: request a plan, apply it, record the decision, check it again,
//! create NodeClaims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{Machine, Stage};
use super::order;
use super::planning::demand_cursor::DemandCursor;
use super::planning::pending_plan::PendingPlan;
use super::{
    Decision, DecisionId, DecisionInput, DecisionKind, Effect, Instruction, PlanAnswer, PlanRequest, PlannedMachine,
    UnplacedPod,
};
use crate::cluster::assignments::{NOMINATION_WINDOW, Target};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, ReasonCode, Unschedulable};
use model::resources::NODES;
use model::{ClaimName, NodeName, NodeStage, PodKey, PoolName, Resources, Timestamp};

/// After a plan that left pods unplaced, they are planned again after this multiple of the time
/// that the plan took.
const PAUSE_FACTOR: i64 = 4;

impl ClusterController {
    /// When the next plan is due; `None` while one is in progress.
    pub fn next_plan_at(&self, ctx: &Context<'_>) -> Option<Timestamp> {
        if self.pending_plan.is_some() {
            return None;
        }
        let closed = self.window.closes_at(ctx.settings.batch_idle, ctx.settings.batch_max);
        let rest = self.demand_cursor.has_more().then_some(ctx.now);
        closed.into_iter().chain(self.retry_at).chain(rest).min()
    }

    /// Requests a plan when the batch window has closed, when unplaced pods have waited long
    /// enough, or when the last plan left pods for the next.
    pub fn request_plan_if_due(&mut self, ctx: &mut Context<'_>) {
        let Some(due) = self.next_plan_at(ctx).filter(|due| *due <= ctx.now && self.is_ready()) else { return };
        let mut opened = None;
        // Within a round the window stays open: new pods may rank before pods already planned, so
        // they join the next round.
        if !self.demand_cursor.has_more() {
            opened = self.window.close();
            self.retry_at = None;
        }
        let fixed = self.state.pools().any(|pool| pool.pool.replicas.is_some());
        self.guardrails.held_launches = None;
        let demand = self.state.demand(ctx.now);
        // Building an input covers every pod, and mostly there is nothing to plan.
        if !fixed && self.guardrails.launch_backoff.is_empty() && demand.is_empty() {
            self.demand_cursor = DemandCursor::default();
            return self.clear_shadow_plan();
        }
        let taken = self.demand_cursor.take_pods(demand, ctx.settings.plan_pods);
        let mut input = self.state.planning_input_for(taken, &ctx.settings.policy, ctx.now);
        let held = self.exclude_backed_off_pods(&mut input, ctx);
        if input.pods.is_empty() && held.is_empty() && !fixed {
            return self.clear_shadow_plan();
        }
        self.exclude_frozen_pools(&mut input, ctx);
        for pool in &mut input.pools {
            pool.catalogue = ctx.offerings.mask_catalogue(&pool.catalogue);
        }
        ctx.planned = true;
        let request = PlanRequest { number: ctx.next_plan_number(), cluster: self.cluster.clone(), input };
        self.register_pending_plan(&request, due, opened, held, ctx);
        ctx.effects.push(Effect::Plan(Box::new(request)));
    }

    /// Handles a plan. The parts whose assumptions do not hold any more are dropped and planned
    /// again.
    pub fn handle_plan(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) {
        let PlanAnswer { request: PlanRequest { number, input, .. }, outcome } = answer;
        let Some(pending_plan) = self.take_pending_plan(number) else { return };
        if !self.is_ready() {
            // Without a synced state the assumptions of the plan cannot be checked.
            return self.window.extend(ctx.now);
        }
        match outcome {
            Ok((mut plan, mut report)) => {
                self.last_error = None;
                let basis =
                    DecisionInput { opened: pending_plan.opened, input, plan: plan.clone(), report: report.clone() };
                if self.drop_outdated_parts(&pending_plan, &basis.input, (&mut plan, &mut report), ctx) {
                    self.window.extend(ctx.now);
                }
                let waiting = self.limit_launches(&basis.input, &mut plan, &mut report, ctx);
                let PendingPlan { due, since, version, held, drains, .. } = pending_plan;
                let held = held.into_iter().chain(waiting).collect();
                self.apply_plan(basis, &plan, report, held, (due, since, version), ctx);
                self.begin_replaced_drains(&drains, ctx);
            }
            Err(error) => {
                self.last_error = Some(error.to_string());
                self.retry_at = Some(retry_at(pending_plan.since, ctx));
            }
        }
    }

    fn apply_plan(
        &mut self,
        basis: DecisionInput,
        plan: &Plan,
        mut report: PlanReport,
        held: Vec<UnplacedPod>,
        (due, since, version): (Timestamp, Timestamp, u64),
        ctx: &mut Context<'_>,
    ) {
        let input = &basis.input;
        let unplaced: Vec<UnplacedPod> = unplaced_pods(input, &report).into_iter().chain(held).collect();
        let held_back = |entry: &&Unschedulable| entry.reasons.iter().any(|reason| reason.code == ReasonCode::HeldBack);
        let not_reached =
            report.unschedulable.iter().filter(held_back).map(|entry| input.pods[entry.pod as usize].key());
        self.demand_cursor.defer_unreached(not_reached.collect());
        if !plan.unschedulable.is_empty() {
            let again = retry_at(since, ctx);
            self.retry_at = Some(self.retry_at.map_or(again, |retry| retry.min(again)));
        }
        report.notes.extend(self.remaining_pods_note(input.pods.len(), ctx));
        if self.is_shadow(ctx) {
            return self.record_shadow_plan(basis, plan, report, unplaced, ctx);
        }
        // Machines are assumed before pods are assigned to them, and all before the decision is recorded.
        let id = DecisionId(ctx.next_id());
        let machines: Vec<PlannedMachine> = (plan.nodes.iter().chain(&plan.static_nodes))
            .map(|node| order::machine_orders(&self.cluster, &self.uid, &self.state, input, node, id, ctx))
            .collect();
        for (planned, node) in machines.iter().zip(plan.nodes.iter().chain(&plan.static_nodes)) {
            let pool = &input.pools[node.pool as usize];
            self.state.assume_claim(order::expected_claim(planned, node, pool, ctx.now));
            for pod in &node.pods {
                let target = Target::Claim(planned.claim.name.clone());
                self.state.assignments.assign(input.pods[*pod as usize].key(), target, None);
            }
            let revision = self.state.pool(&pool.name).map(|record| record.revision.clone()).unwrap_or_default();
            let machine = Machine::from_decision(planned.clone(), id, revision, ctx.now);
            self.machines.insert(planned.claim.name.clone(), machine);
        }
        self.count_launches(&machines, plan.nodes.iter().chain(&plan.static_nodes), ctx);
        let placed = self.assign_placements(input, plan, ctx.now);
        if !placed.is_empty() {
            self.nomination_retries.schedule(ctx.now);
        }
        let number = self.demand_cursor.plan_index();
        self.last_unplaced.truncate(number + 1);
        self.last_unplaced.resize(number + 1, Vec::new());
        let before = std::mem::replace(&mut self.last_unplaced[number], unplaced.clone());
        if machines.is_empty() && placed.is_empty() && before == self.last_unplaced[number] {
            return;
        }
        let decision = Decision {
            id,
            cluster: self.cluster.clone(),
            at: ctx.now,
            due,
            kind: DecisionKind::Provision,
            shadow: false,
            state_version: version,
            machines,
            removals: Vec::new(),
            placed,
            unplaced,
            new_cost: report.new_cost,
            lower_bound: report.lower_bound,
            would: Vec::new(),
            notes: report.notes,
            basis: Some(Arc::new(basis)),
        };
        self.record_decision(decision, ctx);
    }

    /// Note that a plan does not cover all pending pods.
    fn remaining_pods_note(&self, taken: usize, ctx: &Context<'_>) -> Option<String> {
        let (left, most) = (self.demand_cursor.remaining(), ctx.settings.plan_pods);
        (left > 0).then(|| {
            format!(
                "{left} more pods are pending: a plan takes at most {most} pods (this one {taken}); the next plan \
                 follows"
            )
        })
    }

    /// Emits a decision to be made durable; it is executed afterwards. The input of its plan is
    /// moved out and not kept, because it is as large as the cluster.
    pub fn record_decision(&mut self, mut decision: Decision, ctx: &mut Context<'_>) {
        let basis = decision.basis.take();
        let decision = Arc::new(decision);
        self.push_recent_decision(&decision);
        self.status_reporter.mark_dirty();
        ctx.effects.push(Effect::RecordDecision(Box::new(Decision { basis, ..Decision::clone(&decision) })));
        self.unrecorded_decisions.insert(decision.id, decision);
    }

    fn assign_placements(&mut self, input: &PlanningInput, plan: &Plan, now: Timestamp) -> Vec<(PodKey, NodeName)> {
        let soon = now + NOMINATION_WINDOW;
        let mut placed = Vec::new();
        for (pod, node) in &plan.placements {
            let node = &input.nodes[*node as usize];
            let claim = match node.stage {
                NodeStage::InFlight => Some(ClaimName::from(node.name.as_text())),
                NodeStage::Registered => {
                    let record = self.state.node(&node.name);
                    record.and_then(|record| self.state.claim_of_node(record)).map(|claim| claim.name.clone())
                }
                NodeStage::Initialized | NodeStage::Deleting => None,
            };
            let key = input.pods[*pod as usize].key();
            placed.push((key.clone(), node.name.clone()));
            match claim {
                Some(claim) => self.state.assignments.assign(key, Target::Claim(claim), None),
                None => self.state.assignments.assign(key, Target::Node(node.name.clone()), Some(soon)),
            }
        }
        placed
    }

    /// Executes a durable decision as far as it is still valid; the rest is planned again.
    pub fn execute_decision(&mut self, id: DecisionId, ctx: &mut Context<'_>) {
        let Some(decision) = self.unrecorded_decisions.remove(&id) else { return };
        if decision.kind == DecisionKind::Empty {
            return self.execute_removals(&decision, ctx);
        }
        let awaited: BTreeSet<ClaimName> =
            self.state.assignments.iter().filter_map(|(_, to)| to.target.claim()).cloned().collect();
        for planned in &decision.machines {
            let claim = &planned.claim.name;
            let Some(machine) = self.machines.get(claim) else {
                self.close_launch(claim, ctx);
                continue;
            };
            if machine.stage != Stage::Planned {
                continue;
            }
            let wanted = planned.pods.is_empty() || awaited.contains(claim);
            if wanted && self.is_still_valid(id, planned, ctx) {
                self.enter_stage(claim, Stage::Creating, ctx.now);
                self.instruct(Instruction::CreateClaim(planned.claim.clone()), ctx);
            } else {
                ctx.guardrails.launches.remove(&self.cluster, claim);
                self.machines.remove(claim);
                self.state.forget_claim(claim);
                self.close_launch(claim, ctx);
                self.window.extend(ctx.now);
            }
        }
    }

    /// Whether a planned machine may still be launched.
    pub fn is_still_valid(&self, id: DecisionId, planned: &PlannedMachine, ctx: &Context<'_>) -> bool {
        let claim = &planned.claim.name;
        let Some(machine) = self.machines.get(claim) else { return false };
        let Some(pool) = self.state.pool(&planned.claim.pool) else { return false };
        let order = &planned.launch;
        let unavailable = |option: &super::LaunchOption| {
            ctx.offerings.is_unavailable(&option.instance_type, &option.zone, order.capacity_type)
        };
        let ours = self.state.unmanaged_reason(pool).is_none();
        let unchanged = ours && pool.revision == machine.revision && pool.pool.not_ready.is_none();
        unchanged
            && self.may_launch(&planned.claim.pool, ctx)
            && !order.options.iter().all(unavailable)
            && self.within_limits(id, &planned.claim.pool)
    }

    /// Whether the NodePool is within its limits without the machines of this decision, which were
    /// planned within them.
    fn within_limits(&self, id: DecisionId, pool: &PoolName) -> bool {
        let Some(record) = self.state.pool(pool) else { return false };
        let decided = |claim: &ClaimName| self.machines.get(claim).is_some_and(|machine| machine.decision == Some(id));
        let mut used = Resources::new();
        for claim in self.state.claims().filter(|claim| claim.pool == *pool && !decided(&claim.name)) {
            used.add(&claim.capacity);
            used.add(&Resources::from_iter([(NODES, 1)]));
        }
        record.pool.limits.iter().all(|(name, limit)| used.get(name) <= limit)
    }
}

/// When unplaced pods are planned again after a plan requested at `since`. The pause grows with the
/// duration of the plan, which bounds the share of time spent on planning.
fn retry_at(since: Timestamp, ctx: &Context<'_>) -> Timestamp {
    let took = ctx.now.duration_since(since);
    ctx.now + ctx.settings.retry_delay.max(took * PAUSE_FACTOR)
}

fn unplaced_pods(input: &PlanningInput, report: &PlanReport) -> Vec<UnplacedPod> {
    let entries = report.unschedulable.iter();
    entries
        .map(|entry| UnplacedPod { pod: input.pods[entry.pod as usize].key(), reasons: entry.reasons.clone() })
        .collect()
}
