//! From pending pods to NodeClaims: ask for a plan, take it up, record, check again, create.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{Machine, Stage};
use super::order;
use super::planning::portion::Portion;
use super::planning::under_way::UnderWay;
use super::{
    Decision, DecisionId, DecisionInput, DecisionKind, Effect, Instruction, PlanAnswer, PlanRequest, PlannedMachine,
    UnplacedPod,
};
use crate::cluster::PodKey;
use crate::cluster::assignments::{NOMINATION_MS, Target};
use crate::input::PlanningInput;
use crate::model::resources::NODES;
use crate::model::{NodeStage, Resources, Text, Timestamp};
use crate::plan::{Plan, PlanReport, ReasonCode, Unschedulable};

/// After a plan that left pods without a place comes so many times what it took before they are planned again.
const REST_AFTER: i64 = 4;

impl ClusterController {
    /// When the next plan is due; `None` while one is under way.
    pub fn next_plan(&self, desk: &Context<'_>) -> Option<Timestamp> {
        if self.under_way.is_some() {
            return None;
        }
        let closed = self.window.due(desk.settings.batch_idle_ms, desk.settings.batch_max_ms);
        let rest = self.portion.goes_on().then_some(desk.now);
        closed.into_iter().chain(self.retry).chain(rest).min()
    }

    /// Asks for a plan when a window has closed, when pods without a place have waited long enough, or when the last plan left
    /// pods to the next.
    pub fn plan_if_due(&mut self, desk: &mut Context<'_>) {
        let Some(due) = self.next_plan(desk).filter(|due| *due <= desk.now && self.is_ready()) else { return };
        let mut opened = None;
        // Pods that came meanwhile may rank before those that were planned already: they are in the next round.
        if !self.portion.goes_on() {
            opened = self.window.close();
            self.retry = None;
        }
        let fixed = self.state.pools().any(|pool| pool.pool.replicas.is_some());
        self.rails.held_launches = None;
        let demand = self.state.demand(desk.now);
        // Nothing to plan is by far the most frequent answer, and an input looks at every pod.
        if !fixed && self.rails.attempts.is_empty() && demand.is_empty() {
            self.portion = Portion::default();
            return self.forget_said();
        }
        let taken = self.portion.take(demand, desk.settings.plan_pods);
        let mut input = self.state.planning_input_for(taken, &desk.settings.policy, desk.now);
        let held = self.hold_pods(&mut input, desk);
        if input.pods.is_empty() && held.is_empty() && !fixed {
            return self.forget_said();
        }
        self.hold_pools(&mut input, desk);
        for pool in &mut input.pools {
            pool.catalogue = desk.offerings.mark(&pool.catalogue);
        }
        desk.planned = true;
        let request = PlanRequest { number: desk.plan_number(), cluster: self.cluster.clone(), input };
        self.await_plan(&request, due, opened, held, desk);
        desk.effects.push(Effect::Plan(Box::new(request)));
    }

    /// A plan is there. What does not hold any more of what it relies on is left out and planned again.
    pub fn planned(&mut self, answer: PlanAnswer, desk: &mut Context<'_>) {
        let PlanAnswer { request: PlanRequest { number, input, .. }, outcome } = answer;
        let Some(under_way) = self.arrived(number) else { return };
        if !self.is_ready() {
            // What has happened meanwhile is not known.
            return self.window.rouse(desk.now);
        }
        match outcome {
            Ok((mut plan, mut report)) => {
                self.refused = None;
                let basis =
                    DecisionInput { opened: under_way.opened, input, plan: plan.clone(), report: report.clone() };
                if self.drop_outdated(&under_way, &basis.input, (&mut plan, &mut report), desk) {
                    self.window.rouse(desk.now);
                }
                let waiting = self.hold_launches(&basis.input, &mut plan, &mut report, desk);
                let UnderWay { due, since, version, held, drains, .. } = under_way;
                let held = held.into_iter().chain(waiting).collect();
                self.adopt_plan(basis, &plan, report, held, (due, since, version), desk);
                self.drain_replaced(&drains, desk);
            }
            Err(reason) => {
                self.refused = Some(reason);
                self.retry = Some(retry_at(under_way.since, desk));
            }
        }
    }

