//! What removals use up together: the budgets of NodePools, the evictions that PodDisruptionBudgets
//! allow, and what guardrails let be removed and launched.

use std::collections::BTreeMap;

use model::disruption_plan::MachineAllowance;
use model::disruption_policy::DisruptionReason;
use model::plan::PlannedNode;
use model::removal::{PodBudget, RemovalReason};
use model::{DisruptionPolicy, MicroUsd, NodePool, NodeStage, PoolName, Text, Timestamp};

use crate::candidates::Candidate;
use crate::{Block, BlockCode, Settings};

/// What is left for further removals.
#[derive(Debug, Clone)]
pub(crate) struct Allowances<'i> {
    now: Timestamp,
    pools: BTreeMap<&'i PoolName, PoolNodes<'i>>,
    pod_budgets: &'i BTreeMap<Text, PodBudget>,
    /// Evictions by the removals so far.
    evictions: BTreeMap<&'i Text, usize>,
    /// What guardrails let be removed and launched, without what was; `None` has no limit.
    removals: Option<MachineAllowance>,
    launches: Option<MachineAllowance>,
}

#[derive(Debug, Clone)]
struct PoolNodes<'i> {
    policy: &'i DisruptionPolicy,
    total: usize,
    /// Those that are not ready, or leave.
    unavailable: usize,
}

