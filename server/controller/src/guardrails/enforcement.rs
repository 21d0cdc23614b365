//! Applies the guardrails to the decisions of one cluster.

use super::rate_limits::Population;
use super::{Block, BlockReason, Freeze, GuardrailsView};
use crate::cluster::{ClusterState, PodRecord};
use crate::cluster_controller::{ClusterController, Context};
use crate::{PlannedMachine, Removal, Settings, UnplacedPod};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode};
use model::pool::NotReady;
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, PodKey, PoolName, Text, Timestamp};

impl ClusterController {
    /// Excludes frozen pools from planning. Existing and launching capacity stays usable.
    pub(crate) fn exclude_frozen_pools(&self, input: &mut PlanningInput, ctx: &Context<'_>) {
        for pool in &mut input.pools {
            if let Some(freeze) = self.freeze_of_launches(&pool.name, ctx) {
                pool.not_ready = Some(NotReady::NodePool(freeze));
            }
        }
    }

    /// The freeze that stops launches of a NodePool.
    pub(crate) fn freeze_of_launches(&self, pool: &PoolName, ctx: &Context<'_>) -> Option<Text> {
        ctx.guardrails.freezes().for_pool(&self.cluster, pool).map(|freeze| Text::from(freeze.to_string()))
    }

    /// The freeze that stops voluntary disruption of a NodePool.
    pub(crate) fn freeze_of_disruption<'c>(&self, pool: &PoolName, ctx: &'c Context<'_>) -> Option<&'c Freeze> {
        ctx.guardrails.freezes().for_disruption(&self.cluster, pool)
    }

    /// Excludes pods in launch backoff from planning.
    pub(crate) fn exclude_backed_off_pods(&mut self, input: &mut PlanningInput, ctx: &Context<'_>) -> Vec<UnplacedPod> {
        let state = &self.state;
        self.guardrails.retain_unbound_pods(|key, uid| {
            state.pod(key).is_some_and(|pod| pod.uid == *uid && lacks_node(state, pod))
        });
        if !self.guardrails.has_unbound_pods() {
            return Vec::new();
        }
        let mut held = Vec::new();
        let guardrails = &self.guardrails;
        let mut waits = Vec::new();
        input.pods.retain(|pod| {
            let key = pod.key();
            let Some(why) = guardrails.launch_delay(&key, ctx.now).map(Block::from) else { return true };
            held.push(unplaced_pod(key, &why));
            waits.push(why);
            false
        });
        for why in waits {
            self.schedule_retry(&why, ctx);
        }
        held
    }

    /// Shortens a plan to the machines that the rate limits admit; the pods of the others wait.
    pub(crate) fn limit_launches(
        &mut self,
        input: &PlanningInput,
        plan: &mut Plan,
        report: &mut PlanReport,
        ctx: &Context<'_>,
    ) -> Vec<UnplacedPod> {
        let prices = plan.nodes.iter().chain(&plan.static_nodes).map(|node| node.price);
        let (admitted, held) =
            ctx.guardrails.admit_launches(&ctx.settings.guardrails, self.population(ctx), prices, ctx.now);
        let Some(held) = held.map(Block::from) else { return Vec::new() };
        let cut: Vec<PlannedNode> = plan.nodes.drain(admitted.min(plan.nodes.len())..).collect();
        plan.static_nodes.truncate(admitted.saturating_sub(plan.nodes.len()));
        report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
        report.lower_bound = MicroUsd(0);
        report.realised_cost = None;
        report.first_cost = None;
        self.schedule_retry(&held, ctx);
        let mut pods: Vec<u32> = cut.iter().flat_map(|node| node.pods.iter().copied()).collect();
        pods.sort_unstable();
        let waiting =
            pods.into_iter().filter_map(|pod| input.pods.get(pod as usize)).map(|pod| unplaced_pod(pod.key(), &held));
        let waiting = waiting.collect();
        self.guardrails.replace_launch_block(Some(held));
        waiting
    }

