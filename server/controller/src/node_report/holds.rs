//! What holds a node from removal now, by the state of its cluster.

use crate::cluster::{NodeRecord, PodRecord};
use crate::cluster_controller::{ClusterController, Context};
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::method::DisruptionView;
use crate::guardrails::HoldReason;
use model::disruption_plan::{Hold, HoldCode};
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

/// The holds of one node.
pub(super) struct LiveHolds<'r, 'c> {
    pub(super) controller: &'r ClusterController,
    pub(super) node: &'r NodeRecord,
    pub(super) ctx: &'r Context<'c>,
    pub(super) view: DisruptionView<'r>,
    candidates: Candidates<'r>,
    /// The node with NodeClaim and NodePool; `None` for a node that this server does not manage.
    pub(super) managed: Option<Candidate<'r>>,
}

impl<'r, 'c> LiveHolds<'r, 'c> {
    pub(super) fn new(controller: &'r ClusterController, node: &'r NodeRecord, ctx: &'r Context<'c>) -> Self {
        let state = &controller.state;
        let view = DisruptionView {
            being_removed: controller.decisions.claims_being_removed(),
            max_unavailable_nodes: ctx.settings.disruption.max_unavailable_nodes,
            move_interval: ctx.settings.consolidation.move_interval,
            feature_gates: ctx.settings.feature_gates,
            backoff: controller.disruption.backoff.clone(),
            ..DisruptionView::of(state, ctx.now)
        };
        let claim = state.claim_of_node(node).filter(|claim| claim.ours);
        let pool = claim.and_then(|claim| state.pool(&claim.pool));
        let pool = pool.filter(|pool| state.unmanaged_reason(pool).is_none());
        let managed = claim.zip(pool).map(|(claim, pool)| Candidate { node, claim, pool });
        Self { candidates: Candidates::collect(&view), controller, node, ctx, view, managed }
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
    pub(super) fn unmanaged(&self) -> Hold {
        let state = &self.controller.state;
        let hold = |object: String, message: String| Hold::new(HoldCode::NotManaged, object, message);
        let Some(claim) = state.claim_of_node(self.node) else {
            return hold(self.node_title(), "belongs to no NodeClaim".to_owned());
        };
        if !claim.ours {
            let message = "was not created by this server and was not handed over to it".to_owned();
            return hold(format!("NodeClaim/{}", claim.name), message);
        }
        let title = format!("NodePool/{}", claim.pool);
        match state.pool(&claim.pool) {
            None => hold(title, "does not exist any more".to_owned()),
            Some(pool) => {
                let why = state.unmanaged_reason(pool).unwrap_or_default();
                hold(title, format!("is not managed by this server: {why}"))
            }
        }
    }

    /// What holds every removal for `reason` in the cluster or the NodePool, whatever the node.
    pub(super) fn of_operation(&self, reason: RemovalReason) -> Vec<Hold> {
        let (controller, title) = (self.controller, self.cluster_title());
        let mut holds = Vec::new();
        if !controller.connected {
            holds.push(Hold::new(HoldCode::NotSynced, title.clone(), "has no connected agent"));
        } else if !controller.state.is_synced() {
            holds.push(Hold::new(HoldCode::NotSynced, title.clone(), "has sent no complete snapshot yet"));
        }
        if controller.guardrails.is_quarantined() {
            let message = "is quarantined: its snapshot is not accepted";
            holds.push(Hold::new(HoldCode::Guardrail, title.clone(), message));
        }
        if let Some(breaker) = self.ctx.guardrails.engaged_breaker(&self.ctx.settings.guardrails, &controller.cluster) {
            holds.push(Hold::new(HoldCode::Guardrail, "CircuitBreaker/fleet", breaker.to_string()));
        }
        if controller.is_shadow_removal(reason, self.ctx) {
            let message = "is in shadow mode: its removals are recorded and not carried out";
            holds.push(Hold::new(HoldCode::Shadow, title.clone(), message));
        }
        if let Some(hold) = controller.guardrails.removal_hold()
            && let HoldReason::RateLimit(limit) = &hold.reason
        {
            holds.push(Hold::new(HoldCode::Guardrail, title, limit.to_string()));
        }
        holds.extend(self.of_claim(reason));
        holds
    }

    fn of_claim(&self, reason: RemovalReason) -> Vec<Hold> {
        let Some(Candidate { claim, .. }) = self.managed else { return Vec::new() };
        let mut holds = Vec::new();
        if let Some(freeze) = self.controller.freeze_of_removal(&claim.name, reason, self.ctx) {
            holds.push(Hold::new(HoldCode::Frozen, format!("Freeze/{}", freeze.id), freeze.to_string()));
        }
        if let Some(until) = self.controller.pods_uncertain_until(&claim.name, self.ctx) {
            let message = format!("lost pods that may exist: it is judged again {}", self.remaining(until));
            holds.push(Hold::new(HoldCode::Guardrail, self.node_title(), message));
        }
        holds
    }

    /// What holds the node from every voluntary removal.
    pub(super) fn of_node(&self) -> Vec<Hold> {
        let (state, title) = (&self.controller.state, self.node_title());
        let mut holds = Vec::new();
        if !self.node.is_initialized() {
            holds.push(Hold::new(HoldCode::NotInitialized, title.clone(), "is not initialized"));
        }
        if self.node.blocks_disruption(self.now()) {
            let message = self.protection(self.node.protection_end());
            holds.push(Hold::new(HoldCode::DoNotDisrupt, title, message));
        }
        let nominated = state.nominated_pods().filter(|pod| state.nominated_node(pod) == Some(&self.node.name));
        holds.extend(nominated.map(|pod| {
            let message = "is nominated for the node and does not run yet";
            Hold::new(HoldCode::Nominated, format!("Pod/{}", pod.key), message)
        }));
        let assigned = state.assignments().iter().filter(|(pod, _)| {
            let elsewhere = state.pod(pod).is_some_and(|pod| pod.node.as_ref() != Some(&self.node.name));
            elsewhere && state.assigned_node(pod).is_some_and(|node| node.name == self.node.name)
        });
        holds.extend(assigned.map(|(pod, _)| {
            Hold::new(HoldCode::PendingPods, format!("Pod/{pod}"), "waits, and is planned on the node")
        }));
        holds
    }

    fn protection(&self, end: Option<Timestamp>) -> String {
        let end = end.map(|end| format!(", which ends {}", self.remaining(end))).unwrap_or_default();
        format!("has karpenter.sh/do-not-disrupt{end}")
    }

    /// What the pods of the node hold it by.
    pub(super) fn of_pods(&self) -> Vec<Hold> {
        self.controller.state.pods_on(&self.node.name).flat_map(|pod| self.of_pod(pod)).collect()
    }

    fn of_pod(&self, pod: &PodRecord) -> Vec<Hold> {
        if pod.blocks_disruption(self.now()) {
            let message = self.protection(pod.protection_end());
            return vec![Hold::new(HoldCode::DoNotDisrupt, format!("Pod/{}", pod.key), message)];
        }
        if !pod.is_workload() || pod.terminating {
            return Vec::new();
        }
        let budgets: Vec<_> = self.controller.state.pod_budgets_of(pod).collect();
        let title = |name: &str| format!("PodDisruptionBudget/{}/{name}", pod.key.namespace);
        let hold = |name: &str, message: String| Hold::new(HoldCode::PodDisruptionBudget, title(name), message);
        match budgets.as_slice() {
            [one] if one.allowed <= 0 && (pod.ready || !one.evicts_unhealthy_always) => {
                vec![hold(&one.name, format!("allows no eviction now, and selects pod {}", pod.key))]
            }
            [] | [_] => Vec::new(),
            several => {
                let message =
                    format!("selects pod {} beside another budget: a pod with several is never evicted", pod.key);
                several.iter().map(|one| hold(&one.name, message.clone())).collect()
            }
        }
    }

    /// What the budgets and windows of the NodePool, and the budget of the cluster, hold it by.
    pub(super) fn of_budgets(&self, reason: DisruptionReason) -> Vec<Hold> {
        let Some(Candidate { pool, .. }) = self.managed else { return Vec::new() };
        let nodes = self.candidates.nodes_of(&pool.pool.name);
        let mut holds = Vec::new();
        let title = format!("NodePool/{}", pool.pool.name);
        let (unavailable, total) = (nodes.unavailable_for(reason), nodes.total);
        if !pool.disruption.is_window_open(self.now()) {
            holds.push(Hold::new(HoldCode::Budget, title, "has no open disruption window now"));
        } else if pool.disruption.allowance(reason, total, unavailable, self.now()) == 0 {
            let message = format!(
                "its budgets allow no further removal as {} now: {unavailable} of {total} nodes are leaving, being replaced \
                 or not ready",
                reason.as_str()
            );
            holds.push(Hold::new(HoldCode::Budget, title, message));
        }
        if self.candidates.cluster_allowance(reason) == 0 {
            let message = "has as many unavailable nodes as disruption.max-unavailable-nodes allows";
            holds.push(Hold::new(HoldCode::Budget, self.cluster_title(), message));
        }
        holds
    }

    /// The replacement under way, and the wait after one that failed.
    pub(super) fn of_replacements(&self) -> Vec<Hold> {
        let Some(Candidate { claim, pool, .. }) = self.managed else { return Vec::new() };
        let mut holds = Vec::new();
        if let Some(begun) = self.controller.state.replacement_of(&claim.name) {
            let since = self.now().duration_since(begun.since).as_secs();
            let message =
                format!("has been replaced for {since} s as {}: its pods wait for nodes", begun.reason.as_str());
            holds.push(Hold::new(HoldCode::Replacing, self.node_title(), message));
        }
        if let Some(until) = self.view.backoff.until(&pool.pool.name, self.now()) {
            let message =
                format!("waits after a replacement that failed; the next may begin {}", self.remaining(until));
            holds.push(Hold::new(HoldCode::BackOff, format!("NodePool/{}", pool.pool.name), message));
        }
        holds
    }

    /// The pod that consolidation has moved within `disruption.move-interval` and may move again last.
    pub(super) fn of_moves(&self) -> Option<Hold> {
        let state = &self.controller.state;
        let moved = state.recent_move_to(&self.node.name, self.view.move_interval, self.now())?;
        let left = self.remaining(moved.until);
        let message = format!("was moved by consolidation, which may move it again {left} (disruption.move-interval)");
        Some(Hold::new(HoldCode::RecentlyMoved, format!("Pod/{}", moved.pod), message))
    }

    /// The wait of `consolidateAfter`, and a fixed number of nodes.
    pub(super) fn of_wait(&self) -> Vec<Hold> {
        let Some(Candidate { pool, .. }) = self.managed else { return Vec::new() };
        let title = format!("NodePool/{}", pool.pool.name);
        let mut holds = Vec::new();
        if let Some(replicas) = pool.pool.replicas {
            let message = format!("has a fixed number of nodes (replicas: {replicas})");
            holds.push(Hold::new(HoldCode::Static, title.clone(), message));
        }
        let last = self.controller.state.last_pod_event(&self.node.name);
        match (pool.disruption.consolidate_after, last) {
            (None, _) => holds.push(Hold::new(HoldCode::ConsolidateAfter, title, "has consolidateAfter: Never")),
            (Some(_), None) => {
                let message = "has no known time of its last pod event: consolidateAfter has not begun";
                holds.push(Hold::new(HoldCode::ConsolidateAfter, self.node_title(), message));
            }
            (Some(wait), Some(last)) if last + wait > self.now() => {
                let message = format!("may be consolidated {}: a pod came or went", self.remaining(last + wait));
                holds.push(Hold::new(HoldCode::ConsolidateAfter, self.node_title(), message));
            }
            (Some(_), Some(_)) => {}
        }
        holds
    }

    /// `in 30 s`, at least one.
    pub(super) fn remaining(&self, until: Timestamp) -> String {
        let left = until.duration_since(self.now()).max(Millis::from_secs(1));
        format!("in {} s", left.as_secs())
    }
}
