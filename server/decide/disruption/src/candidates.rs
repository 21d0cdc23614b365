//! Which nodes may be removed for which reason, apart from what other removals use up, and what blocks
//! the rest (Karpenter: disruption candidates).

use std::collections::BTreeMap;

use cluster::blocks;
use model::input::PlanningInput;
use model::removal::{PodBudget, RemovalReason};
use model::repair_policy::{MAX_UNHEALTHY_PERCENT, is_blocked};
use model::running::{Consolidatable, RunningClaim, RunningCluster, RunningNode, RunningPod};
use model::{DisruptionPolicy, Node, NodePool, NodeStage, PoolName, Text, Timestamp};

use crate::{Block, BlockCode, Settings};

/// A node of a NodePool of ours.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'i> {
    pub(crate) node: &'i RunningNode,
    pub(crate) object: &'i Node,
    pub(crate) claim: &'i RunningClaim,
    pub(crate) pool: &'i NodePool,
    pub(crate) policy: &'i DisruptionPolicy,
    /// What blocks it from removal for each reason that applies to it, in the order of precedence.
    pub(crate) reasons: Vec<(RemovalReason, Vec<Block>)>,
    /// What blocks an empty node from consolidation once pods move to it.
    in_use: Vec<Block>,
    /// Whether a PodDisruptionBudget selects one of its pods.
    pub(crate) has_pod_budgets: bool,
}

impl Candidate<'_> {
    /// Whether nothing that is known before planning blocks it from removal for `reason`.
    pub(crate) fn may_go(&self, reason: RemovalReason) -> bool {
        self.reasons.iter().any(|(known, blocks)| *known == reason && blocks.is_empty())
    }

    /// Whether pods of other nodes may move to it. A node whose `consolidateAfter` runs would begin it anew
    /// with every pod (Karpenter: consolidateAfter destination rule).
    pub(crate) fn takes_pods(&self) -> bool {
        !self.reasons.iter().any(|(_, blocks)| blocks.iter().any(|block| block.code == BlockCode::ConsolidateAfter))
            || matches!(self.claim.consolidatable, Consolidatable::Never)
    }

    /// Whether the pods that run there need no place when it goes.
    pub(crate) fn is_empty(&self) -> bool {
        // The pods of a node that is being deleted are planned as pods that wait.
        let is_left = self.object.pods.iter().any(|pod| pod.leaving);
        !is_left && self.node.pods.iter().all(|pod| pod.facts.node_bound)
    }

    /// Counts that pods move to the empty node: it is in use from now on.
    pub(crate) fn take_into_use(&mut self) {
        self.reasons.retain(|(reason, _)| *reason != RemovalReason::Empty);
        self.reasons.push((RemovalReason::Underutilized, std::mem::take(&mut self.in_use)));
    }
}

/// The candidates by index into [`RunningCluster::nodes`]; `None` for nodes that no NodePool of ours
/// manages.
pub(crate) fn collect<'i>(
    input: &'i PlanningInput,
    running: &'i RunningCluster,
    settings: &Settings,
) -> Vec<Option<Candidate<'i>>> {
    let blocked = blocked_repairs(input, running, settings);
    let pools: BTreeMap<&PoolName, &NodePool> = input.pools.iter().map(|pool| (&pool.name, pool)).collect();
    let candidate = |node: &'i RunningNode| {
        let object = &input.nodes[node.node as usize];
        let pool = *pools.get(object.pool.as_ref()?)?;
        let (claim, policy) = (node.claim.as_ref()?, running.policies.get(&pool.name)?);
        let (reasons, in_use) = (Vec::new(), Vec::new());
        let has_pod_budgets = node.pods.iter().any(|pod| !pod.facts.pod_budgets.is_empty());
        let mut candidate = Candidate { node, object, claim, pool, policy, reasons, in_use, has_pod_budgets };
        let (now, pod_budgets) = (input.now, &running.pod_budgets);
        let rules = Rules { now, pod_budgets, settings, blocked: &blocked, candidate: &candidate };
        let in_use = candidate.is_empty().then(|| rules.blocks_of_consolidation(RemovalReason::Underutilized));
        (candidate.reasons, candidate.in_use) = (rules.reasons(), in_use.unwrap_or_default());
        Some(candidate)
    };
    running.nodes.iter().map(candidate).collect()
}

/// NodePools with too many unhealthy nodes for a repair: their number, and that of all nodes.
fn blocked_repairs<'i>(
    input: &'i PlanningInput,
    running: &RunningCluster,
    settings: &Settings,
) -> BTreeMap<&'i PoolName, (usize, usize)> {
    let mut counts: BTreeMap<&PoolName, (usize, usize)> = BTreeMap::new();
    for node in running.nodes.iter().filter(|_| settings.node_repair) {
        let Some(claim) = &node.claim else { continue };
        let Some(pool) = &input.nodes[node.node as usize].pool else { continue };
        let (unhealthy, nodes) = counts.entry(pool).or_default();
        *unhealthy += usize::from(claim.unhealthy.is_some());
        *nodes += usize::from(input.nodes[node.node as usize].stage != NodeStage::InFlight);
    }
    counts.retain(|_, (unhealthy, nodes)| is_blocked(*unhealthy, *nodes));
    counts
}