    /// Schedules planning for the time when the block ends.
    fn schedule_retry(&mut self, held: &Block, ctx: &Context<'_>) {
        let Some(until) = held.until else { return };
        let again = until.max(ctx.now + ctx.settings.retry_delay);
        self.provisioner.schedule_retry(again);
    }

    /// Counts decided launches.
    pub(crate) fn count_launches<'n>(
        &self,
        machines: &[PlannedMachine],
        nodes: impl Iterator<Item = &'n PlannedNode>,
        ctx: &mut Context<'_>,
    ) {
        for (machine, node) in machines.iter().zip(nodes) {
            ctx.guardrails.record_launch(&self.cluster, &machine.claim.name, node.price, ctx.now);
        }
    }

    /// Counts machines that were just discovered in the cluster and are younger than the window:
    /// another process may have launched them, and its fleet counters contain them.
    pub(crate) fn count_discovered_launches(&self, ctx: &mut Context<'_>) {
        let window = ctx.settings.guardrails.launches.window;
        for machine in self.claims.iter().filter(|m| m.decision().is_none() && m.since() == ctx.now) {
            let created = self.state.claim(machine.name()).and_then(|claim| claim.created);
            let known = ctx.guardrails.contains_launch(&self.cluster, machine.name());
            let recent = |at: &Timestamp| !known && ctx.now.duration_since(*at) < window;
            if let Some(at) = created.filter(recent) {
                let price = machine.instance().as_ref().map_or(MicroUsd(0), |instance| instance.price);
                ctx.guardrails.restore_launch(&self.cluster, machine.name(), price, at);
            }
        }
    }

    /// Counts a launched machine for each of its pods that is not bound yet.
    pub(crate) fn count_launch_attempts(&mut self, claim: &ClaimName, ctx: &Context<'_>) {
        let Some(planned) = self.claims.get(claim).and_then(|machine| machine.planned()) else { return };
        for key in &planned.pods {
            if let Some(pod) = self.state.pod(key).filter(|pod| lacks_node(&self.state, pod)) {
                let rule = &ctx.settings.guardrails.launch_backoff;
                self.guardrails.record_unbound_pod(rule, key, &pod.uid, ctx.now);
            }
        }
    }

    /// Whether a removal that was decided for `reason` may still begin.
    pub(crate) fn may_remove(&self, claim: &ClaimName, reason: RemovalReason, ctx: &Context<'_>) -> bool {
        !self.guardrails.is_quarantined()
            && !ctx.guardrails.is_breaker_engaged(&self.cluster)
            && self.freeze_of_removal(claim, reason, ctx).is_none()
            && self.pods_uncertain_until(claim, ctx).is_none()
    }

    /// The freeze that stops launches and removals in the NodePool of `claim`.
    pub(crate) fn freeze_of<'c>(&self, claim: &ClaimName, ctx: &'c Context<'_>) -> Option<&'c Freeze> {
        ctx.guardrails.freezes().for_pool(&self.cluster, self.pool_of(claim)?)
    }

    /// The freeze that stops a removal of `claim` for `reason`: of voluntary ones, also a freeze of
    /// disruption alone.
    pub(crate) fn freeze_of_removal<'c>(
        &self,
        claim: &ClaimName,
        reason: RemovalReason,
        ctx: &'c Context<'_>,
    ) -> Option<&'c Freeze> {
        if reason.is_forceful() {
            return self.freeze_of(claim, ctx);
        }
        self.freeze_of_disruption(self.pool_of(claim)?, ctx)
    }

    /// The NodePool of `claim`.
    pub(crate) fn pool_of(&self, claim: &ClaimName) -> Option<&PoolName> {
        let pool = self.claims.get(claim).map(|machine| machine.pool());
        pool.or_else(|| self.state.claim(claim).map(|claim| &claim.pool))
    }

    /// Returns those of the `removals` for `reason` that may begin. The others are evaluated again
    /// later.
    pub(crate) fn limit_removals(
        &mut self,
        mut removals: Vec<Removal>,
        reason: RemovalReason,
        ctx: &mut Context<'_>,
    ) -> Vec<Removal> {
        self.exclude_uncertain_removals(&mut removals, ctx);
        if removals.is_empty() {
            return removals;
        }
        if let Some(breaker) = ctx.guardrails.engaged_breaker(&ctx.settings.guardrails, &self.cluster) {
            let held = Block { reason: BlockReason::CircuitBreaker(breaker), until: None };
            self.guardrails.replace_removal_block(Some(held));
            return Vec::new();
        }
        let freeze_of = |removal: &Removal| self.freeze_of_removal(&removal.claim, reason, ctx);
        let frozen = removals.iter().find_map(freeze_of).cloned();
        removals.retain(|removal| freeze_of(removal).is_none());
        let prices: Vec<MicroUsd> = removals.iter().map(|removal| self.price_of(&removal.claim)).collect();
        let settings = &ctx.settings.guardrails;
        let (admitted, held) = ctx.guardrails.admit_removals(settings, self.population(ctx), prices, ctx.now);
        removals.truncate(admitted);
        let frozen = frozen.map(|freeze| Block { reason: BlockReason::Frozen(freeze), until: None });
        let held = held.map(Block::from).or(frozen);
        if let Some(until) = held.as_ref().and_then(|held| held.until) {
            self.disruption.schedule_at(until);
        }
        if held.is_some() {
            self.guardrails.replace_removal_block(held);
        }
        removals
    }

    /// Counts decided removals.
    pub(crate) fn count_removals(&self, removals: &[Removal], ctx: &mut Context<'_>) {
        for removal in removals {
            let price = self.price_of(&removal.claim);
            ctx.guardrails.record_removal(&self.cluster, &removal.claim, price, ctx.now);
        }
    }

    pub(crate) fn price_of(&self, claim: &ClaimName) -> MicroUsd {
        let instance = self.claims.get(claim).and_then(|machine| machine.instance());
        instance.map_or(MicroUsd(0), |instance| instance.price)
    }

    pub(crate) fn population(&self, ctx: &Context<'_>) -> Population<'_> {
        ctx.guardrails.population(&self.cluster, self.remaining())
    }

    /// Number of machines that are not marked for removal.
    pub(crate) fn remaining(&self) -> usize {
        let staying = self.claims.iter().filter(|machine| machine.termination_reason().is_none()).count();
        staying.saturating_sub(self.decisions.removals())
    }

    /// Schedules planning and a removal pass at once: the limits of the fleet have changed.
    pub(crate) fn schedule_now(&mut self, now: Timestamp) {
        self.disruption.schedule_now();
        self.provisioner.replan_for_changed_limits(now);
    }

    /// View of the guardrails.
    pub(crate) fn guardrails_view(&self, guardrails: &super::Guardrails, settings: &Settings) -> GuardrailsView {
        let suspicion = self.gc.suspicion();
        let suspicion = suspicion.map(|suspicion| (Text::from(suspicion.loss.to_string()), suspicion.since));
        GuardrailsView {
            untrusted_listing: suspicion,
            disruption_mode: settings.disruption.mode_of(&self.cluster),
            ..GuardrailsView::of(guardrails, &self.guardrails, &settings.guardrails, &self.cluster)
        }
    }
}

/// Whether the pod needs a machine: it has no node, or its node is terminating or being replaced.
pub(super) fn lacks_node(state: &ClusterState, pod: &PodRecord) -> bool {
    pod.node.as_ref().is_none_or(|node| state.are_pods_moved_from(node))
}

fn unplaced_pod(pod: PodKey, held: &Block) -> UnplacedPod {
    let reason = Reason { pool: None, code: ReasonCode::HeldBack, message: held.reason.to_string() };
    UnplacedPod { pod, reasons: vec![reason] }
}
