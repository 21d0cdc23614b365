//! What blocks a node from removal now, by the state of its cluster.

use crate::cluster_controller::{ClusterController, Context};
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::method::DisruptionView;
use crate::guardrails::BlockReason;
use cluster::{NodeRecord, PodRecord};
use model::disruption_plan::{Block, BlockCode};
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{Millis, Text, Timestamp};

/// What the blocks of all nodes of a cluster are found by.
pub(super) struct ClusterBlocks<'r> {
    view: DisruptionView<'r>,
    candidates: Candidates<'r>,
    /// The pod that consolidation has moved and that waits for a node: until it runs, no other pod is moved.
    waiting_move: Option<&'r PodRecord>,
}

pub(super) struct LiveBlocks<'r, 'c> {
    pub(super) controller: &'r ClusterController,
    pub(super) node: &'r NodeRecord,
    pub(super) ctx: &'r Context<'c>,
    pub(super) view: &'r DisruptionView<'r>,
    candidates: &'r Candidates<'r>,
    waiting_move: Option<&'r PodRecord>,
    /// The node with NodeClaim and NodePool; `None` for a node that this server does not manage.
    pub(super) managed: Option<Candidate<'r>>,
}

impl<'r> ClusterBlocks<'r> {
    pub(super) fn new(controller: &'r ClusterController, ctx: &Context<'_>) -> Self {
        let state = &controller.state;
        let view = DisruptionView {
            being_removed: controller.decisions.claims_being_removed(),
            max_unavailable_nodes: ctx.settings.disruption.max_unavailable_nodes,
            move_interval: ctx.settings.consolidation.move_interval,
            feature_gates: ctx.settings.feature_gates,
            backoff: controller.disruption.backoff.clone(),
            maintenance: controller.disruption.maintenance(),
            ..DisruptionView::of(state, ctx.now)
        };
        Self { candidates: Candidates::collect(&view), view, waiting_move: state.moved_pod_without_room() }
    }
}

impl<'r, 'c> LiveBlocks<'r, 'c> {
    pub(super) fn new(
        controller: &'r ClusterController,
        cluster: &'r ClusterBlocks<'r>,
        node: &'r NodeRecord,
        ctx: &'r Context<'c>,
    ) -> Self {
        let state = &controller.state;
        let claim = state.claim_of_node(node).filter(|claim| claim.ours);
        let pool = claim.and_then(|claim| state.pool(&claim.pool));
        let pool = pool.filter(|pool| state.unmanaged_reason(pool).is_none());
        let managed = claim.zip(pool).map(|(claim, pool)| Candidate { node, claim, pool });
        let ClusterBlocks { view, candidates, waiting_move } = cluster;
        Self { controller, node, ctx, view, candidates, waiting_move: *waiting_move, managed }
    }

    fn now(&self) -> Timestamp {
        self.ctx.now
    }

    pub(super) fn node_title(&self) -> String {
        format!("Node/{}", self.node.name)
    }

    fn cluster_title(&self) -> String {
        format!("Cluster/{}", self.controller.cluster)
    }

    /// Why this server does not manage the node.
    pub(super) fn unmanaged(&self) -> Block {
        let state = &self.controller.state;
        let block = |object: String, message: String| Block::new(BlockCode::NotManaged, object, message);
        let Some(claim) = state.claim_of_node(self.node) else {
            return block(self.node_title(), "belongs to no NodeClaim".to_owned());
        };
        if !claim.ours {
            let message = "was not created by this server and was not handed over to it".to_owned();
            return block(format!("NodeClaim/{}", claim.name), message);
        }
        let title = format!("NodePool/{}", claim.pool);
        match state.pool(&claim.pool) {
            None => block(title, "does not exist any more".to_owned()),
            Some(pool) => {
                let why = state.unmanaged_reason(pool).unwrap_or_default();
                block(title, format!("is not managed by this server: {why}"))
            }
        }
    }

    /// What blocks every removal for `reason` in the cluster or the NodePool, whatever the node.
    pub(super) fn of_operation(&self, reason: RemovalReason) -> Vec<Block> {
        let (controller, title) = (self.controller, self.cluster_title());
        let mut blocks = Vec::new();
        if !controller.connected {
            blocks.push(Block::new(BlockCode::NotSynced, title.clone(), "has no connected agent"));
        } else if !controller.state.is_synced() {
            blocks.push(Block::new(BlockCode::NotSynced, title.clone(), "has sent no complete snapshot yet"));
        }
        if controller.guardrails.is_quarantined() {
            let message = "is quarantined: its snapshot is not accepted";
            blocks.push(Block::new(BlockCode::Guardrail, title.clone(), message));
        }
        if let Some(breaker) = self.ctx.guardrails.engaged_breaker(&self.ctx.settings.guardrails, &controller.cluster) {
            blocks.push(Block::new(BlockCode::Guardrail, "CircuitBreaker/fleet", breaker.to_string()));
        }
        if controller.is_shadow_removal(reason, self.ctx) {
            let message = "is in shadow mode: its removals are recorded and not carried out";
            blocks.push(Block::new(BlockCode::Shadow, title.clone(), message));
        }
        if let Some(block) = controller.guardrails.removal_block()
            && let BlockReason::RateLimit(limit) = &block.reason
        {
            blocks.push(Block::new(BlockCode::Guardrail, title, limit.to_string()));
        }
        blocks.extend(self.of_claim(reason));
        blocks
    }

