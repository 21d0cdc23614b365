//! Node repair: removes machines whose Node stays unhealthy (Karpenter: node repair, behind the feature gate
//! `NodeRepair`).
//!
//! A Node is unhealthy when one of its conditions matches a repair policy. Its machine is removed when the
//! condition has had that status for the toleration of the policy, whatever budgets, PodDisruptionBudgets
//! and do-not-disrupt say, unless repairs are [voluntary](super::voluntary_repair): its pods are deleted at once. A repair is blocked in NodePools with too many
//! unhealthy Nodes, whose cause is probably not the machines.

use std::collections::BTreeMap;

use crate::disruption::method::{BlockedRepair, DisruptionView, Method};
use crate::disruption::selection::{
    MachineNames, SelectionFacts, SelectionInput, UnhealthyMachine, UnhealthyMachines, UnhealthyPool,
};
use crate::disruption::settings::RepairMode;
use crate::nodeclaim::DrainTerms;
use cluster::{ClaimRecord, NodeRecord, UnmetCondition};
use model::removal::RemovalReason;
use model::repair_policy;
use model::{PoolName, Text, Timestamp};

#[derive(Debug)]
pub(crate) struct Repair;

impl Method for Repair {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Unhealthy
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let mut facts = UnhealthyMachines::default();
        if view.feature_gates.node_repair && view.repair == RepairMode::Forceful {
            for (pool, nodes) in nodes_by_pool(view) {
                let unhealthy = nodes.iter().filter_map(|node| unhealthy(*node));
                let machines: Vec<UnhealthyMachine> = unhealthy.map(|one| one.machine(view)).collect();
                if !machines.is_empty() {
                    facts.pools.insert(pool.clone(), UnhealthyPool { nodes: nodes.len(), machines });
                }
            }
        }
        self.input(view, SelectionFacts::Unhealthy(facts))
    }

    fn drain_terms(&self, view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms { deadline: Some(view.now), ..DrainTerms::default() }
    }
}

type NodeOfClaim<'v> = (&'v NodeRecord, &'v ClaimRecord);

/// The Nodes of this server's NodeClaims in managed NodePools, by NodePool.
fn nodes_by_pool<'v>(view: &DisruptionView<'v>) -> BTreeMap<&'v PoolName, Vec<NodeOfClaim<'v>>> {
    let state = view.state;
    let mut pools: BTreeMap<&PoolName, Vec<NodeOfClaim<'v>>> = BTreeMap::new();
    for node in state.nodes() {
        let Some(claim) = state.claim_of_node(node).filter(|claim| claim.ours) else { continue };
        let is_managed = state.pool(&claim.pool).is_some_and(|pool| state.unmanaged_reason(pool).is_none());
        if is_managed {
            pools.entry(&claim.pool).or_default().push((node, claim));
        }
    }
    pools
}

/// A Node with a condition that matches a policy.
#[derive(Debug)]
pub(super) struct Unhealthy<'v> {
    pub node: &'v NodeRecord,
    claim: &'v ClaimRecord,
    condition: &'v UnmetCondition,
    /// When the machine is removed for it.
    pub due: Timestamp,
}

/// The condition of the Node that is due first.
pub(super) fn unhealthy<'v>((node, claim): NodeOfClaim<'v>) -> Option<Unhealthy<'v>> {
    let due = |condition: &UnmetCondition| {
        Some(condition.since + repair_policy::toleration(&condition.kind, &condition.status)?)
    };
    let matching = node.unmet.iter().filter_map(|condition| Some((due(condition)?, condition)));
    let (due, condition) = matching.min_by_key(|(due, _)| *due)?;
    Some(Unhealthy { node, claim, condition, due })
}

fn is_repairable(one: &Unhealthy<'_>, view: &DisruptionView<'_>) -> bool {
    !one.node.do_not_repair && !one.node.deleting && !view.is_leaving(one.claim)
}

/// The repair of a Node that is due now or later.
#[derive(Debug)]
pub(crate) struct DueRepair {
    pub evidence: Text,
    pub due: Timestamp,
    /// Why no Node of its NodePool is repaired.
    pub blocked: Option<BlockedRepair>,
}

/// The repair of the Node of `claim`; `None` while it is healthy. The feature gate is not asked.
pub(crate) fn repair_of(node: &NodeRecord, claim: &ClaimRecord, view: &DisruptionView<'_>) -> Option<DueRepair> {
    let one = unhealthy((node, claim))?;
    let nodes = nodes_by_pool(view).remove(&claim.pool).unwrap_or_default();
    let sick = nodes.iter().filter(|node| unhealthy(**node).is_some()).count();
    let blocked = repair_policy::is_blocked(sick, nodes.len());
    let UnmetCondition { kind, status, .. } = one.condition;
    Some(DueRepair {
        evidence: Text::from(format!("its condition {kind} is {status}")),
        due: one.due,
        blocked: blocked.then_some(BlockedRepair { unhealthy: sick, nodes: nodes.len() }),
    })
}

impl Unhealthy<'_> {
    /// Why the machine is removed, as a sentence.
    pub fn why(&self) -> Text {
        let UnmetCondition { kind, status, since } = self.condition;
        let minutes = (self.due - *since).as_mins();
        Text::from(format!("condition {kind} of node {} has been {status} for {minutes} minutes", self.node.name))
    }

    fn machine(&self, view: &DisruptionView<'_>) -> UnhealthyMachine {
        let (claim, node) = (self.claim.name.clone(), self.node.name.clone());
        UnhealthyMachine {
            machine: MachineNames { claim, node, pool: self.claim.pool.clone() },
            why: self.why(),
            due: self.due,
            is_repairable: is_repairable(self, view),
        }
    }
}

#[cfg(test)]
mod tests;
