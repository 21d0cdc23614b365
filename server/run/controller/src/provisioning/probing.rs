//! What a cluster tells the memory of refused offerings, and the probes that it asks for.

use crate::context::Context;
use crate::nodeclaim::{ManagedClaim, NodeClaims, PendingRecovery, StageKind};
use crate::provisioning::Provisioner;
use crate::step_view::StepView;
use crate::unavailable_offerings::{Offering, OfferingKey, OfferingOutcome, ProbeAnswer, ProbeHolder};
use crate::{ClusterCall, order};
use cluster::ClusterState;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE, ZONE_ID};
use model::{CapacityType, ClaimName, ClusterName, InstanceTypeName, NodePool, RefusedOption, Timestamp, Zone};

/// The probes to ask for, of offerings that pods of this cluster may need, before the plan that could use them: when
/// a batch window is open, or a plan is due.
pub(crate) fn probes_to_claim(view: &StepView<'_>, ctx: &Context<'_>) -> Vec<OfferingKey> {
    if ctx.offerings.counts().0 == 0 {
        return Vec::new();
    }
    let is_planning = view.is_ready()
        && !view.guardrails.is_quarantined()
        && view.provisioner.is_plan_expected(ctx.settings, ctx.now)
        && (!view.state.demand(ctx.now).is_empty() || has_fixed_pools(view.state));
    let is_wanted = |key: &OfferingKey| is_planning && view.state.pools().any(|pool| may_use(&pool.pool, key));
    let is_under_way = |claim: &ClaimName| {
        let stage = view.claims.get(claim).map(ManagedClaim::stage);
        stage.is_some_and(|stage| matches!(stage, StageKind::Planned | StageKind::Creating | StageKind::Launching))
    };
    ctx.offerings.probes_to_claim(view.cluster, is_wanted, is_under_way, ctx.now)
}

/// Reports what became of a launch in each offering that the cloud tried: refused ones, and that of the instance if
/// there is one. Probes of the others end without an outcome.
pub(crate) fn report_offerings(
    claim: &ClaimName,
    refused: Vec<RefusedOption>,
    ctx: &Context<'_>,
    claims: &NodeClaims,
    state: &ClusterState,
) {
    let Some(machine) = claims.get(claim) else { return };
    let ordered = machine.planned().map(|planned| planned.launch.capacity_type);
    let (asked, instance) = (1, machine.instance());
    if let Some(capacity_type) = ordered.or_else(|| instance.map(|instance| instance.capacity_type)) {
        for RefusedOption { instance_type, zone, cause, code, remedy: _ } in refused {
            let offering = offering(claim, &instance_type, &zone, capacity_type, claims, state);
            let refusal = Some((cause, code));
            ctx.offerings.record_outcome(&OfferingOutcome { offering, asked, launched: 0, refusal }, ctx.now);
        }
    }
    if let Some(instance) = instance {
        let offering = offering(claim, &instance.instance_type, &instance.zone, instance.capacity_type, claims, state);
        ctx.offerings.record_outcome(&OfferingOutcome { offering, asked, launched: 1, refusal: None }, ctx.now);
    }
    ctx.offerings.release_probes(&probe_holder(claim, &ctx.cluster));
}

/// Closes the launch record of `claim`, and removes it from the launches to recover.
pub(crate) fn close_launch(claim: &ClaimName, ctx: &mut Context<'_>, recovery: &mut PendingRecovery) {
    recovery.remove_launch(claim);
    ctx.offerings.release_probes(&probe_holder(claim, &ctx.cluster));
    ctx.call(ClusterCall::CloseLaunch(claim.clone()));
}

/// The launch of `claim` as probes name it.
pub(crate) fn probe_holder(claim: &ClaimName, cluster: &ClusterName) -> ProbeHolder {
    ProbeHolder { cluster: cluster.clone(), claim: claim.clone() }
}

/// Handles the store's answers about probes: the pods that wait are planned with those that were granted.
pub(crate) fn handle_probe_answers(
    answers: Vec<(OfferingKey, ProbeAnswer)>,
    until: Timestamp,
    ctx: &mut Context<'_>,
    provisioner: &mut Provisioner,
) {
    if ctx.offerings.record_answers(answers, until, ctx.now) {
        provisioner.plan_with_probes(ctx.settings, ctx.now);
    }
}

/// All options of the order of `claim`, for a refusal that names none.
pub(crate) fn options_without_capacity(claim: &ClaimName, claims: &NodeClaims) -> Vec<RefusedOption> {
    let planned = claims.get(claim).and_then(|machine| machine.planned());
    let options = planned.into_iter().flat_map(|planned| &planned.launch.options);
    let refused = |option: &model::LaunchOption| {
        RefusedOption::without_capacity(option.instance_type.clone(), option.zone.clone())
    };
    options.map(refused).collect()
}

/// The offering, with the id that the catalogue of the NodePool of `claim` has for its zone.
pub(crate) fn offering(
    claim: &ClaimName,
    instance_type: &InstanceTypeName,
    zone: &Zone,
    capacity_type: CapacityType,
    claims: &NodeClaims,
    state: &ClusterState,
) -> Offering {
    let pool = claims.get(claim).and_then(|machine| state.pool(machine.pool()));
    let zone_id = pool.and_then(|record| order::zone_id(&record.pool, instance_type, zone, capacity_type));
    Offering { instance_type: instance_type.clone(), zone: zone.clone(), zone_id, capacity_type }
}

fn has_fixed_pools(state: &ClusterState) -> bool {
    state.pools().any(|pool| pool.pool.replicas.is_some())
}

/// Whether machines of the NodePool may be launched in the offering.
fn may_use(pool: &NodePool, key: &OfferingKey) -> bool {
    let types = &pool.catalogue.types;
    let Ok(at) = types.binary_search_by(|kind| kind.name.cmp(&key.instance_type)) else { return false };
    let allows = |label: &str, value: &str| pool.requirements.get(label).is_none_or(|allowed| allowed.has(value));
    allows(INSTANCE_TYPE, &key.instance_type)
        && allows(CAPACITY_TYPE, key.capacity_type.as_str())
        && types[at].offerings.iter().any(|offering| {
            let is_it = key.is_in(&offering.zone, offering.labels.get(ZONE_ID), offering.capacity_type);
            is_it && offering.available && allows(ZONE, &offering.zone)
        })
}