    fn of_claim(&self, reason: RemovalReason) -> Vec<Block> {
        let Some(Candidate { claim, .. }) = self.managed else { return Vec::new() };
        let mut blocks = Vec::new();
        if let Some(freeze) = self.controller.freeze_of_removal(&claim.name, reason, self.ctx) {
            blocks.push(Block::new(BlockCode::Frozen, format!("Freeze/{}", freeze.id), freeze.to_string()));
        }
        if let Some(until) = self.controller.pods_uncertain_until(&claim.name, self.ctx) {
            let message = format!("lost pods that may exist: it is judged again {}", self.remaining(until));
            blocks.push(Block::new(BlockCode::Guardrail, self.node_title(), message));
        }
        blocks
    }

    /// What blocks the node from every voluntary removal.
    pub(super) fn of_node(&self) -> Vec<Block> {
        let (state, title) = (&self.controller.state, self.node_title());
        let mut blocks = Vec::new();
        if !self.node.is_initialized() {
            blocks.push(Block::new(BlockCode::NotInitialized, title.clone(), "is not initialized"));
        }
        if self.node.blocks_disruption(self.now()) {
            let message = self.protection(self.node.protection_end());
            blocks.push(Block::new(BlockCode::DoNotDisrupt, title, message));
        }
        let nominated = state.nominated_pods().filter(|pod| state.nominated_node(pod) == Some(&self.node.name));
        blocks.extend(nominated.map(|pod| {
            let message = "is nominated for the node and does not run yet";
            Block::new(BlockCode::Nominated, format!("Pod/{}", pod.key), message)
        }));
        let assigned = state.assignments().iter().filter(|(pod, _)| {
            let elsewhere = state.pod(pod).is_some_and(|pod| pod.node.as_ref() != Some(&self.node.name));
            elsewhere && state.assigned_node(pod).is_some_and(|node| node.name == self.node.name)
        });
        blocks.extend(assigned.map(|(pod, _)| {
            Block::new(BlockCode::PendingPods, format!("Pod/{pod}"), "waits, and is planned on the node")
        }));
        blocks
    }

    fn protection(&self, end: Option<Timestamp>) -> String {
        let end = end.map(|end| format!(", which ends {}", self.remaining(end))).unwrap_or_default();
        format!("has karpenter.sh/do-not-disrupt{end}")
    }

    /// What the pods of the node block its removal by.
    pub(super) fn of_pods(&self) -> Vec<Block> {
        self.controller.state.pods_on(&self.node.name).flat_map(|pod| self.of_pod(pod)).collect()
    }

    fn of_pod(&self, pod: &PodRecord) -> Vec<Block> {
        if pod.blocks_disruption(self.now()) {
            let message = self.protection(pod.protection_end());
            return vec![Block::new(BlockCode::DoNotDisrupt, format!("Pod/{}", pod.key), message)];
        }
        if pod.terminating || !pod.is_evicted_by_drains() {
            return Vec::new();
        }
        let budgets: Vec<_> = self.controller.state.pod_budgets_of(pod).collect();
        let title = |name: &str| format!("PodDisruptionBudget/{}/{name}", pod.key.namespace);
        let block = |name: &str, message: String| Block::new(BlockCode::PodDisruptionBudget, title(name), message);
        match budgets.as_slice() {
            [one] if one.allowed <= 0 && (pod.ready || !one.evicts_unhealthy_always) => {
                vec![block(&one.name, format!("allows no eviction now, and selects pod {}", pod.key))]
            }
            [] | [_] => Vec::new(),
            several => {
                let message =
                    format!("selects pod {} beside another budget: a pod with several is never evicted", pod.key);
                several.iter().map(|one| block(&one.name, message.clone())).collect()
            }
        }
    }

    /// The pods of schedulers that are not planned for: whether another node has a place for them is not known.
    pub(super) fn of_schedulers(&self) -> Vec<Block> {
        let pods = self.controller.state.pods_of_other_schedulers_on(&self.node.name);
        let block = |(pod, scheduler): (&PodRecord, &Text)| {
            let message = format!("is placed by the scheduler {scheduler}, which is not planned for");
            Block::new(BlockCode::OtherScheduler, format!("Pod/{}", pod.key), message)
        };
        pods.map(block).collect()
    }