    fn adopt_plan(
        &mut self,
        basis: DecisionInput,
        plan: &Plan,
        mut report: PlanReport,
        held: Vec<UnplacedPod>,
        (due, since, version): (Timestamp, Timestamp, u64),
        desk: &mut Context<'_>,
    ) {
        let input = &basis.input;
        let unplaced: Vec<UnplacedPod> = unplaced_pods(input, &report).into_iter().chain(held).collect();
        let held_back = |entry: &&Unschedulable| entry.reasons.iter().any(|reason| reason.code == ReasonCode::HeldBack);
        let not_reached = report.unschedulable.iter().filter(held_back).map(|entry| key_of(input, entry.pod));
        self.portion.did_not_reach(not_reached.collect());
        if !plan.unschedulable.is_empty() {
            let again = retry_at(since, desk);
            self.retry = Some(self.retry.map_or(again, |retry| retry.min(again)));
        }
        report.notes.extend(self.portion_note(input.pods.len(), desk));
        if self.is_shadow(desk) {
            return self.say_plan(basis, plan, report, unplaced, desk);
        }
        let id = DecisionId(desk.number());
        let machines: Vec<PlannedMachine> = (plan.nodes.iter().chain(&plan.static_nodes))
            .map(|node| order::machine(&self.cluster, &self.uid, &self.state, input, node, id, desk))
            .collect();
        for (planned, node) in machines.iter().zip(plan.nodes.iter().chain(&plan.static_nodes)) {
            let pool = &input.pools[node.pool as usize];
            self.state.expect_claim(order::expected(planned, node, pool, desk.now));
            for pod in &node.pods {
                let target = Target::Claim(planned.claim.name.clone());
                self.state.promises.give(key_of(input, *pod), target, None);
            }
            let revision = self.state.pool(&pool.name).map(|record| record.revision.clone()).unwrap_or_default();
            let machine = Machine::decided(planned.clone(), id, revision, desk.now);
            self.machines.insert(planned.claim.name.clone(), machine);
        }
        self.note_launches(&machines, plan.nodes.iter().chain(&plan.static_nodes), desk);
        let placed = self.keep_placements(input, plan, desk.now);
        if !placed.is_empty() {
            self.nudges.rouse(desk.now);
        }
        let said = summary_of(&unplaced);
        let number = self.portion.number();
        self.last_unplaced.truncate(number + 1);
        self.last_unplaced.resize(number + 1, String::new());
        let before = std::mem::replace(&mut self.last_unplaced[number], said);
        if machines.is_empty() && placed.is_empty() && before == self.last_unplaced[number] {
            return;
        }
        let decision = Decision {
            id,
            cluster: self.cluster.clone(),
            at: desk.now,
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
            notes: report.notes,
            basis: Some(Arc::new(basis)),
        };
        self.record(decision, desk);
    }

    /// Says that a plan was not for all pods that wait.
    fn portion_note(&self, taken: usize, desk: &Context<'_>) -> Option<String> {
        let (left, most) = (self.portion.left(), desk.settings.plan_pods);
        (left > 0).then(|| {
            format!(
                "{left} more pods wait: a plan takes {most} pods at most (this one {taken}), and theirs is made next"
            )
        })
    }

    /// Sends a decision off to be made durable; it is carried out when it is. What it was made from goes with it and is not
    /// kept here: it is as large as the cluster.
    pub fn record(&mut self, mut decision: Decision, desk: &mut Context<'_>) {
        let basis = decision.basis.take();
        let decision = Arc::new(decision);
        self.remember(&decision);
        self.clerk.rouse();
        desk.effects.push(Effect::Record(Box::new(Decision { basis, ..Decision::clone(&decision) })));
        self.undecided.insert(decision.id, decision);
    }

    fn keep_placements(&mut self, input: &PlanningInput, plan: &Plan, now: Timestamp) -> Vec<(Text, Text)> {
        let soon = Timestamp(now.0.saturating_add(NOMINATION_MS));
        let mut placed = Vec::new();
        for (pod, node) in &plan.placements {
            let node = &input.nodes[*node as usize];
            let claim = match node.stage {
                NodeStage::InFlight => Some(node.name.clone()),
                NodeStage::Registered => {
                    let record = self.state.node(&node.name);
                    record.and_then(|record| self.state.claim_of_node(record)).map(|claim| claim.name.clone())
                }
                NodeStage::Initialized | NodeStage::Deleting => None,
            };
            let key = key_of(input, *pod);
            placed.push((Text::from(key.to_string()), node.name.clone()));
            match claim {
                Some(claim) => self.state.promises.give(key, Target::Claim(claim), None),
                None => self.state.promises.give(key, Target::Node(node.name.clone()), Some(soon)),
            }
        }
        placed
    }

