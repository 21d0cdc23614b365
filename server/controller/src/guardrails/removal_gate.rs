//! Applies the removal gate to one cluster: collects the input of [`evaluate_removal`] and carries
//! out its decision.

use std::collections::BTreeSet;

use super::rate_limits::LimitBlock;
use super::removal::{
    BlockCause, Distrust, Evidence, GateDecision, MachineFacts, NodeState, RemovalConstraints, evaluate_removal,
};
use crate::cluster_controller::{ClusterController, Context};
use crate::nodeclaim::{LostNode, ManagedClaim, StageKind};
use cluster::{Key, NodeRecord, Observation};
use model::{ClaimName, MicroUsd, NodeName, PoolName, Timestamp};

impl ClusterController {
    /// Facts about the machine of `claim`.
    pub(crate) fn machine_facts(&self, claim: &ClaimName, ctx: &Context<'_>) -> MachineFacts {
        let Some(machine) = self.claims.get(claim) else {
            return MachineFacts { node: NodeState::Never, pods: 0, confirmed: false };
        };
        let confirmed = machine.is_removal_confirmed();
        if let Some(node) = self.node_of(machine) {
            let state = if node.ready { NodeState::Ready } else { NodeState::NotReady };
            return MachineFacts { node: state, pods: self.state.non_daemon_pods_on(&node.name), confirmed };
        }
        if self.is_unknown(machine) && self.may_have_hidden_node(ctx) {
            let node = NodeState::Vanished { with_most: self.lacks_all_nodes(ctx) };
            return MachineFacts { node, pods: self.state.non_daemon_pods_on_missing_nodes(), confirmed };
        }
        let Some(pods) = self.pods_of_vanished_node(machine) else {
            return MachineFacts { node: NodeState::Never, pods: 0, confirmed };
        };
        MachineFacts { node: NodeState::Vanished { with_most: self.most_nodes_vanished(ctx) }, pods, confirmed }
    }

    /// Whether a Node may exist that is not reported: a pod is bound to an unreported Node, or no
    /// Node is reported at all.
    pub(crate) fn may_have_hidden_node(&self, ctx: &Context<'_>) -> bool {
        self.lacks_all_nodes(ctx) || self.state.non_daemon_pods_on_missing_nodes() > 0
    }

    /// Whether no Node is reported, which is implausible, and no operator has confirmed it.
    fn lacks_all_nodes(&self, ctx: &Context<'_>) -> bool {
        let vouched = self.operator_confirmed_until.is_some_and(|until| ctx.now < until);
        self.state.has_no_nodes() && !vouched
    }

    /// Whether it is unknown if the machine ever had a Node: it was recovered from a launch row or
    /// a cloud listing, and its NodeClaim is not reported.
    fn is_unknown(&self, machine: &ManagedClaim) -> bool {
        machine.planned().is_none()
            && machine.lost_node().is_none()
            && machine.stage() != StageKind::Deleting
            && !machine.provider_id().is_empty()
            && !self.state.is_claim_observed(machine.name())
    }

    /// The Node of a launched machine.
    fn node_of(&self, machine: &ManagedClaim) -> Option<&NodeRecord> {
        let launched = !machine.provider_id().is_empty();
        launched.then(|| self.state.node_of_machine(machine.provider_id())).flatten()
    }

    /// Number of pods bound to a machine's vanished Node. Without the name of that Node, as after a
    /// restart, the pods of all unreported Nodes count.
    fn pods_of_vanished_node(&self, machine: &ManagedClaim) -> Option<usize> {
        self.has_vanished(machine).then(|| match machine.lost_node() {
            Some(LostNode { name }) => self.state.non_daemon_pods_on(name),
            None => self.state.non_daemon_pods_on_missing_nodes(),
        })
    }

    /// Whether a machine's Node existed and is not reported any more.
    fn has_vanished(&self, machine: &ManagedClaim) -> bool {
        let registered =
            || self.state.claim(machine.name()).is_some_and(|claim| claim.condition_digest.is_registered());
        machine.stage() != StageKind::Deleting
            && self.node_of(machine).is_none()
            && (machine.lost_node().is_some() || registered())
    }

    /// Whether most Nodes of managed machines have vanished.
    pub(crate) fn most_nodes_vanished(&self, ctx: &Context<'_>) -> bool {
        let rule = &ctx.settings.guardrails.quarantine;
        if rule.percent == 0 {
            return false;
        }
        let vanished = self.claims.iter().filter(|machine| self.has_vanished(machine)).count();
        let shown = self.claims.iter().filter(|machine| self.node_of(machine).is_some()).count();
        vanished > rule.free_machines && vanished * 100 > rule.percent * (vanished + shown)
    }