    /// What the budgets and windows of the NodePool, and the budget of the cluster, block its removal by.
    pub(super) fn of_budgets(&self, reason: DisruptionReason) -> Vec<Block> {
        let Some(Candidate { pool, .. }) = self.managed else { return Vec::new() };
        let nodes = self.candidates.nodes_of(&pool.pool.name);
        let mut blocks = Vec::new();
        let title = format!("NodePool/{}", pool.pool.name);
        let (unavailable, total) = (nodes.unavailable_for(reason), nodes.total);
        if !pool.disruption.is_window_open(self.now()) {
            blocks.push(Block::new(BlockCode::Budget, title, "has no open disruption window now"));
        } else if pool.disruption.allowance(reason, total, unavailable, self.now()) == 0 {
            let message = format!(
                "its budgets allow no further removal as {} now: {unavailable} of {total} nodes are leaving, being replaced \
                 or not ready",
                reason.as_str()
            );
            blocks.push(Block::new(BlockCode::Budget, title, message));
        }
        if self.candidates.cluster_allowance(reason) == 0 {
            let message = "has as many unavailable nodes as disruption.max-unavailable-nodes allows";
            blocks.push(Block::new(BlockCode::Budget, self.cluster_title(), message));
        }
        blocks
    }

    /// The replacement under way, and the wait after one that failed.
    pub(super) fn of_replacements(&self) -> Vec<Block> {
        let Some(Candidate { claim, pool, .. }) = self.managed else { return Vec::new() };
        let mut blocks = Vec::new();
        if let Some(begun) = self.controller.state.replacement_of(&claim.name) {
            let since = self.now().duration_since(begun.since).as_secs();
            let message =
                format!("has been replaced for {since} s as {}: its pods wait for nodes", begun.reason.as_str());
            blocks.push(Block::new(BlockCode::Replacing, self.node_title(), message));
        }
        for pod in self.controller.state.pods_on(&self.node.name) {
            if let Some(delay) = self.controller.guardrails.launch_delay(&pod.key, self.now()) {
                let message = format!("waits for a place on a node that exists: {}", delay.launches);
                blocks.push(Block::new(BlockCode::BackOff, format!("Pod/{}", pod.key), message));
            }
        }
        if let Some(until) = self.view.backoff.until(&pool.pool.name, self.now()) {
            let message =
                format!("waits after a replacement that failed; the next may begin {}", self.remaining(until));
            blocks.push(Block::new(BlockCode::BackOff, format!("NodePool/{}", pool.pool.name), message));
        }
        blocks
    }

    /// The pod that consolidation has moved within `disruption.move-interval` and may move again last.
    pub(super) fn of_moves(&self) -> Option<Block> {
        let state = &self.controller.state;
        let moved = state.recent_move_to(&self.node.name, self.view.move_interval, self.now())?;
        let left = self.remaining(moved.until);
        let message = format!("was moved by consolidation, which may move it again {left} (disruption.move-interval)");
        Some(Block::new(BlockCode::RecentlyMoved, format!("Pod/{}", moved.pod), message))
    }

    /// The wait for a pod that consolidation has moved.
    pub(super) fn of_waiting_move(&self) -> Option<Block> {
        let pod = self.waiting_move?;
        let message = "was moved by consolidation and waits for a node: no other pod is moved meanwhile";
        Some(Block::new(BlockCode::PendingPods, format!("Pod/{}", pod.key), message))
    }

    /// The wait of `consolidateAfter`, and a fixed number of nodes.
    pub(super) fn of_wait(&self) -> Vec<Block> {
        let Some(Candidate { pool, .. }) = self.managed else { return Vec::new() };
        let title = format!("NodePool/{}", pool.pool.name);
        let mut blocks = Vec::new();
        if let Some(replicas) = pool.pool.replicas {
            let message = format!("has a fixed number of nodes (replicas: {replicas})");
            blocks.push(Block::new(BlockCode::Static, title.clone(), message));
        }
        let last = self.controller.state.last_pod_event(&self.node.name);
        match (pool.disruption.consolidate_after, last) {
            (None, _) => blocks.push(Block::new(BlockCode::ConsolidateAfter, title, "has consolidateAfter: Never")),
            (Some(_), None) => {
                let message = "has no known time of its last pod event: consolidateAfter has not begun";
                blocks.push(Block::new(BlockCode::ConsolidateAfter, self.node_title(), message));
            }
            (Some(wait), Some(last)) if last + wait > self.now() => {
                let message = format!("may be consolidated {}: a pod came or went", self.remaining(last + wait));
                blocks.push(Block::new(BlockCode::ConsolidateAfter, self.node_title(), message));
            }
            (Some(_), Some(_)) => {}
        }
        blocks
    }

    /// `in 30 s, at 2026-01-01T10:00:30Z`; at least one second.
    pub(super) fn remaining(&self, until: Timestamp) -> String {
        let left = until.duration_since(self.now()).max(Millis::from_secs(1));
        format!("in {}, at {until}", amount(left))
    }
}

/// A duration in its two greatest units: `23 h 58 min`.
fn amount(of: Millis) -> String {
    let (seconds, minutes) = (of.as_secs(), of.as_mins());
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours @ 0..24, minutes) => format!("{hours} h {minutes} min"),
        (hours, _) => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_two_greatest_units() {
        // 86,379 s are a day without 21 seconds.
        let amounts = [1, 59, 60, 600, 3_599, 3_600, 86_379, 86_400, 200_000];
        assert_eq!(
            amounts.map(|seconds| amount(Millis::from_secs(seconds))),
            ["1 s", "59 s", "1 min 0 s", "10 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min", "1 d 0 h", "2 d 7 h"]
        );
    }
}
