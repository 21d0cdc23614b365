//! Plans of holds: the request, and what follows from the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ledger::HoldPlan;
use super::{CapacityHold, HOLD, HoldEnd, HoldId, HoldKind, HoldPlace};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::limit_launches;
use crate::guardrails::enforcement::remaining;
use crate::holds::Holds;
use crate::holds::bookings::publish_bookings;
use crate::order::charged_cost;
use crate::provisioning::Provisioner;
use crate::provisioning::pending_plan::{have_limits_room, is_node_still_usable};
use crate::provisioning::plan_assignment::assign_plan;
use crate::provisioning::plan_assignment::{may_launch, price_date, restrict_input};
use crate::provisioning::{PlanAnswer, PlanJob, PlanRequest, Planned};
use crate::step_view::StepView;
use crate::{Decision, DecisionAnswer, DecisionInput, DecisionReason, Effect, PlannedMachine};
use cluster::{ClusterState, Target};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, ReasonCode};
use model::{ClaimName, MicroUsd, Millis, Pod, Requirement, Text};

/// Time until a hold is planned again whose plan did not hold any more.
const RETRY: Millis = Millis::from_secs(1);

/// Why a plan of a hold is not carried out.
enum Refusal {
    Later(String, Millis),
    Never(String),
}

impl ClusterController {
    /// Handles the answer to the plan of a hold; returns any other one.
    pub(crate) fn handle_hold_plan(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) -> Option<PlanAnswer> {
        let Some(plan) = self.holds.take_plan(answer.request.number) else { return Some(answer) };
        let hold = self.holds.get(&plan.hold).cloned()?;
        let accepted = accept_hold_plan(&hold, &plan, answer, &self.step_view(ctx.now), ctx);
        let accepted = accepted.and_then(|(input, planned)| {
            // All of it or nothing: what the rate limits cut off would leave a part.
            let (mut limited, mut report) = planned.clone();
            let remaining = remaining(&self.claims, &self.decisions);
            limit_launches(
                &input,
                &mut limited,
                &mut report,
                remaining,
                ctx,
                &mut self.guardrails,
                &mut self.provisioner,
            );
            if limited.nodes.len() < planned.0.nodes.len() {
                let why = self.guardrails.launch_block().map(|held| held.reason.to_string()).unwrap_or_default();
                return Err(Refusal::Later(format!("launches are limited: {why}"), ctx.settings.retry_delay));
            }
            Ok((input, planned))
        });
        match accepted {
            Ok((input, planned)) => self.book(&hold, &plan, input, planned, ctx),
            Err(Refusal::Later(why, after)) => self.holds.wait(&hold.id, why, ctx.now + after),
            // What a holder uses is not ended: its room is bought again as soon as that is possible.
            Err(Refusal::Never(why)) if hold.expires.is_none() => {
                self.holds.wait(&hold.id, why, ctx.now + ctx.settings.retry_delay);
            }
            Err(Refusal::Never(why)) => {
                self.holds.end(&hold.id, HoldEnd::Failed, why);
                publish_bookings(ctx.now, &self.holds, &mut self.disruption, &mut self.provisioner, &mut self.state);
            }
        }
        None
    }

    /// Assumes the machines of a plan, books the places of its pods, and records both in one decision.
    fn book(
        &mut self,
        hold: &CapacityHold,
        asked: &HoldPlan,
        input: PlanningInput,
        (plan, report): (Plan, PlanReport),
        ctx: &mut Context<'_>,
    ) {
        let (id, machines, _) =
            assign_plan(&input, &plan, ctx, &mut self.claims, &mut self.state, &self.provisioner, &mut self.nominator);
        let places = places(&input, &plan, &machines, &asked.pod_sets, &self.state);
        let Some(status) = self.holds.place(&hold.id, places, id) else { return };
        publish_bookings(ctx.now, &self.holds, &mut self.disruption, &mut self.provisioner, &mut self.state);
        let decision = Decision {
            price_date: price_date(&machines, &self.state),
            launches: machines,
            holds: vec![(hold.id.clone(), status)],
            new_cost: charged_cost(&input, &plan),
            lower_bound: report.lower_bound,
            basis: Some(Arc::new(DecisionInput {
                opened: None,
                input,
                answer: DecisionAnswer::Pods(Box::new((plan, report))),
            })),
            ..Decision::new(id, self.cluster.clone(), DecisionReason::Hold, self.state.version(), ctx.now)
        };
        self.record_decision(decision, ctx);
    }
}

