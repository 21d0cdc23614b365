//! What blocks a node from removal now, by the state of its cluster.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::disruption_view;
use crate::disruption::method::DisruptionView;
use crate::guardrails;
use crate::step_view::StepView;
use cluster::{NodeRecord, PodRecord, blocks, removal_pod};
use model::Timestamp;
use model::disruption_plan::{Block, BlockCode};
use model::disruption_policy::DisruptionReason;
use model::removal::{RemovalPod, RemovalReason};
use model::running::Consolidatable;

/// What the blocks of all nodes of a cluster are found by.
pub(super) struct ClusterBlocks<'r> {
    view: DisruptionView<'r>,
    candidates: Candidates<'r>,
    /// The pod that consolidation has moved and that waits for a node: until it runs, no other pod is moved.
    waiting_move: Option<&'r PodRecord>,
}

pub(super) struct LiveBlocks<'r, 'c> {
    pub(super) step: &'r StepView<'r>,
    pub(super) node: &'r NodeRecord,
    pub(super) ctx: &'r Context<'c>,
    pub(super) view: &'r DisruptionView<'r>,
    candidates: &'r Candidates<'r>,
    waiting_move: Option<&'r PodRecord>,
    /// The node with NodeClaim and NodePool; `None` for a node that this server does not manage.
    pub(super) managed: Option<Candidate<'r>>,
}

impl<'r> ClusterBlocks<'r> {
    pub(super) fn new(step: &'r StepView<'r>, ctx: &Context<'_>) -> Self {
        let (state, view) = (step.state, disruption_view(step.state, step.decisions, step.disruption, ctx));
        Self { candidates: Candidates::collect(&view), view, waiting_move: state.moved_pod_without_room() }
    }
}

impl<'r, 'c> LiveBlocks<'r, 'c> {
    pub(super) fn new(
        step: &'r StepView<'r>,
        cluster: &'r ClusterBlocks<'r>,
        node: &'r NodeRecord,
        ctx: &'r Context<'c>,
    ) -> Self {
        let state = step.state;
        let claim = state.claim_of_node(node).filter(|claim| claim.ours);
        let pool = claim.and_then(|claim| state.pool(&claim.pool));
        let pool = pool.filter(|pool| state.unmanaged_reason(pool).is_none());
        let managed = claim.zip(pool).map(|(claim, pool)| Candidate { node, claim, pool });
        let ClusterBlocks { view, candidates, waiting_move } = cluster;
        Self { step, node, ctx, view, candidates, waiting_move: *waiting_move, managed }
    }

    fn now(&self) -> Timestamp {
        self.ctx.now
    }

    pub(super) fn node_title(&self) -> String {
        format!("Node/{}", self.node.name)
    }

    fn cluster_title(&self) -> String {
        format!("Cluster/{}", self.step.cluster)
    }

    /// Why this server does not manage the node.
    pub(super) fn unmanaged(&self) -> Block {
        let state = self.step.state;
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
        let (step, title) = (self.step, self.cluster_title());
        let mut blocks = Vec::new();
        if !step.connected {
            blocks.push(Block::new(BlockCode::NotSynced, title.clone(), "has no connected agent"));
        } else if !step.state.is_synced() {
            blocks.push(Block::new(BlockCode::NotSynced, title.clone(), "has sent no complete snapshot yet"));
        }
        if step.guardrails.is_quarantined() {
            let message = "is quarantined: its snapshot is not accepted";
            blocks.push(Block::new(BlockCode::Guardrail, title.clone(), message));
        }
        let held = self.ctx.guardrails.removal_block(&self.ctx.settings.guardrails, step.cluster);
        blocks.extend(held.map(of_guardrail));
        if self.ctx.settings.is_shadow_removal(step.cluster, reason) {
            let message = "is in shadow mode: its removals are recorded and not carried out";
            blocks.push(Block::new(BlockCode::Shadow, title.clone(), message));
        }
        let limit = step.guardrails.removal_block().filter(|block| block.object.is_none());
        blocks.extend(limit.map(|limit| Block::new(limit.code, title, &*limit.reason)));
        blocks.extend(self.of_claim(reason));
        blocks
    }

