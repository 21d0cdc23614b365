//! From a due plan to NodeClaims, with the steps of all parts: request the plan, limit what
//! arrives, assign its pods, record the decision, check it again, create the NodeClaims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::launch_lane::LaneFacts;
use super::{ArrivedPlan, LaunchView, PlanAnswer, PlanJob, Planned};
use crate::cluster_controller::{ClusterController, Context};
use crate::guardrails::{BackedOffPods, ClusterGuardrails};
use crate::launch_template::launch_template;
use crate::nodeclaim::{ManagedClaim, StageKind};
use crate::order;
use crate::unavailable_offerings::Probing;
use crate::{Decision, DecisionId, DecisionReason, Effect, Instruction, PlannedMachine};
use cluster::assignments::NOMINATION_WINDOW;
use cluster::{ClusterState, Target};
use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::resources::NODES;
use model::{
    ClaimName, ClusterName, MicroUsd, NodeName, NodePool, NodeStage, PodKey, PoolName, Resources, Text, Timestamp,
};

impl ClusterController {
    /// Requests a plan if one is due and there is anything to plan.
    pub(crate) fn request_plan_if_due(&mut self, ctx: &mut Context<'_>) {
        let may_plan = self.is_ready() && !self.holds.is_planning();
        let due = self.provisioner.next_plan_at(ctx.settings, ctx.now).filter(|due| *due <= ctx.now && may_plan);
        let Some(due) = due else { return };
        self.holds.begin_plan_of_pods();
        self.guardrails.replace_launch_block(None);
        let has_backed_off_pods = self.guardrails.has_unbound_pods();
        let draft = self.provisioner.draft_plan(due, &self.state, has_backed_off_pods, ctx.settings, ctx.now);
        let Some(mut draft) = draft else { return self.clear_shadow_plan() };
        let backed_off = self.restrict_input(draft.input_mut(), ctx);
        draft.hold_pods(backed_off);
        if draft.is_empty() {
            return self.clear_shadow_plan();
        }
        let (number, cluster, drains) = (ctx.next_plan_number(), self.cluster.clone(), self.waiting_drains(ctx.now));
        let request = self.provisioner.request_plan(draft, number, cluster, drains, &self.state, ctx.now);
        match self.take_search(&request, ctx) {
            Some(answer) => self.apply_answer(answer, ctx),
            None => ctx.effects.push(Effect::Plan(Box::new(PlanJob::Pods(Box::new(request))))),
        }
    }

    /// Excludes what guardrails hold back, and unavailable offerings. Returns the pods for which no machine may be launched.
    pub(crate) fn restrict_input(&mut self, input: &mut PlanningInput, ctx: &Context<'_>) -> BackedOffPods {
        let backed_off = self.exclude_backed_off_pods(input, ctx);
        self.exclude_frozen_pools(input, ctx);
        for pool in &mut input.pools {
            pool.catalogue = ctx.offerings.mask_catalogue(&pool.catalogue, Probing::Allowed, ctx.now);
        }
        backed_off
    }

    /// Handles the answer to a plan request.
    pub(crate) fn handle_plan(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) {
        if answer.request.is_search() {
            self.settle_search(&answer, ctx);
        }
        if answer.request.disruption.is_some() {
            ctx.disruption_plans().end(answer.request.number, answer.used, ctx.now);
        }
        let answer = match answer {
            PlanAnswer { request, outcome: Ok(Planned::Disruption(planned)), .. } => {
                return self.handle_disruption_plan(request, Ok(*planned), ctx);
            }
            PlanAnswer { request, outcome: Err(error), .. } if request.disruption.is_some() => {
                return self.handle_disruption_plan(request, Err(error), ctx);
            }
            answer => answer,
        };
        let Some(answer) = self.handle_hold_plan(answer, ctx) else { return };
        if let Some(answer) = self.provisioner.keep_search(answer) {
            self.apply_answer(answer, ctx);
        }
    }

    /// Applies the answer to the plan in progress.
    fn apply_answer(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) {
        let is_ready = self.is_ready();
        let view = launch_view(&self.cluster, &self.state, &self.guardrails, ctx);
        let arrived = self.provisioner.take_answer(answer, is_ready, ctx.settings, &view);
        let Some(mut arrived) = arrived else { return };
        let drains = std::mem::take(&mut arrived.drains);
        let ArrivedPlan { basis, plan, report, .. } = &mut arrived;
        let waiting = self.limit_launches(&basis.input, plan, report, ctx);
        if basis.input.policy.search_steps > 0 {
            let saved = report.first_cost.map_or(0, |first| first.0 - report.new_cost.0);
            ctx.searches().record_applied(MicroUsd(saved));
        }
        arrived.unplaced.extend(waiting);
        self.explain_pods_of_holds(&mut arrived.unplaced);
        let unplaced = if self.state.replacements().is_empty() { Vec::new() } else { arrived.unplaced.clone() };
        self.apply_plan(arrived, ctx);
        self.fail_unplaced_replacements(&unplaced, ctx);
        self.begin_replaced_drains(&drains, ctx);
    }