/// Requests a plan for the next hold without room. At most one plan is in progress in a cluster: two could give the
/// same room away.
pub(crate) fn request_hold_plan_if_due(
    ctx: &mut Context<'_>,
    guardrails: &mut ClusterGuardrails,
    holds: &mut Holds,
    provisioner: &mut Provisioner,
    state: &ClusterState,
    connected: bool,
) {
    if !(connected && state.is_synced())
        || provisioner.is_planning()
        || ctx.settings.is_shadow(&ctx.cluster)
        || guardrails.is_quarantined()
    {
        return;
    }
    let pods_are_due = provisioner.next_plan_at(ctx.settings, ctx.now).is_some_and(|due| due <= ctx.now);
    let Some(hold) = holds.next_to_plan(pods_are_due, ctx.now).cloned() else { return };
    let mut input = state.planning_input_for(Vec::new(), &ctx.settings.policy, ctx.now);
    restrict_input(&mut input, ctx, guardrails, provisioner, state);
    input.policy.search_steps = 0;
    let pod_sets = add_pods(&mut input, &hold);
    if hold.kind == HoldKind::Dedicated {
        dedicate_pools(&mut input, &hold.id);
    }
    let number = ctx.next_plan_number();
    let revision = |pool: &model::NodePool| Some((pool.name.clone(), state.pool(&pool.name)?.revision.clone()));
    let revisions: BTreeMap<_, _> = input.pools.iter().filter_map(revision).collect();
    holds.begin_plan(HoldPlan { number, hold: hold.id, pod_sets, revisions });
    let request = PlanRequest { number, cluster: ctx.cluster.clone(), input, disruption: None };
    ctx.effects.push(Effect::Plan(Box::new(PlanJob::Pods(Box::new(request)))));
}

/// The plan for all pods without room, if it still holds.
fn accept_hold_plan(
    hold: &CapacityHold,
    asked: &HoldPlan,
    answer: PlanAnswer,
    view: &StepView<'_>,
    ctx: &Context<'_>,
) -> Result<(PlanningInput, (Plan, PlanReport)), Refusal> {
    let PlanAnswer { request: PlanRequest { input, .. }, outcome, .. } = answer;
    let (mut plan, report) = match outcome {
        Ok(Planned::Pods(planned)) => *planned,
        Ok(Planned::Disruption(_)) => return Err(Refusal::Later(String::new(), RETRY)),
        Err(error) => return Err(Refusal::Later(error.to_string(), ctx.settings.retry_delay)),
    };
    if !view.is_ready() {
        return Err(Refusal::Later("the agent is not connected".to_owned(), RETRY));
    }
    if !plan.unschedulable.is_empty() {
        return Err(unplaced(&input, &report, ctx));
    }
    // Machines of static NodePools are launched by plans of pods.
    plan.static_nodes.clear();
    let price = hold.status.price().0 + charged_cost(&input, &plan).0;
    if let Some(limit) = hold.max_price.filter(|limit| price > limit.0) {
        let why = format!("its nodes cost ${} an hour, more than its limit of ${limit}", MicroUsd(price));
        return Err(Refusal::Never(why));
    }
    let launchable = |node: &model::plan::PlannedNode| {
        let pool = &input.pools[node.pool as usize];
        asked
            .revisions
            .get(&pool.name)
            .is_some_and(|revision| may_launch(pool, node, revision, ctx, view.guardrails, view.state))
    };
    let holds = plan.nodes.iter().all(launchable)
        && plan.placements.iter().all(|(_, node)| is_node_still_usable(&input, *node, view.state))
        && have_limits_room(view.state, &input, &plan);
    if !holds {
        return Err(Refusal::Later("the cluster changed while it was planned".to_owned(), RETRY));
    }
    Ok((input, (plan, report)))
}