    fn of_claim(&self, reason: RemovalReason) -> Vec<Block> {
        let Some(Candidate { claim, .. }) = self.managed else { return Vec::new() };
        let held = self.step.pool_removal_block(&claim.name, reason, &self.ctx.guardrails);
        let mut blocks: Vec<Block> = held.map(of_guardrail).into_iter().collect();
        if let Some(until) = self.step.pods_uncertain_until(&claim.name) {
            let message = format!("lost pods that may exist: it is judged again {}", self.remaining(until));
            blocks.push(Block::new(BlockCode::Guardrail, self.node_title(), message));
        }
        blocks
    }

    /// What blocks the node from every voluntary removal.
    pub(super) fn of_node(&self) -> Vec<Block> {
        let state = self.step.state;
        let mut blocks = Vec::new();
        if !self.node.is_initialized() {
            blocks.push(Block::new(BlockCode::NotInitialized, self.node_title(), "is not initialized"));
        }
        let NodeRecord { name, do_not_disrupt, created, .. } = self.node;
        blocks.extend(blocks::of_protected_node(name, (*do_not_disrupt, *created), self.now()));
        let nominated = state.nominated_pods().filter(|pod| state.nominated_node(pod) == Some(name));
        blocks.extend(nominated.map(|pod| blocks::of_nomination(&pod.key)));
        let assigned = state.assignments().iter().filter(|(pod, _)| {
            let elsewhere = state.pod(pod).is_some_and(|pod| pod.node.as_ref() != Some(name));
            elsewhere && state.assigned_node(pod).is_some_and(|node| node.name == *name)
        });
        blocks.extend(assigned.map(|(pod, _)| {
            Block::new(BlockCode::PendingPods, format!("Pod/{pod}"), "waits, and is planned on the node")
        }));
        blocks
    }

    /// What the pods of the node block its removal by.
    pub(super) fn of_pods(&self) -> Vec<Block> {
        let state = self.step.state;
        let mut budgets = BTreeMap::new();
        let running = state.pods_on(&self.node.name).filter(|pod| !pod.is_terminal());
        let pods: Vec<RemovalPod> = running.map(|pod| removal_pod(state, pod, &mut budgets)).collect();
        pods.iter().flat_map(|pod| blocks::of_pod(pod, &budgets, self.now())).collect()
    }

    pub(super) fn of_schedulers(&self) -> Vec<Block> {
        let pods = self.step.state.pods_of_other_schedulers_on(&self.node.name);
        pods.map(|(pod, scheduler)| blocks::of_other_scheduler(&pod.key, scheduler)).collect()
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
        if let Some(begun) = self.step.state.replacement_of(&claim.name) {
            let since = self.now().duration_since(begun.since).as_secs();
            let message =
                format!("has been replaced for {since} s as {}: its pods wait for nodes", begun.reason.as_str());
            blocks.push(Block::new(BlockCode::Replacing, self.node_title(), message));
        }
        for pod in self.step.state.pods_on(&self.node.name) {
            if let Some(delay) = self.step.guardrails.launch_delay(&pod.key, self.now()) {
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
        let moved = self.step.state.recent_move_to(&self.node.name, self.view.move_interval, self.now())?;
        Some(blocks::of_move(&moved, self.now()))
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
        let mut blocks: Vec<Block> = blocks::of_static_pool(&pool.pool).into_iter().collect();
        let last = self.step.state.last_pod_event(&self.node.name);
        let consolidatable = Consolidatable::of(&pool.disruption, last.unwrap_or(self.now()));
        if last.is_none() && consolidatable != Consolidatable::Never {
            let message = "has no known time of its last pod event: consolidateAfter has not begun";
            blocks.push(Block::new(BlockCode::ConsolidateAfter, self.node_title(), message));
        } else {
            blocks.extend(blocks::of_wait(&pool.pool.name, &self.node.name, consolidatable, self.now()));
        }
        blocks
    }

    pub(super) fn remaining(&self, until: Timestamp) -> String {
        blocks::remaining(until, self.now())
    }
}

fn of_guardrail(held: guardrails::Block) -> Block {
    Block::new(held.code, held.object.as_deref().unwrap_or_default(), &*held.reason)
}