    /// Assigns the pods of a plan, and records its decision if it changes anything.
    fn apply_plan(&mut self, arrived: ArrivedPlan, ctx: &mut Context<'_>) {
        let ArrivedPlan { basis, plan, report, unplaced, due, version, .. } = arrived;
        if self.is_shadow(ctx) {
            return self.record_shadow_plan(basis, &plan, report, unplaced, ctx);
        }
        let (id, machines, placed) = self.assign_plan(&basis.input, &plan, ctx);
        let unchanged = self.provisioner.record_unplaced(&unplaced);
        if machines.is_empty() && placed.is_empty() && unchanged {
            return;
        }
        let new_cost = order::charged_cost(&basis.input, &plan);
        let decision = Decision {
            due,
            price_date: self.price_date(&machines),
            launches: machines,
            assignments: placed,
            unplaced,
            new_cost,
            lower_bound: report.lower_bound,
            notes: report.notes,
            basis: Some(Arc::new(basis)),
            ..Decision::new(id, self.cluster.clone(), DecisionReason::Provision, version, ctx.now)
        };
        self.record_decision(decision, ctx);
    }

    /// Orders, assumes and counts the machines of a plan, and assigns its pods: the number of the decision, its
    /// launches and its assignments to existing capacity.
    pub(crate) fn assign_plan(
        &mut self,
        input: &PlanningInput,
        plan: &Plan,
        ctx: &mut Context<'_>,
    ) -> (DecisionId, Vec<PlannedMachine>, Vec<(PodKey, NodeName)>) {
        let id = DecisionId(ctx.next_id());
        let machines = self.assume_machines(input, plan, id, ctx);
        self.count_launches(input, &machines, planned_nodes(plan), ctx);
        let placed = self.assign_placements(input, plan, ctx.now);
        if !placed.is_empty() {
            self.nominator.schedule_nominations(ctx.now);
        }
        (id, machines, placed)
    }

    /// Date of the prices of the NodePools that the machines are launched for; `None` without machines.
    pub(crate) fn price_date(&self, machines: &[PlannedMachine]) -> Option<Text> {
        let pools = machines.iter().filter_map(|machine| self.state.pool(&machine.claim.pool));
        pools.filter_map(|record| record.meta.price_date.clone()).next()
    }

    /// Whether the NodePool has this revision still and may launch the planned machine.
    pub(crate) fn may_launch(&self, pool: &NodePool, node: &PlannedNode, revision: &Text, ctx: &Context<'_>) -> bool {
        let view = launch_view(&self.cluster, &self.state, &self.guardrails, ctx);
        view.launchable_pool(&pool.name, revision).is_some()
            && view.has_available(&order::launch_options(pool, node), node.capacity_type, None)
    }

    /// Orders the planned machines, and assumes them with their pods: no other plan places these.
    fn assume_machines(
        &mut self,
        input: &PlanningInput,
        plan: &Plan,
        id: DecisionId,
        ctx: &mut Context<'_>,
    ) -> Vec<PlannedMachine> {
        // Machines are assumed before pods are assigned to them, and all before the decision is
        // recorded.
        let machines: Vec<PlannedMachine> = planned_nodes(plan)
            .map(|node| {
                let (pool, identity) = (&input.pools[node.pool as usize].name, ctx.settings.identity);
                let name = order::generate_claim_name(&self.cluster, &self.state, pool, identity, || ctx.next_id());
                let mut machine = order::machine_orders(&self.cluster, &self.uid, &self.state, input, node, name, id);
                let holder = self.probe_holder(&machine.claim.name);
                ctx.offerings.take_options(&mut machine.launch.options, node.capacity_type, &holder, ctx.now);
                let (pool, options) = (&input.pools[node.pool as usize], &machine.launch.options);
                machine.launch.template = launch_template(&self.state, ctx.settings, pool, &machine.claim, options);
                machine.launch.lane = self.lane_facts().lane_of(node, input);
                machine
            })
            .collect();
        for (planned, node) in machines.iter().zip(planned_nodes(plan)) {
            let pool = &input.pools[node.pool as usize];
            self.state.assume_claim(order::expected_claim(planned, node, pool, ctx.now));
            // Pods of a hold do not exist: their places are bookings.
            let keys = node.pods.iter().map(|pod| input.pods[*pod as usize].key());
            for key in keys.filter(|key| self.state.pod(key).is_some()).collect::<Vec<_>>() {
                self.state.assign_pod(key, Target::Claim(planned.claim.name.clone()), None);
            }
            let revision = self.state.pool(&pool.name).map(|record| record.revision.clone()).unwrap_or_default();
            let machine = ManagedClaim::from_decision(planned.clone(), id, revision, ctx.now);
            self.claims.insert(machine);
        }
        machines
    }

