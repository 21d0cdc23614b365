//! Applies the guardrails to the decisions of one cluster.

use std::collections::BTreeMap;

use super::launch_backoff::{BackedOffPods, UnboundLaunch};
use super::rate_limits::{LimitBlock, Population};
use super::{Block, Guard, ReplacementRoom};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::DecisionQueue;
use crate::disruption::Disruption;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::snapshot_acceptance::exclude_uncertain_removals;
use crate::nodeclaim::NodeClaims;
use crate::provisioning::Provisioner;
use crate::step_view::StepView;
use crate::{PlannedMachine, Removal, UnplacedPod};
use cluster::{ClusterState, PodRecord};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode};
use model::pool::NotReady;
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, Pod, PodKey, Text, Timestamp};

impl StepView<'_> {
    /// Whether a removal that was decided for `reason` may still begin.
    pub(crate) fn may_remove(&self, claim: &ClaimName, reason: RemovalReason, ctx: &Context<'_>) -> bool {
        !self.guardrails.is_quarantined()
            && self.removal_block(claim, reason, &ctx.guardrails).is_none()
            && self.pods_uncertain_until(claim).is_none()
    }
}

impl ClusterController {
    /// Returns those of the `removals` for `reason` that may begin. The others are evaluated again
    /// later.
    pub(crate) fn limit_removals(
        &mut self,
        mut removals: Vec<Removal>,
        reason: RemovalReason,
        ctx: &mut Context<'_>,
    ) -> Vec<Removal> {
        if let Some(again) = exclude_uncertain_removals(&mut removals, &self.step_view(ctx.now)) {
            self.disruption.schedule_at(again);
        }
        if removals.is_empty() {
            return removals;
        }
        // What is held costs the price of all but that of what is admitted.
        let all = self.claims.price_of_removals(&removals);
        let view = self.step_view(ctx.now);
        let mut standing = None;
        removals.retain(|removal| {
            let block = view.removal_block(&removal.claim, reason, &ctx.guardrails);
            let passes = block.is_none();
            standing = standing.take().or(block);
            passes
        });
        // Removals that were reserved when their replacement began are admitted already.
        let is_reserved = |removal: &Removal| ctx.guardrails.removals.is_reserved(&self.cluster, &removal.claim);
        let (reserved, mut rest): (Vec<Removal>, Vec<Removal>) = removals.into_iter().partition(is_reserved);
        let (admitted, held) = admit_removals(&rest, ctx, &self.claims, &self.decisions);
        rest.truncate(admitted);
        let removals: Vec<Removal> = reserved.into_iter().chain(rest).collect();
        let price = MicroUsd(all.0.saturating_sub(self.claims.price_of_removals(&removals).0));
        let held = held.map(Block::from).or(standing).map(|held| Block { price, ..held });
        if let Some(until) = held.as_ref().and_then(|held| held.until) {
            self.disruption.schedule_at(until);
        }
        if held.is_some() {
            self.guardrails.replace_removal_block(held);
        }
        removals
    }
}