struct Rules<'r, 'i> {
    now: Timestamp,
    pod_budgets: &'r BTreeMap<Text, PodBudget>,
    settings: &'r Settings,
    blocked: &'r BTreeMap<&'i PoolName, (usize, usize)>,
    candidate: &'r Candidate<'i>,
}

impl Rules<'_, '_> {
    /// The reasons that apply, and what blocks the node for each.
    fn reasons(&self) -> Vec<(RemovalReason, Vec<Block>)> {
        let Candidate { claim, object, .. } = self.candidate;
        let mut reasons = Vec::new();
        if let Some(unhealthy) = claim.unhealthy.as_ref().filter(|_| self.settings.node_repair)
            && unhealthy.repair_from <= self.now
        {
            reasons.push((RemovalReason::Unhealthy, self.blocks_of_repair(unhealthy.do_not_repair)));
        }
        if claim.expires.is_some_and(|expires| expires <= self.now) {
            reasons.push((RemovalReason::Expired, self.deleting().into_iter().collect()));
        }
        if self.candidate.is_empty() && object.stage != NodeStage::InFlight {
            reasons.push((RemovalReason::Empty, self.blocks_of_consolidation(RemovalReason::Empty)));
        }
        if claim.drift.is_some() {
            reasons.push((RemovalReason::Drifted, self.blocks_of_drift()));
        }
        if !self.candidate.is_empty() || reasons.is_empty() {
            let reason = RemovalReason::Underutilized;
            reasons.push((reason, self.blocks_of_consolidation(reason)));
        }
        reasons
    }

    fn node_title(&self) -> String {
        format!("Node/{}", self.candidate.object.name)
    }

    fn deleting(&self) -> Option<Block> {
        let is_deleting = self.candidate.object.stage == NodeStage::Deleting;
        is_deleting.then(|| Block::new(BlockCode::Deleting, self.node_title(), "is being deleted already"))
    }

    fn blocks_of_repair(&self, do_not_repair: bool) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.deleting().into_iter().collect();
        if do_not_repair {
            blocks.push(Block::new(BlockCode::DoNotDisrupt, self.node_title(), "has karpenter.sh/do-not-repair"));
        }
        let pool = &self.candidate.pool.name;
        if let Some((unhealthy, nodes)) = self.blocked.get(pool) {
            let message = format!(
                "has {unhealthy} unhealthy nodes of {nodes}: more than {MAX_UNHEALTHY_PERCENT} %, so none is repaired"
            );
            blocks.push(Block::new(BlockCode::Policy, format!("NodePool/{pool}"), message));
        }
        blocks
    }

    /// What blocks the node from every voluntary removal.
    fn blocks_of_candidate(&self) -> Vec<Block> {
        let Candidate { node, object, .. } = self.candidate;
        let mut blocks: Vec<Block> = self.deleting().into_iter().collect();
        if matches!(object.stage, NodeStage::InFlight | NodeStage::Registered) {
            blocks.push(Block::new(BlockCode::NotInitialized, self.node_title(), "is not initialized"));
        }
        blocks.extend(blocks::of_protected_node(&object.name, (node.do_not_disrupt, object.created), self.now));
        let nominated = node.pods.iter().filter(|pod| pod.is_nominated);
        blocks.extend(nominated.map(|pod| blocks::of_nomination(&pod.facts.key)));
        blocks
    }

    /// What the pods of the node block its removal by.
    fn blocks_of_pods(&self) -> Vec<Block> {
        self.candidate
            .node
            .pods
            .iter()
            .filter(|pod| !pod.is_nominated)
            .flat_map(|pod| self.blocks_of_pod(pod))
            .collect()
    }

    fn blocks_of_pod(&self, pod: &RunningPod) -> Vec<Block> {
        let mut blocks = blocks::of_pod(&pod.facts, self.pod_budgets, self.now);
        blocks.extend(blocks::of_local_volumes(pod));
        blocks
    }

    fn blocks_of_consolidation(&self, reason: RemovalReason) -> Vec<Block> {
        let Candidate { node, object, claim, pool, policy, .. } = self.candidate;
        let mut blocks = self.blocks_of_candidate();
        blocks.extend(self.blocks_of_pods());
        blocks.extend(self.blocks_of_schedulers());
        blocks.extend(blocks::of_static_pool(pool));
        blocks.extend(blocks::of_wait(&pool.name, &object.name, claim.consolidatable, self.now));
        if reason == RemovalReason::Underutilized {
            blocks.extend(blocks::of_policy(&pool.name, policy));
            blocks.extend(node.recent_move.iter().map(|moved| blocks::of_move(moved, self.now)));
        }
        blocks
    }

    fn blocks_of_schedulers(&self) -> Vec<Block> {
        let pods = self.candidate.node.pods.iter().filter(|pod| !pod.facts.node_bound && !pod.facts.terminating);
        let block = |pod: &RunningPod| Some(blocks::of_other_scheduler(&pod.facts.key, pod.other_scheduler.as_ref()?));
        pods.filter_map(block).collect()
    }

    /// Drift ignores what protects pods where the drain has a deadline, and never what protects the Node.
    fn blocks_of_drift(&self) -> Vec<Block> {
        let mut blocks = self.blocks_of_candidate();
        if self.candidate.claim.termination_grace_period.is_none() {
            blocks.extend(self.blocks_of_pods());
        }
        blocks.extend(self.blocks_of_schedulers());
        blocks
    }
}