impl<'i> Allowances<'i> {
    pub(crate) fn new(
        candidates: &[Option<Candidate<'i>>],
        pod_budgets: &'i BTreeMap<Text, PodBudget>,
        (settings, now): (&Settings, Timestamp),
    ) -> Self {
        let mut pools: BTreeMap<&PoolName, PoolNodes<'_>> = BTreeMap::new();
        for candidate in candidates.iter().flatten() {
            let new = PoolNodes { policy: candidate.policy, total: 0, unavailable: 0 };
            let nodes = pools.entry(&candidate.pool.name).or_insert(new);
            if counts(candidate) {
                nodes.total += 1;
                nodes.unavailable += usize::from(is_unavailable(candidate));
            }
        }
        let Settings { removals, launches, .. } = *settings;
        Self { now, pools, pod_budgets, evictions: BTreeMap::new(), removals, launches }
    }

    /// What blocks `candidate` from removal for `reason` now; empty if nothing does. Forceful reasons are
    /// held by nothing.
    pub(crate) fn blocks(&self, candidate: &Candidate<'i>, reason: RemovalReason) -> Vec<Block> {
        let Some(voluntary) = reason.disruption_reason() else { return Vec::new() };
        let mut blocks: Vec<Block> = self.budget_block(candidate, voluntary).into_iter().collect();
        blocks.extend(self.removal_block(candidate));
        if !ignores_pods(candidate, reason) {
            blocks.extend(self.pod_budget_blocks(candidate));
        }
        blocks
    }

    fn removal_block(&self, candidate: &Candidate<'i>) -> Option<Block> {
        let fits = self.removals.is_none_or(|left| left.without([candidate.node.price]).is_some());
        let message = "lets no further node be removed until its window moves on";
        (!fits).then(|| Block::new(BlockCode::Guardrail, "RateLimit/removals", message))
    }

    /// What blocks the launch of `machines` of `pools`, which replace nodes.
    pub(crate) fn launch_block(&self, pools: &[NodePool], machines: &[PlannedNode]) -> Option<Block> {
        let fits = self.launches.is_none_or(|left| left.without(prices(pools, machines)).is_some());
        let message = "lets no further machine be launched until its window moves on";
        (!fits).then(|| Block::new(BlockCode::Guardrail, "RateLimit/launches", message))
    }

    /// Counts the launch of `machines` of `pools`.
    pub(crate) fn take_launches(&mut self, pools: &[NodePool], machines: &[PlannedNode]) {
        take_from(&mut self.launches, prices(pools, machines));
    }

    /// How many further nodes of the pool may be removed for `reason`.
    pub(crate) fn nodes_left(&self, pool: &PoolName, reason: DisruptionReason) -> usize {
        let left = |nodes: &PoolNodes<'_>| nodes.policy.allowance(reason, nodes.total, nodes.unavailable, self.now);
        self.pools.get(pool).map_or(0, left)
    }

    fn budget_block(&self, candidate: &Candidate<'i>, reason: DisruptionReason) -> Option<Block> {
        let pool = &candidate.pool.name;
        if self.nodes_left(pool, reason) > 0 {
            return None;
        }
        let nodes = self.pools.get(pool)?;
        let allowed = nodes.policy.allowance(reason, nodes.total, 0, self.now);
        let message = format!(
            "allows {allowed} of its {} nodes to be unavailable for {}, and {} are or leave",
            nodes.total,
            reason.as_str(),
            nodes.unavailable
        );
        Some(Block::new(BlockCode::Budget, format!("NodePool/{pool}"), message))
    }

    /// A PodDisruptionBudget that allows an eviction blocks no single node, because its pods are evicted one
    /// after another; a further node needs allowed evictions for the sum.
    fn pod_budget_blocks(&self, candidate: &Candidate<'i>) -> Vec<Block> {
        let exceeded = |(name, pods): (&'i Text, usize)| {
            let earlier = self.evictions.get(name).copied().unwrap_or(0);
            let allowed = self.pod_budgets.get(name).map_or(0, |budget| budget.allowed);
            let fits = if earlier == 0 { allowed > 0 } else { earlier + pods <= allowed };
            let message = format!(
                "allows {allowed} evictions now; removals before this one need {earlier}, and the pods of this node {pods}"
            );
            (!fits).then(|| Block::new(BlockCode::PodDisruptionBudget, format!("PodDisruptionBudget/{name}"), message))
        };
        self.evictions_of(candidate).into_iter().filter_map(exceeded).collect()
    }

    /// Evictions that the removal of the candidate needs, by PodDisruptionBudget.
    fn evictions_of(&self, candidate: &Candidate<'i>) -> BTreeMap<&'i Text, usize> {
        let mut needed = BTreeMap::new();
        let pods = candidate.node.pods.iter().filter(|_| candidate.has_pod_budgets).map(|pod| &pod.facts);
        for pod in pods.filter(|pod| !pod.terminating && !pod.tolerates_drain) {
            let [name] = pod.pod_budgets.as_slice() else { continue };
            let always = self.pod_budgets.get(name).is_some_and(|budget| budget.evicts_unhealthy_always);
            if !pod.is_protected(self.now) && (pod.ready || !always) {
                *needed.entry(name).or_insert(0) += 1;
            }
        }
        needed
    }

    /// Counts the removal of `candidate`.
    pub(crate) fn take(&mut self, candidate: &Candidate<'i>) {
        take_from(&mut self.removals, [candidate.node.price]);
        if let Some(nodes) = self.pools.get_mut(&candidate.pool.name)
            && counts(candidate)
            && !is_unavailable(candidate)
        {
            nodes.unavailable += 1;
        }
        for (name, pods) in self.evictions_of(candidate) {
            *self.evictions.entry(name).or_insert(0) += pods;
        }
    }
}

/// What the machines count as, whatever NodeOverlays say.
fn prices(pools: &[NodePool], machines: &[PlannedNode]) -> impl Iterator<Item = MicroUsd> {
    machines.iter().map(|machine| machine.charged_price(&pools[machine.pool as usize]))
}

/// Leaves nothing if the machines exceed what is left: a forceful removal is held by nothing.
fn take_from(left: &mut Option<MachineAllowance>, prices: impl IntoIterator<Item = MicroUsd>) {
    if let Some(left) = left {
        *left = left.without(prices).unwrap_or(MachineAllowance { machines: 0, usd_per_hour: MicroUsd(0) });
    }
}

fn counts(candidate: &Candidate<'_>) -> bool {
    matches!(candidate.object.stage, NodeStage::Initialized | NodeStage::Deleting)
}

fn is_unavailable(candidate: &Candidate<'_>) -> bool {
    candidate.object.stage == NodeStage::Deleting || !candidate.claim.ready
}

/// Whether what protects pods does not block the node.
fn ignores_pods(candidate: &Candidate<'_>, reason: RemovalReason) -> bool {
    reason == RemovalReason::Drifted && candidate.claim.termination_grace_period.is_some()
}