/// Those of `removals` whose replacements the limits of launches admit, one machine each at the price of what it
/// replaces. The plan of their pods finds what is launched.
pub(crate) fn limit_replacements(
    mut removals: Vec<Removal>,
    ctx: &Context<'_>,
    disruption: &mut Disruption,
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> Vec<Removal> {
    if removals.is_empty() || !ctx.disabled_guards.is_enabled(Guard::ReservedRemoval) {
        return removals;
    }
    let prices: Vec<MicroUsd> = removals.iter().map(|removal| claims.price_of(&removal.claim)).collect();
    let settings = &ctx.settings.guardrails;
    let (admitted, held) = ctx.guardrails.admit_launches(settings, population(ctx, claims, decisions), prices, ctx.now);
    removals.truncate(admitted);
    if let Some(held) = held.map(Block::from) {
        held.until.into_iter().for_each(|until| disruption.schedule_at(until));
        guardrails.replace_removal_block(Some(held));
    }
    removals
}

/// Shortens a plan to the machines that the rate limits admit beside those that remain; the pods of the others wait.
pub(crate) fn limit_launches(
    input: &PlanningInput,
    plan: &mut Plan,
    report: &mut PlanReport,
    remaining: usize,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    provisioner: &mut Provisioner,
) -> Vec<UnplacedPod> {
    let prices = plan.nodes.iter().chain(&plan.static_nodes);
    let prices = prices.map(|node| node.charged_price(&input.pools[node.pool as usize]));
    let (admitted, held) = ctx.guardrails.admit_launches(
        &ctx.settings.guardrails,
        ctx.guardrails.population(&ctx.cluster, remaining),
        prices,
        ctx.now,
    );
    let Some(held) = held.map(Block::from) else { return Vec::new() };
    let cut: Vec<PlannedNode> = plan.nodes.drain(admitted.min(plan.nodes.len())..).collect();
    plan.static_nodes.truncate(admitted.saturating_sub(plan.nodes.len()));
    report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
    report.lower_bound = MicroUsd(0);
    report.realised_cost = None;
    report.first_cost = None;
    schedule_retry(&held, ctx, provisioner);
    let mut pods: Vec<u32> = cut.iter().flat_map(|node| node.pods.iter().copied()).collect();
    pods.sort_unstable();
    let waiting =
        pods.into_iter().filter_map(|pod| input.pods.get(pod as usize)).map(|pod| unplaced_pod(pod.key(), &held));
    let waiting = waiting.collect();
    guardrails.replace_launch_block(Some(held));
    waiting
}

/// Reserves the removals of machines whose replacement begins, all of them or none; returns whether it did. So no
/// machine is launched for one that may not be removed then.
pub(crate) fn reserve_removals(
    removals: &[Removal],
    ctx: &mut Context<'_>,
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> bool {
    if !ctx.disabled_guards.is_enabled(Guard::ReservedRemoval) {
        return true;
    }
    let (admitted, held) = admit_removals(removals, ctx, claims, decisions);
    if admitted < removals.len() {
        guardrails.replace_removal_block(held.map(Block::from));
        return false;
    }
    for removal in removals {
        reserve_removal(&removal.claim, ctx, claims);
    }
    true
}

pub(crate) fn count_removals(removals: &[Removal], ctx: &mut Context<'_>, claims: &NodeClaims) {
    for removal in removals {
        count_removal(&removal.claim, ctx, claims);
    }
}

/// A decided removal is not carried out. While the machine is replaced, it is decided again.
pub(crate) fn cancel_removal(claim: &ClaimName, ctx: &mut Context<'_>, claims: &NodeClaims, state: &ClusterState) {
    ctx.guardrails.removals.remove(&ctx.cluster, claim);
    if state.replacement_of(claim).is_some() {
        reserve_removal(claim, ctx, claims);
    }
}

/// Reserves the removal of a machine whose replacement goes on.
pub(crate) fn reserve_removal(claim: &ClaimName, ctx: &mut Context<'_>, claims: &NodeClaims) {
    if ctx.disabled_guards.is_enabled(Guard::ReservedRemoval) {
        ctx.guardrails.removals.reserve(&ctx.cluster, claim, claims.price_of(claim), ctx.now);
    }
}

pub(crate) fn population<'c>(ctx: &'c Context<'_>, claims: &NodeClaims, decisions: &DecisionQueue) -> Population<'c> {
    ctx.guardrails.population(&ctx.cluster, remaining(claims, decisions))
}

/// What the rate limits leave for replacements in this cluster; `None` if nothing is reserved for them.
pub(crate) fn replacement_room(
    ctx: &Context<'_>,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> Option<ReplacementRoom> {
    let population = population(ctx, claims, decisions);
    // A machine is replaced by two at most.
    let launches = population.machines.saturating_mul(2);
    let is_enabled = ctx.disabled_guards.is_enabled(Guard::ReservedRemoval);
    is_enabled.then(|| ctx.guardrails.replacement_room(&ctx.settings.guardrails, population, launches, ctx.now))
}

/// How many of `removals`, in this order, the rate limits admit now, and why not more.
fn admit_removals(
    removals: &[Removal],
    ctx: &Context<'_>,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> (usize, Option<LimitBlock>) {
    let prices: Vec<MicroUsd> = removals.iter().map(|removal| claims.price_of(&removal.claim)).collect();
    removal_headroom(prices, ctx, claims, decisions)
}

/// How many of the machines with these prices the rate limit on removals admits, and why not
/// more.
pub(crate) fn removal_headroom(
    prices: Vec<MicroUsd>,
    ctx: &Context<'_>,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) -> (usize, Option<LimitBlock>) {
    ctx.guardrails.admit_removals(&ctx.settings.guardrails, population(ctx, claims, decisions), prices, ctx.now)
}

/// Counts a removal against the rate limit.
pub(crate) fn count_removal(claim: &ClaimName, ctx: &mut Context<'_>, claims: &NodeClaims) {
    ctx.guardrails.removals.record(&ctx.cluster, claim, claims.price_of(claim), ctx.now);
}

/// Counts the machine of `claim`, launched at `at`, for the pod, if that still needs one. Nobody tries to bind a pod that
/// runs, on a machine that it leaves: the machine launched for it before has failed it only if no other pod uses that.
pub(crate) fn count_unbound_launch(
    key: &PodKey,
    claim: &ClaimName,
    at: Timestamp,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    state: &ClusterState,
) {
    let Some(pod) = state.pod(key).filter(|pod| lacks_node(state, pod)) else { return };
    let earlier = guardrails.last_launch_for(key).filter(|_| pod.node.is_some());
    let is_used = |claim: &ClaimName| {
        let node = state.node_of_claim(claim);
        node.is_some_and(|node| state.pods_on(&node.name).any(|pod| pod.is_bound_workload()))
    };
    let launch = UnboundLaunch { claim, at, counts: !earlier.is_some_and(is_used) };
    guardrails.record_unbound_pod(&ctx.settings.guardrails.launch_backoff, key, &pod.uid, launch);
}

/// Counts a launched machine for each of its pods that is not bound yet.
pub(crate) fn count_launch_attempts(
    claim: &ClaimName,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
    state: &ClusterState,
) {
    let planned = claims.get(claim).and_then(|machine| machine.planned());
    let pods = planned.map(|planned| planned.pods.clone()).unwrap_or_default();
    for key in &pods {
        count_unbound_launch(key, claim, ctx.now, ctx, guardrails, state);
    }
}

/// Has no machine launched for pods in launch backoff, which are placed on what exists all the same. Beside other pods
/// they are left to the next plan of the round, which takes them alone and launches nothing for pods.
///
/// A plan of some pods may launch for each of them, so that these two kinds are never in one plan.
pub(crate) fn exclude_backed_off_pods(
    input: &mut PlanningInput,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    provisioner: &mut Provisioner,
    state: &ClusterState,
) -> BackedOffPods {
    guardrails
        .retain_unbound_pods(|key, uid| state.pod(key).is_some_and(|pod| pod.uid == *uid && lacks_node(state, pod)));
    let mut backed_off = BackedOffPods::default();
    if !guardrails.has_unbound_pods() {
        return backed_off;
    }
    let delay = |pod: &Pod| guardrails.launch_delay(&pod.key(), ctx.now).map(Block::from);
    let delayed: BTreeMap<PodKey, Block> = input.pods.iter().filter_map(|pod| Some((pod.key(), delay(pod)?))).collect();
    if delayed.is_empty() {
        return backed_off;
    }
    if delayed.len() < input.pods.len() {
        input.pods.retain(|pod| !delayed.contains_key(&pod.key()));
        backed_off.deferred = delayed.into_keys().collect();
        return backed_off;
    }
    for pool in input.pools.iter_mut().filter(|pool| pool.replicas.is_none()) {
        pool.not_ready.get_or_insert(NotReady::NodePool(Text::from(IN_BACKOFF)));
    }
    for why in delayed.values() {
        schedule_retry(why, ctx, provisioner);
    }
    backed_off.held = delayed.into_iter().map(|(pod, why)| unplaced_pod(pod, &why)).collect();
    backed_off
}

/// Schedules planning for the time when the block ends.
pub(crate) fn schedule_retry(held: &Block, ctx: &Context<'_>, provisioner: &mut Provisioner) {
    let Some(until) = held.until else { return };
    let again = until.max(ctx.now + ctx.settings.retry_delay);
    provisioner.schedule_retry(again);
}

/// Number of machines that are not marked for removal.
pub(crate) fn remaining(claims: &NodeClaims, decisions: &DecisionQueue) -> usize {
    let staying = claims.iter().filter(|machine| machine.termination_reason().is_none()).count();
    staying.saturating_sub(decisions.removals())
}

/// Counts machines that were just discovered in the cluster and are younger than the window:
/// another process may have launched them, and its fleet counters contain them.
pub(crate) fn count_discovered_launches(ctx: &mut Context<'_>, claims: &NodeClaims, state: &ClusterState) {
    let window = ctx.settings.guardrails.launches.window;
    for machine in claims.iter().filter(|m| m.decision().is_none() && m.since() == ctx.now) {
        let created = state.claim(machine.name()).and_then(|claim| claim.created);
        let known = ctx.guardrails.launches.contains(&ctx.cluster, machine.name());
        let recent = |at: &Timestamp| !known && ctx.now.duration_since(*at) < window;
        if let Some(at) = created.filter(recent) {
            let price = machine.instance().as_ref().map_or(MicroUsd(0), |instance| instance.price);
            ctx.guardrails.launches.restore(&ctx.cluster, machine.name(), price, at);
        }
    }
}

/// Excludes NodePools from planning whose launches are held. Existing and launching capacity stays usable.
pub(crate) fn exclude_held_pools(input: &mut PlanningInput, ctx: &Context<'_>) {
    for pool in &mut input.pools {
        if let Some(held) = ctx.launch_block(&pool.name) {
            pool.not_ready = Some(NotReady::NodePool(held));
        }
    }
}

pub(crate) fn count_launches<'n>(
    input: &PlanningInput,
    machines: &[PlannedMachine],
    nodes: impl Iterator<Item = &'n PlannedNode>,
    ctx: &mut Context<'_>,
) {
    for (machine, node) in machines.iter().zip(nodes) {
        let price = node.charged_price(&input.pools[node.pool as usize]);
        ctx.guardrails.launches.record(&ctx.cluster, &machine.claim.name, price, ctx.now);
    }
}

/// Why a NodePool launches nothing in a plan of pods in launch backoff.
const IN_BACKOFF: &str = "no machine is launched for pods in launch backoff";

/// Whether the pod needs a machine: it has no node, or its node is terminating or being replaced.
pub(super) fn lacks_node(state: &ClusterState, pod: &PodRecord) -> bool {
    pod.node.as_ref().is_none_or(|node| state.are_pods_moved_from(node))
}

fn unplaced_pod(pod: PodKey, held: &Block) -> UnplacedPod {
    let reason = Reason { pool: None, code: ReasonCode::HeldBack, message: held.reason.to_string() };
    UnplacedPod { pod, reasons: [reason].into() }
}
