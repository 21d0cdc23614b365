//! Other autoscalers in the cluster (Karpenter, Cluster Autoscaler), and the pods and NodePools
//! that they manage; pods of other schedulers.

use super::record::{ClaimRecord, PodRecord, PoolRecord};
use super::state::ClusterState;
use model::schedulers::PlannedSchedulers;
use model::{ClaimName, Millis, NodeName, Text, Timestamp};

/// How long a pod is not planned after Cluster Autoscaler triggered a scale-up for it. Longer than
/// a node usually takes to join, shorter than Cluster Autoscaler's own timeout
/// (`--max-node-provision-time`, 15 minutes).
pub const EXTERNAL_SCALE_UP_HOLD: Millis = Millis::from_mins(5);

/// Name of Karpenter in an [`AutoscalerRecord`](super::AutoscalerRecord).
pub const KARPENTER: &str = "karpenter";

/// The annotation that marks NodePools and NodeClaims as managed by Fleetwright; the value `false`
/// excludes them.
pub const MANAGED: &str = "fleetwright.dev/managed";

impl ClusterState {
    /// Sets how long a pod is not planned after Cluster Autoscaler triggered a scale-up for it.
    pub fn hold_after_external_scale_up(&mut self, hold_for: Millis) {
        self.auxiliary_mut().set_hold(hold_for);
    }

    /// Sets shadow mode: decisions are recorded and not executed, so an active Karpenter does not
    /// exclude NodePools.
    pub fn set_shadow(&mut self, shadow: bool) {
        self.auxiliary_mut().set_shadow(shadow);
    }

    /// Sets the schedulers whose pods are planned.
    pub fn set_schedulers(&mut self, schedulers: PlannedSchedulers) {
        self.auxiliary_mut().set_schedulers(schedulers);
    }

    /// Whether all three are set so already.
    #[must_use]
    pub fn is_configured(&self, hold_for: Millis, shadow: bool, schedulers: &PlannedSchedulers) -> bool {
        let auxiliary = self.auxiliary();
        auxiliary.hold_for() == Some(hold_for)
            && auxiliary.is_shadow() == shadow
            && auxiliary.schedulers() == schedulers
    }

    fn hold_for(&self) -> Millis {
        self.auxiliary().hold_for().unwrap_or(EXTERNAL_SCALE_UP_HOLD)
    }

    /// When the hold of `pod` after a Cluster Autoscaler scale-up ends; `None` when it is not held
    /// at `now`.
    #[must_use]
    pub fn external_hold_until(&self, pod: &PodRecord, now: Timestamp) -> Option<Timestamp> {
        let until = pod.external_scale_up? + self.hold_for();
        (until > now).then_some(until)
    }

    /// When the next hold after a Cluster Autoscaler scale-up ends; the pod is planned then if it
    /// is still pending.
    #[must_use]
    pub fn next_hold_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let hold = self.hold_for();
        self.auxiliary().external_scale_ups().map(|at| at + hold).find(|until| *until > now)
    }

    /// The node that kube-scheduler nominated for `pod`, unless that node is terminating: a Node, or a NodeClaim that
    /// has none yet.
    #[must_use]
    pub fn nominated_node<'p>(&self, pod: &'p PodRecord) -> Option<&'p NodeName> {
        let waits = pod.node.is_none() && !pod.is_terminal();
        let accepts = |node: &NodeName| match self.node(node) {
            Some(_) => !self.is_node_terminating(node),
            None => self.is_in_flight(&ClaimName::from(node.as_text())),
        };
        pod.nominated.as_ref().filter(|node| waits && accepts(node))
    }

    /// Whether there is such a NodeClaim, without a Node, and it stays.
    fn is_in_flight(&self, claim: &ClaimName) -> bool {
        let stays = |claim: &ClaimRecord| !claim.deleting && !self.is_marked_for_deletion(&claim.name);
        self.claim(claim).is_some_and(stays) && self.node_of_claim(claim).is_none()
    }

    /// Whether an active Karpenter runs in this cluster.
    #[must_use]
    pub fn is_karpenter_active(&self) -> bool {
        self.auxiliary().autoscaler(KARPENTER).is_some_and(|karpenter| karpenter.live)
    }

    /// Other active autoscalers in this cluster, by name.
    pub fn active_autoscalers(&self) -> impl Iterator<Item = &Text> {
        self.auxiliary().autoscalers().filter(|other| other.live).map(|other| &other.name)
    }

    /// Why `pool` is not managed by this server; `None` when it is. An active Karpenter launches an
    /// instance for every NodeClaim without one, regardless of its creator, and no annotation
    /// prevents that: each NodeClaim of this server would be launched twice. So no NodePool is
    /// managed beside an active Karpenter.
    #[must_use]
    pub fn unmanaged_reason(&self, pool: &PoolRecord) -> Option<Text> {
        if pool.meta.managed == Some(false) {
            return Some(Text::from(format!("its annotation {MANAGED} is \"false\"")));
        }
        let karpenter = self.auxiliary().autoscaler(KARPENTER).filter(|karpenter| karpenter.live);
        let karpenter = karpenter.filter(|_| !self.auxiliary().is_shadow())?;
        let evidence = match karpenter.evidence.as_ref() {
            "" => "its Lease is renewed",
            evidence => evidence,
        };
        let refused = if pool.meta.managed.is_some() {
            format!(", regardless of its annotation {MANAGED}")
        } else {
            String::new()
        };
        Some(Text::from(format!(
            "Karpenter is active in this cluster ({evidence}) and would launch a second instance for each NodeClaim: the NodePool \
             is not managed{refused}. Scale Karpenter to 0, or set agent.karpenter-absent = true in the agent's configuration if \
             it is not installed"
        )))
    }
}
