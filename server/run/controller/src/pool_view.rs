//! The view of the NodePools of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use model::disruption_policy::DisruptionReason;
use model::plan::ReasonCode;
use model::pool::NotReady;
use model::resources::NODES;
use model::{MicroUsd, PodKey, PoolName, Resources, Text};

use crate::guardrails::Guardrails;
use crate::nodeclaim::StageKind;
use crate::step_view::StepView;
use cluster::PoolRecord;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// `metadata.name`.
    pub name: PoolName,
    /// `spec.weight`: 0 to 100, higher first.
    pub weight: i32,
    /// Why no instance is launched from it.
    pub closed: Option<Text>,
    /// `spec.limits`.
    pub limits: Resources,
    /// Capacity of its launched NodeClaims, and their number as `nodes`.
    pub usage: Resources,
    /// Price per hour of its machines.
    pub cost: MicroUsd,
    /// How many of its nodes its budgets let be removed at one time, by reason.
    pub allowed_disruptions: [(DisruptionReason, usize); 3],
    /// Its nodes that are being removed or are not ready: they use up the budgets.
    pub leaving: usize,
    pub drifted: usize,
    /// Pods that wait because of its limits.
    pub limited_pods: usize,
}

/// View of the NodePools; one whose launches are held is closed.
pub(crate) fn pools_view(guardrails: &Guardrails, view: &StepView<'_>) -> Vec<PoolView> {
    let mut totals = pool_totals(view);
    let limited = limited_pods(view);
    let pool = |record: &PoolRecord| {
        let name = &record.pool.name;
        let held = guardrails.launch_block(view.cluster, Some(name)).map(|held| held.reason);
        let closed = held.or_else(|| {
            record.pool.not_ready.as_ref().map(|why| match why {
                NotReady::NodeClass(why) | NotReady::NodePool(why) => why.clone(),
            })
        });
        let PoolTotals { usage, cost, machines, leaving, drifted } = totals.remove(name).unwrap_or_default();
        let reasons = [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized];
        let allowed = |reason| (reason, record.disruption.allowance(reason, machines, 0, view.now).min(machines));
        PoolView {
            name: name.clone(),
            weight: record.pool.weight,
            closed,
            limits: record.pool.limits.clone(),
            usage,
            cost,
            allowed_disruptions: reasons.map(allowed),
            leaving,
            drifted,
            limited_pods: limited.get(name).copied().unwrap_or_default(),
        }
    };
    view.state.pools().map(pool).collect()
}

fn pool_totals(view: &StepView<'_>) -> BTreeMap<PoolName, PoolTotals> {
    let mut totals = BTreeMap::<PoolName, PoolTotals>::new();
    for claim in view.state.claims().filter(|claim| claim.is_launched()) {
        let total = totals.entry(claim.pool.clone()).or_default();
        total.usage.add(&claim.capacity);
        total.usage.add(&Resources::from_iter([(NODES, 1)]));
        total.drifted += usize::from(claim.drift.drifted_since.is_some());
    }
    for machine in view.claims.iter() {
        let total = totals.entry(machine.pool().clone()).or_default();
        total.cost.0 += machine.instance().map_or(0, |instance| instance.price.0);
        total.machines += 1;
        let is_unready = || {
            let node = view.state.node_of_claim(machine.name());
            machine.stage() == StageKind::Initialized && node.is_some_and(|node| !node.ready)
        };
        total.leaving += usize::from(machine.stage().is_terminating() || is_unready());
    }
    totals
}

/// Pods that wait because of the limits of a NodePool.
fn limited_pods(view: &StepView<'_>) -> BTreeMap<PoolName, usize> {
    let mut limited = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let waits: BTreeSet<&PodKey> = view.state.unplaced_pods().map(|pod| &pod.key).collect();
    // The latest decision that mentions a pod says why it has no place.
    for unplaced in view.decisions.recent().flat_map(|decision| &decision.unplaced) {
        if !waits.contains(&unplaced.pod) || !seen.insert(&unplaced.pod) {
            continue;
        }
        let of_limits = unplaced.reasons.iter().filter(|reason| reason.code == ReasonCode::Limits);
        for pool in of_limits.filter_map(|reason| reason.pool.as_ref()) {
            *limited.entry(pool.clone()).or_default() += 1;
        }
    }
    limited
}

/// What the machines of a NodePool are in sum.
#[derive(Debug, Default)]
struct PoolTotals {
    usage: Resources,
    cost: MicroUsd,
    machines: usize,
    leaving: usize,
    drifted: usize,
}