    fn lane_facts(&self) -> LaneFacts<'_> {
        LaneFacts { state: &self.state, claims: &self.claims, interrupted: &self.interrupted_owners }
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
            if self.state.pod(&key).is_none() {
                continue;
            }
            placed.push((key.clone(), node.name.clone()));
            match claim {
                Some(claim) => self.state.assign_pod_to_claim(key, claim, now),
                None => self.state.assign_pod(key, Target::Node(node.name.clone()), Some(soon)),
            }
        }
        placed
    }

    /// Begins the launches of a durable decision that are still valid; the pods of the others are
    /// planned again.
    pub(crate) fn execute_launches(&mut self, decision: &Decision, ctx: &mut Context<'_>) {
        let awaited: BTreeSet<ClaimName> =
            self.state.assignments().iter().filter_map(|(_, to)| to.target.claim()).cloned().collect();
        for planned in &decision.launches {
            let claim = &planned.claim.name;
            let Some(machine) = self.claims.get(claim) else {
                self.close_launch(claim, ctx);
                continue;
            };
            if machine.stage() != StageKind::Planned {
                continue;
            }
            let wanted = planned.pods.is_empty() || awaited.contains(claim) || self.state.has_booking(claim);
            if wanted && self.is_still_valid(decision.id, planned, ctx) {
                self.claims.get_mut(claim).map(|machine| machine.begin_creation(ctx.now));
                self.instruct(Instruction::CreateClaim(planned.claim.clone()), ctx);
            } else {
                ctx.guardrails.cancel_launch(&self.cluster, claim);
                self.claims.remove(claim);
                self.state.forget_claim(claim);
                self.close_launch(claim, ctx);
                self.provisioner.replan_displaced_pods(ctx.now);
            }
        }
    }

    /// Whether a planned machine may still be launched.
    pub(crate) fn is_still_valid(&self, id: DecisionId, planned: &PlannedMachine, ctx: &Context<'_>) -> bool {
        let claim = &planned.claim.name;
        let Some(machine) = self.claims.get(claim) else { return false };
        let Some(revision) = machine.revision() else { return false };
        let view = launch_view(&self.cluster, &self.state, &self.guardrails, ctx);
        let order = &planned.launch;
        view.launchable_pool(&planned.claim.pool, revision).is_some()
            && view.has_available(&order.options, order.capacity_type, Some(&self.probe_holder(claim)))
            && self.within_limits(id, &planned.claim.pool)
    }

    /// Whether the NodePool is within its limits without the machines of this decision, which were
    /// planned within them.
    fn within_limits(&self, id: DecisionId, pool: &PoolName) -> bool {
        let Some(record) = self.state.pool(pool) else { return false };
        let decided = |claim: &ClaimName| self.claims.get(claim).is_some_and(|machine| machine.decision() == Some(id));
        let mut used = Resources::new();
        for claim in self.state.claims().filter(|claim| claim.pool == *pool && !decided(&claim.name)) {
            used.add(&claim.capacity);
            used.add(&Resources::from_iter([(NODES, 1)]));
        }
        record.pool.limits.iter().all(|(name, limit)| used.get(name) <= limit)
    }
}

/// The nodes of a plan that are launched, in order.
fn planned_nodes(plan: &Plan) -> impl Iterator<Item = &PlannedNode> {
    plan.nodes.iter().chain(&plan.static_nodes)
}

fn launch_view<'v>(
    cluster: &'v ClusterName,
    state: &'v ClusterState,
    guardrails: &ClusterGuardrails,
    ctx: &'v Context<'_>,
) -> LaunchView<'v> {
    LaunchView {
        cluster,
        state,
        quarantined: guardrails.is_quarantined(),
        freezes: ctx.guardrails.freezes(),
        offerings: ctx.offerings,
        now: ctx.now,
    }
}
