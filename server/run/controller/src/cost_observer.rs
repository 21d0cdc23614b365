//! Observes what the machines of the cluster cost, and has it written for the reports of spend.

use std::hash::{Hash, Hasher};

use cost::{CostedMachine, ObservedMachine};
use model::{ClusterName, Millis, Timestamp};
use rustc_hash::FxHasher;

use crate::ClusterCall;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::cost_records::{CostRecords, FIRST_WRITE_WITHIN, Observed};
use crate::cost_view::{CostView, NodeRequests};
use crate::history::History;
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::{ManagedClaim, StageKind};
use crate::step_view::StepView;
use cluster::ClusterState;

impl ClusterController {
    /// Observes what machines cost if it is time for it, and writes it. Before the first accepted snapshot not all machines are
    /// known; once they are, they go on costing while the agent is away.
    pub(crate) fn record_costs(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.now;
        if self.history.costs.is_new() && self.is_ready() {
            self.history.costs.begin(now + first_write_delay(&self.cluster));
        } else if next_cost_wakeup(&mut self.claims, &self.history, &self.state).is_none_or(|at| at > now) {
            return;
        }
        let machines = observed_machines(ctx, &self.step_view(ctx.now));
        let claims = &self.claims;
        self.history.costs.forget_removed(|claim| claims.get(claim).is_some(), now);
        let observed = Observed { at: now, version: self.state.version(), stages: self.claims.stage_fingerprint() };
        let intervals = self.history.costs.observe(observed, machines);
        if !intervals.is_empty() {
            ctx.call(ClusterCall::RecordCosts(intervals));
        }
    }
}

pub(crate) fn observed_machines(ctx: &mut Context<'_>, view: &StepView<'_>) -> Vec<ObservedMachine> {
    let guardrails = view.guardrails_view(&ctx.guardrails);
    ctx.release_guardrails();
    let costs = CostView::new(view, &guardrails);
    let runs = |machine: &&ManagedClaim| machine.stage() != StageKind::Deleting;
    let observed = view.claims.iter().filter(runs).filter_map(|machine| {
        let node = view.state.node_of_claim(machine.name());
        let requests = node.map(|node| NodeRequests::of(view.state.pods_on(&node.name)));
        let parts = costs.parts(machine, node.zip(requests.as_ref()));
        Some(ObservedMachine {
            machine: costed(machine, &view.history.costs)?,
            since: known_since(machine, view),
            parts,
        })
    });
    observed.collect()
}

/// When costs are observed next without an event.
pub(crate) fn next_cost_wakeup(claims: &mut NodeClaims, history: &History, state: &ClusterState) -> Option<Timestamp> {
    history.costs.observation_due(state.version(), claims.stage_fingerprint())
}

/// Clusters that a process acquires together do not write together.
fn first_write_delay(cluster: &ClusterName) -> Millis {
    let mut hasher = FxHasher::default();
    cluster.hash(&mut hasher);
    let seconds = hasher.finish() % FIRST_WRITE_WITHIN.as_secs().unsigned_abs();
    Millis::from_secs(i64::try_from(seconds).unwrap_or_default())
}

fn costed(machine: &ManagedClaim, records: &CostRecords) -> Option<CostedMachine> {
    let instance = machine.instance()?;
    let removed_by = records.removed_by(machine.name()).filter(|_| machine.stage().is_terminating());
    Some(CostedMachine {
        claim: machine.name().clone(),
        pool: machine.pool().clone(),
        provider_id: machine.provider_id().clone(),
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: instance.capacity_type,
        price: instance.price,
        launched_by: machine.decision().map(|decision| decision.0),
        removed_by,
        moved: records.moved(machine.name()).to_vec(),
    })
}

/// Since when a machine costs something, if it is observed for the first time. One that an earlier owner launched after
/// its last write is charged since its NodeClaim was created, a few seconds before.
fn known_since(machine: &ManagedClaim, view: &StepView<'_>) -> Timestamp {
    let first = if machine.stage() == StageKind::Launched { machine.since() } else { view.now };
    let created = view.state.claim(machine.name()).and_then(|claim| claim.created);
    let is_of_earlier_owner =
        |at: &Timestamp| machine.decision().is_none() && view.history.costs.is_after_restored(*at);
    created.filter(is_of_earlier_owner).map_or(first, |at| at.min(first))
}

#[cfg(test)]
mod tests;
