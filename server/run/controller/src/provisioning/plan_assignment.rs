//! What plans of provisioning, of disruption and of holds have in common: the restriction of their input, and the assignment of
//! their machines and pods.

use super::LaunchView;
use super::launch_lane::LaneFacts;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::enforcement::{count_launches, exclude_backed_off_pods, exclude_held_pools};
use crate::guardrails::{BackedOffPods, ClusterGuardrails};
use crate::launch_template::launch_template;
use crate::nodeclaim::ManagedClaim;
use crate::nodeclaim::NodeClaims;
use crate::nomination::Nominator;
use crate::provisioning::Provisioner;
use crate::provisioning::probing::probe_holder;
use crate::unavailable_offerings::Probing;
use crate::{DecisionId, PlannedMachine, order};
use cluster::assignments::NOMINATION_WINDOW;
use cluster::{ClusterState, Target};
use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::{ClaimName, ClusterName, NodeName, NodePool, NodeStage, PodKey, Text, Timestamp};

/// Orders, assumes and counts the machines of a plan, and assigns its pods: the number of the decision, its
/// launches and its assignments to existing capacity.
pub(crate) fn assign_plan(
    input: &PlanningInput,
    plan: &Plan,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    state: &mut CopyOnWrite<ClusterState>,
    provisioner: &Provisioner,
    nominator: &mut Nominator,
) -> (DecisionId, Vec<PlannedMachine>, Vec<(PodKey, NodeName)>) {
    let id = DecisionId(ctx.next_id());
    let machines = assume_machines(input, plan, id, ctx, claims, state, provisioner);
    count_launches(input, &machines, planned_nodes(plan), ctx);
    let placed = assign_placements(input, plan, ctx.now, state);
    if !placed.is_empty() {
        nominator.schedule_nominations(ctx.now);
    }
    (id, machines, placed)
}

/// Orders the planned machines, and assumes them with their pods: no other plan places these.
pub(crate) fn assume_machines(
    input: &PlanningInput,
    plan: &Plan,
    id: DecisionId,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    state: &mut CopyOnWrite<ClusterState>,
    provisioner: &Provisioner,
) -> Vec<PlannedMachine> {
    // Machines are assumed before pods are assigned to them, and all before the decision is
    // recorded.
    let interrupted = &provisioner.interrupted_owners;
    let lanes = LaneFacts { state, claims, interrupted };
    let machines: Vec<PlannedMachine> = planned_nodes(plan)
        .map(|node| {
            let (pool, identity) = (&input.pools[node.pool as usize].name, ctx.settings.identity);
            let name = order::generate_claim_name(&ctx.cluster, state, pool, identity, || ctx.next_id());
            let mut machine = order::machine_orders(&ctx.cluster, &ctx.uid, state, input, node, name, id);
            let holder = probe_holder(&machine.claim.name, &ctx.cluster);
            ctx.offerings.take_options(&mut machine.launch.options, node.capacity_type, &holder, ctx.now);
            let (pool, options) = (&input.pools[node.pool as usize], &machine.launch.options);
            machine.launch.template = launch_template(state, ctx.settings, pool, &machine.claim, options);
            machine.launch.lane = lanes.lane_of(node, input);
            machine
        })
        .collect();
    for (planned, node) in machines.iter().zip(planned_nodes(plan)) {
        let pool = &input.pools[node.pool as usize];
        state.assume_claim(order::expected_claim(planned, node, pool, ctx.now));
        // Pods of a hold do not exist: their places are bookings.
        let keys = node.pods.iter().map(|pod| input.pods[*pod as usize].key());
        for key in keys.filter(|key| state.pod(key).is_some()).collect::<Vec<_>>() {
            state.assign_pod(key, Target::Claim(planned.claim.name.clone()), None);
        }
        let revision = state.pool(&pool.name).map(|record| record.revision.clone()).unwrap_or_default();
        let machine = ManagedClaim::from_decision(planned.clone(), id, revision, ctx.now);
        claims.insert(machine);
    }
    machines
}

fn assign_placements(
    input: &PlanningInput,
    plan: &Plan,
    now: Timestamp,
    state: &mut CopyOnWrite<ClusterState>,
) -> Vec<(PodKey, NodeName)> {
    let soon = now + NOMINATION_WINDOW;
    let mut placed = Vec::new();
    for (pod, node) in &plan.placements {
        let node = &input.nodes[*node as usize];
        let claim = match node.stage {
            NodeStage::InFlight => Some(ClaimName::from(node.name.as_text())),
            NodeStage::Registered => {
                let record = state.node(&node.name);
                record.and_then(|record| state.claim_of_node(record)).map(|claim| claim.name.clone())
            }
            NodeStage::Initialized | NodeStage::Deleting => None,
        };
        let key = input.pods[*pod as usize].key();
        if state.pod(&key).is_none() {
            continue;
        }
        placed.push((key.clone(), node.name.clone()));
        match claim {
            Some(claim) => state.assign_pod_to_claim(key, claim, now),
            None => state.assign_pod(key, Target::Node(node.name.clone()), Some(soon)),
        }
    }
    placed
}

/// Whether the NodePool has this revision still and may launch the planned machine.
pub(crate) fn may_launch(
    pool: &NodePool,
    node: &PlannedNode,
    revision: &Text,
    ctx: &Context<'_>,
    guardrails: &ClusterGuardrails,
    state: &ClusterState,
) -> bool {
    let view = launch_view(&ctx.cluster, state, guardrails, ctx);
    view.launchable_pool(&pool.name, revision).is_some()
        && view.has_available(&order::launch_options(pool, node), node.capacity_type, None)
}

/// Excludes what guardrails hold back, and unavailable offerings. Returns the pods for which no machine may be launched.
pub(crate) fn restrict_input(
    input: &mut PlanningInput,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    provisioner: &mut Provisioner,
    state: &ClusterState,
) -> BackedOffPods {
    let backed_off = exclude_backed_off_pods(input, ctx, guardrails, provisioner, state);
    exclude_held_pools(input, ctx);
    for pool in &mut input.pools {
        pool.catalogue = ctx.offerings.mask_catalogue(&pool.catalogue, Probing::Allowed, ctx.now);
    }
    backed_off
}

/// Date of the prices of the NodePools that the machines are launched for; `None` without machines.
pub(crate) fn price_date(machines: &[PlannedMachine], state: &ClusterState) -> Option<Text> {
    let pools = machines.iter().filter_map(|machine| state.pool(&machine.claim.pool));
    pools.filter_map(|record| record.meta.price_date.clone()).next()
}

/// The nodes of a plan that are launched, in order.
fn planned_nodes(plan: &Plan) -> impl Iterator<Item = &PlannedNode> {
    plan.nodes.iter().chain(&plan.static_nodes)
}

pub(super) fn launch_view<'v>(
    cluster: &'v ClusterName,
    state: &'v ClusterState,
    guardrails: &ClusterGuardrails,
    ctx: &'v Context<'_>,
) -> LaunchView<'v> {
    LaunchView {
        cluster,
        state,
        quarantined: guardrails.is_quarantined(),
        guardrails: &ctx.guardrails,
        offerings: ctx.offerings,
        now: ctx.now,
    }
}