    /// Nodes of managed machines that `observation` deletes, by NodeClaim.
    pub(crate) fn nodes_lost_by(&self, observation: &Observation) -> Vec<(ClaimName, LostNode)> {
        let lost = |name: &NodeName| {
            let claim = self.state.claim_of_node(self.state.node(name)?)?;
            Some((claim.name.clone(), LostNode { name: name.clone() }))
        };
        match observation {
            Observation::Delete(Key::Node(name)) => lost(name).into_iter().collect(),
            Observation::Snapshot(snapshot) => {
                let shown: BTreeSet<&NodeName> = snapshot.nodes.iter().map(|node| &node.name).collect();
                self.state
                    .nodes()
                    .filter(|node| !shown.contains(&node.name))
                    .filter_map(|node| lost(&node.name))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Keeps the disruption policies of NodePools that `observation` deletes, for the removal of
    /// their nodes.
    pub(crate) fn keep_disruption_policies(&mut self, observation: &Observation) {
        let lost: Vec<PoolName> = match observation {
            Observation::Delete(Key::Pool(name)) => vec![name.clone()],
            Observation::Snapshot(snapshot) => {
                let shown: BTreeSet<&PoolName> = snapshot.pools.iter().map(|record| &record.pool.name).collect();
                self.state
                    .pools()
                    .map(|record| &record.pool.name)
                    .filter(|name| !shown.contains(name))
                    .cloned()
                    .collect()
            }
            _ => return,
        };
        for name in lost {
            if let Some(record) = self.state.pool(&name) {
                self.guardrails.keep_disruption_policy(name, record.disruption.clone());
            }
        }
    }

    /// Whether the terminating machine of `claim`, which has no Node, may be terminated. If its
    /// Node vanished under pods, the removal waits and the cloud is queried by id.
    pub(crate) fn may_terminate_without_node(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) -> bool {
        let facts = self.machine_facts(claim, ctx);
        let verdict = evaluate_removal(Evidence::Terminating, facts, &RemovalConstraints::default());
        let may_begin = self.apply_gate_decision(BlockCause::NodeVanished, claim, verdict, ctx.now);
        if !may_begin {
            self.inspect_instance_of(claim, ctx);
        }
        may_begin
    }

    /// Records or releases the block that `verdict` asks for; returns whether the removal may begin.
    pub(crate) fn apply_gate_decision(
        &mut self,
        cause: BlockCause,
        claim: &ClaimName,
        verdict: GateDecision,
        now: Timestamp,
    ) -> bool {
        match verdict {
            GateDecision::Proceed => {
                self.guardrails.release_removal(cause, claim);
                true
            }
            GateDecision::Block { refusal, .. } => {
                self.guardrails.block_removal(cause, claim, refusal, now);
                false
            }
        }
    }

    /// Applies an operator's confirmation to every removal that is held now.
    pub(crate) fn confirm_removals(&mut self, now: Timestamp) {
        let claims: Vec<ClaimName> = self.guardrails.waiting_removals().map(|(_, claim, _)| claim.clone()).collect();
        for claim in claims {
            if let Some(machine) = self.claims.get_mut(&claim) {
                machine.confirm_removal(now);
            }
        }
        self.gc.confirm_missing();
        self.disruption.mark_changed();
    }

    /// Limits that apply to removing the machine of `claim` on missing evidence.
    pub(crate) fn removal_constraints(&self, claim: &ClaimName, ctx: &Context<'_>) -> RemovalConstraints {
        let (headroom, capped) = self.removal_headroom(vec![self.claims.price_of(claim)], ctx);
        let capped = capped.filter(|_| headroom == 0);
        let frozen = self.freeze_of(claim, ctx).cloned();
        RemovalConstraints { distrusted: self.distrust(), frozen, capped, ..RemovalConstraints::default() }
    }

    /// How many of the machines with these prices the rate limit on removals admits, and why not
    /// more.
    pub(crate) fn removal_headroom(&self, prices: Vec<MicroUsd>, ctx: &Context<'_>) -> (usize, Option<LimitBlock>) {
        ctx.guardrails.admit_removals(&ctx.settings.guardrails, self.population(ctx), prices, ctx.now)
    }

    /// Counts the removal of an orphaned machine if the rate limit admits it; returns whether it
    /// does.
    pub(crate) fn admit_orphan_removal(&self, claim: &ClaimName, ctx: &mut Context<'_>) -> bool {
        let (headroom, _) = self.removal_headroom(vec![self.claims.price_of(claim)], ctx);
        if headroom > 0 {
            self.count_removal(claim, ctx);
        }
        headroom > 0
    }

    /// Why the agent's snapshot, or the cloud's listing, is not trusted.
    fn distrust(&self) -> Option<Distrust> {
        let quarantine = self.guardrails.quarantine();
        let quarantine = quarantine.map(|quarantine| Distrust::Quarantine(quarantine.reason().clone()));
        quarantine.or_else(|| self.gc.suspicion().map(|suspicion| Distrust::Listing(suspicion.loss.clone())))
    }

    /// Drops the blocks of machines that are gone.
    pub(crate) fn drop_stale_blocks(&mut self) {
        let claims = &self.claims;
        for cause in [
            BlockCause::ByHand,
            BlockCause::NodeVanished,
            BlockCause::Missing,
            BlockCause::Foreign,
            BlockCause::Unconfirmed,
        ] {
            self.guardrails.retain_waiting_removals(cause, |claim| claims.contains(claim));
        }
    }

    /// Counts a removal on missing evidence against the rate limit.
    pub(crate) fn count_removal(&self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let price: MicroUsd = self.claims.price_of(claim);
        ctx.guardrails.record_removal(&self.cluster, claim, price, ctx.now);
    }
}