    /// The decision is durable: what still holds of it is carried out, the rest is planned again.
    pub fn carry_out(&mut self, id: DecisionId, desk: &mut Context<'_>) {
        let Some(decision) = self.undecided.remove(&id) else { return };
        if decision.kind == DecisionKind::Empty {
            return self.carry_out_removals(&decision, desk);
        }
        let awaited: BTreeSet<Text> =
            self.state.promises.iter().filter_map(|(_, to)| to.target.claim()).cloned().collect();
        for planned in &decision.machines {
            let claim = &planned.claim.name;
            let Some(machine) = self.machines.get(claim) else {
                self.close(claim, desk);
                continue;
            };
            if machine.stage != Stage::Planned {
                continue;
            }
            let wanted = planned.pods.is_empty() || awaited.contains(claim);
            if wanted && self.still_holds(id, planned, desk) {
                self.enter(claim, Stage::Creating, desk.now);
                self.instruct(Instruction::CreateClaim(planned.claim.clone()), desk);
            } else {
                desk.rails.launches.forget(&self.cluster, claim);
                self.machines.remove(claim);
                self.state.forget_claim(claim);
                self.close(claim, desk);
                self.window.rouse(desk.now);
            }
        }
    }

    /// Whether what was decided may still be begun.
    pub fn still_holds(&self, id: DecisionId, planned: &PlannedMachine, desk: &Context<'_>) -> bool {
        let claim = &planned.claim.name;
        let Some(machine) = self.machines.get(claim) else { return false };
        let Some(pool) = self.state.pool(&planned.claim.pool) else { return false };
        let order = &planned.launch;
        let sold = |option: &super::LaunchOption| {
            desk.offerings.is_sold_out(&option.instance_type, &option.zone, order.capacity_type)
        };
        let ours = self.state.left_to_others(pool).is_none();
        let unchanged = ours && pool.revision == machine.revision && pool.pool.not_ready.is_none();
        unchanged
            && self.may_launch(&planned.claim.pool, desk)
            && !order.options.iter().all(sold)
            && self.within_limits(id, &planned.claim.pool)
    }

    /// Whether the pool's limits hold for everything but the machines of this decision, which were planned within them.
    fn within_limits(&self, id: DecisionId, pool: &Text) -> bool {
        let Some(record) = self.state.pool(pool) else { return false };
        let decided = |claim: &Text| self.machines.get(claim).is_some_and(|machine| machine.decision == Some(id));
        let mut used = Resources::new();
        for claim in self.state.claims().filter(|claim| claim.pool == *pool && !decided(&claim.name)) {
            used.add(&claim.capacity);
            used.add(&Resources::from_iter([(NODES, 1)]));
        }
        record.pool.limits.iter().all(|(name, limit)| used.get(name) <= limit)
    }
}

/// When pods without a place are planned again, if their plan was asked for at `since`. Plans that take long come so rarely that
/// planning takes a part of the time only.
fn retry_at(since: Timestamp, desk: &Context<'_>) -> Timestamp {
    let took = desk.now.millis_since(since).max(0);
    desk.after(desk.settings.retry_ms.max(took.saturating_mul(REST_AFTER)))
}

fn key_of(input: &PlanningInput, pod: u32) -> PodKey {
    let pod = &input.pods[pod as usize];
    PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() }
}

fn unplaced_pods(input: &PlanningInput, report: &PlanReport) -> Vec<UnplacedPod> {
    let entries = report.unschedulable.iter();
    entries
        .map(|entry| UnplacedPod {
            pod: Text::from(key_of(input, entry.pod).to_string()),
            reasons: entry.reasons.clone(),
        })
        .collect()
}

fn summary_of(unplaced: &[UnplacedPod]) -> String {
    unplaced.iter().fold(String::new(), |mut text, pod| {
        text.push_str(&pod.pod);
        for reason in &pod.reasons {
            text.push_str(reason.code.as_str());
            text.push_str(&reason.message);
        }
        text
    })
}