/// Why pods have no place. What a guardrail or a spent allowance causes passes.
fn unplaced(input: &PlanningInput, report: &PlanReport, ctx: &Context<'_>) -> Refusal {
    let reasons = || report.unschedulable.iter().flat_map(|entry| entry.reasons.iter());
    let first = report.unschedulable.first();
    let sentences: Vec<String> = first.into_iter().flat_map(|entry| entry.reasons.iter()).map(sentence).collect();
    let count = report.unschedulable.len();
    let why = format!("{count} of its pods fit nowhere: {}", sentences.join("; "));
    let is_held = input.pools.iter().any(|pool| ctx.launch_block(&pool.name).is_some());
    if is_held || reasons().any(|reason| reason.code == ReasonCode::HeldBack) {
        return Refusal::Later(why, ctx.settings.retry_delay);
    }
    Refusal::Never(why)
}

/// The places of the pods of a plan, whose machines are in the order of its nodes.
fn places(
    input: &PlanningInput,
    plan: &Plan,
    machines: &[PlannedMachine],
    pod_sets: &[u32],
    state: &ClusterState,
) -> Vec<HoldPlace> {
    let mut counts: BTreeMap<(Target, u32), u32> = BTreeMap::new();
    for (pod, node) in &plan.placements {
        let node = &input.nodes[*node as usize];
        let record = state.node(&node.name);
        let claim = match record {
            Some(record) => state.claim_of_node(record).map(|claim| claim.name.clone()),
            None => Some(ClaimName::from(node.name.as_text())),
        };
        let target = claim.map_or_else(|| Target::Node(node.name.clone()), Target::Claim);
        *counts.entry((target, pod_sets[*pod as usize])).or_default() += 1;
    }
    let existing = counts.into_iter();
    let existing = existing.map(|((target, pod_set), pods)| HoldPlace { target, pod_set, pods, price: MicroUsd(0) });
    let launched = machines.iter().zip(&plan.nodes).flat_map(|(machine, node)| {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        node.pods.iter().for_each(|pod| *counts.entry(pod_sets[*pod as usize]).or_default() += 1);
        let target = Target::Claim(machine.claim.name.clone());
        let cost = node.charged_cost(&input.pools[node.pool as usize]);
        let first = counts.keys().next().copied();
        let place = move |(pod_set, pods)| {
            let price = if Some(pod_set) == first { cost } else { MicroUsd(0) };
            HoldPlace { target: target.clone(), pod_set, pods, price }
        };
        counts.into_iter().map(place).collect::<Vec<_>>()
    });
    existing.chain(launched).collect()
}

fn sentence(reason: &model::plan::Reason) -> String {
    match &reason.pool {
        Some(pool) => format!("NodePool {pool}: {}", reason.message),
        None => reason.message.clone(),
    }
}

/// Adds the pods of a hold that have no place. Returns the position of the pod set of each pod of the input.
fn add_pods(input: &mut PlanningInput, hold: &CapacityHold) -> Vec<u32> {
    let mut pods = Vec::new();
    for ((at, set), count) in (0..).zip(hold.pod_sets()).zip(hold.without_place()) {
        let mut shape = (*set.shape).clone();
        if hold.kind == HoldKind::Dedicated {
            hold.id.confine(&mut shape);
        }
        let (shape, labels) = (index(&mut input.shapes, shape), index(&mut input.label_sets, (*set.labels).clone()));
        pods.extend((0..count).map(|number| {
            let pod = Pod {
                namespace: set.namespace.clone(),
                // Numbers of equal width, so that names sort as numbers do.
                name: Text::from(format!("{}-{}-{number:06}", hold.id, set.name)),
                shape,
                labels,
                volumes: None,
                created: None,
                workload: Text::from(format!("Hold/{}", hold.id)),
                moved_from: None,
                invalid: None,
            };
            (pod, at)
        }));
    }
    pods.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let pod_sets = pods.iter().map(|(_, at)| *at).collect();
    input.pods = pods.into_iter().map(|(pod, _)| pod).collect();
    pod_sets
}

/// Nodes that are launched from these NodePools have the label and the taint of the hold.
fn dedicate_pools(input: &mut PlanningInput, hold: &HoldId) {
    for pool in &mut input.pools {
        pool.labels.insert(Text::from(HOLD), hold.0.clone());
        pool.taints.push(hold.taint());
        pool.requirements.add(Requirement::equals(HOLD, hold.0.clone()));
    }
}

/// Position of `value` in `table`, whose values are distinct: the decision log refers to them by content.
fn index<T: PartialEq>(table: &mut Vec<T>, value: T) -> u32 {
    let at = table.iter().position(|known| *known == value).unwrap_or_else(|| {
        table.push(value);
        table.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}
