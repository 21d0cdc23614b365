//! The nominator: when Nodes are registered, and which pods are nominated for them.

use super::registration_gate::RegistrationGate;
use super::retries::NominationRetries;
use super::view::{NominationView, needs_node};
use crate::nodeclaim::NodeClaims;
use crate::{Instruction, PodNomination};
use cluster::{ClusterState, NodeRecord, Object, PodRecord};
use model::{ClaimName, Millis, PodKey, Timestamp};

/// Holds Nodes until their pods are nominated, and repeats lost nominations.
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    registration_gate: RegistrationGate,
    retries: NominationRetries,
}

impl Nominator {
    /// Called before the observation of `object` is applied: a pod may be bound, or have got or
    /// lost a nomination; a Node may accept more pods than before.
    pub fn observe_change(&mut self, object: &Object, state: &ClusterState, now: Timestamp) {
        match object {
            Object::Pod(pod) => self.retries.observe_pod(pod, state, now),
            Object::Node(node) if becomes_schedulable(node, state) => self.retries.schedule(now),
            _ => {}
        }
    }

    /// Called after a pod has changed: schedules a retry if it has lost its nomination.
    pub fn schedule_lost_nomination(&mut self, key: &PodKey, state: &ClusterState, now: Timestamp) {
        let unnominated = |pod: &PodRecord| needs_node(pod) && pod.own_nomination.is_none();
        if state.assignments().get(key).is_some() && state.pod(key).is_some_and(unnominated) {
            self.retries.schedule(now);
        }
    }

    /// Schedules nominations: pods were assigned to a Node, or their Node is registered.
    pub fn schedule_nominations(&mut self, now: Timestamp) {
        self.retries.schedule(now);
    }

    /// Forgets the progress of NodeClaims that were removed.
    pub fn forget_removed(&mut self, claims: &NodeClaims) {
        self.registration_gate.forget_removed(claims);
    }

    /// Records since when Nodes are registrable, and recomputes which of them are held.
    pub fn update_registration_gate(&mut self, open_together: Millis, view: &NominationView<'_>) {
        self.registration_gate.update(&mut self.retries, open_together, view);
    }

    /// Whether the Node of `claim` is not held.
    pub fn may_register(&self, claim: &ClaimName) -> bool {
        !self.registration_gate.holds(claim)
    }

    /// Whether the registration of the Node of `claim` was ordered.
    pub fn is_registering(&self, claim: &ClaimName) -> bool {
        self.registration_gate.is_registering(claim)
    }

    /// Records that the registration of the Node of `claim` is ordered; returns the nominations
    /// that are part of the order.
    pub fn begin_registration(&mut self, claim: &ClaimName, view: &NominationView<'_>) -> Vec<PodNomination> {
        self.registration_gate.record_registration(claim, view.now);
        let nominations = view.nominations(claim);
        let lacks = |nomination: &&PodNomination| {
            view.state.pod(&nomination.pod).is_some_and(|pod| pod.own_nomination.is_none())
        };
        for nomination in nominations.iter().filter(lacks) {
            if let Some(assignment) = view.state.assignments().get(&nomination.pod) {
                self.retries.record_attempt(nomination.pod.clone(), assignment.target.clone(), view.now);
            }
        }
        nominations
    }

    /// Nominates every assigned pod that should have a nomination and has none, node by node, if
    /// that is due.
    pub fn retry_nominations(&mut self, view: &NominationView<'_>) -> Vec<Instruction> {
        let gate = &self.registration_gate;
        self.retries.nominate_due(|claim| gate.is_nominating(claim), view)
    }

    /// When it has to be advanced without an event. Nominations are repeated only while the cluster
    /// is ready.
    pub fn next_wakeup(&self, is_ready: bool) -> Option<Timestamp> {
        let retry = self.retries.next_retry().filter(|_| is_ready);
        self.registration_gate.next_release().into_iter().chain(retry).min()
    }
}

/// Whether an observed Node accepts more pods than before, as far as taints and readiness show.
fn becomes_schedulable(node: &NodeRecord, state: &ClusterState) -> bool {
    let known = state.node(&node.name);
    known.is_some_and(|known| known.taints.len() > node.taints.len() || known.ready != node.ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclaim::ManagedClaim;
    use crate::nomination::registration_gate::MAX_NODE_WAIT;
    use cluster::Target;
    use cluster::testing::{claim, initialized_cluster, key, node, observe, pod, pool, text};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// The Node of `m0`, which is created at 0 and not ready, and the pod `a` assigned to it.
    fn joined() -> (ClusterState, NodeClaims) {
        let mut state = initialized_cluster(pool(), &["m0"]);
        let mut young = NodeRecord { ready: false, created: Some(at(0)), ..node("m0") };
        young.labels.retain(|key, _| !key.starts_with("karpenter.sh/"));
        observe(&mut state, 0, [Object::Node(young), Object::Pod(pod("a", 500))]);
        state.assign_pod(key("a"), Target::Claim(text("m0")), None);
        let mut claims = NodeClaims::default();
        claims.insert(ManagedClaim::from_claim(&claim("m0"), None, at(0)));
        (state, claims)
    }

    #[test]
    fn a_node_is_held_until_its_release_and_a_removed_one_causes_no_wakeup() {
        let (state, mut claims) = joined();
        let mut nominator = Nominator::default();
        let view = NominationView { state: &state, claims: &claims, now: at(1_000) };
        nominator.update_registration_gate(Millis::from_secs(10), &view);
        let release = at(0) + MAX_NODE_WAIT;
        assert_eq!((nominator.may_register(&text("m0")), nominator.next_wakeup(false)), (false, Some(release)));
        let view = NominationView { now: release, ..view };
        nominator.update_registration_gate(Millis::from_secs(10), &view);
        assert_eq!((nominator.may_register(&text("m0")), nominator.next_wakeup(false)), (true, None));
        let view = NominationView { now: at(1_000), ..view };
        nominator.update_registration_gate(Millis::from_secs(10), &view);
        claims.remove(&text("m0"));
        nominator.forget_removed(&claims);
        assert_eq!((nominator.may_register(&text("m0")), nominator.next_wakeup(false)), (true, None));
    }

    #[test]
    fn only_pods_of_kube_scheduler_are_nominated() {
        let nominated = |scheduler: Option<&str>| {
            let mut state = initialized_cluster(pool(), &["m0"]);
            let record = PodRecord { other_scheduler: scheduler.map(text), ..pod("a", 500) };
            observe(&mut state, 0, [Object::Pod(record)]);
            state.assign_pod(key("a"), Target::Claim(text("m0")), None);
            let mut claims = NodeClaims::default();
            claims.insert(ManagedClaim::from_claim(&claim("m0"), None, at(0)));
            let mut nominator = Nominator::default();
            nominator.schedule_nominations(at(0));
            let view = NominationView { state: &state, claims: &claims, now: at(1_000) };
            (nominator.retry_nominations(&view).len(), nominator.begin_registration(&text("m0"), &view).len())
        };
        assert_eq!(nominated(None), (1, 1));
        assert_eq!(nominated(Some("volcano")), (0, 0));
    }

    #[test]
    fn lost_nominations_of_assigned_pods_wake_a_ready_cluster() {
        let (state, claims) = joined();
        let mut nominator = Nominator::default();
        nominator.schedule_lost_nomination(&key("unassigned"), &state, at(1_000));
        assert_eq!(nominator.next_wakeup(true), None);
        nominator.schedule_lost_nomination(&key("a"), &state, at(1_000));
        assert_eq!((nominator.next_wakeup(true), nominator.next_wakeup(false)), (Some(at(1_200)), None));
        let view = NominationView { state: &state, claims: &claims, now: at(1_200) };
        assert_eq!(nominator.retry_nominations(&view), Vec::new(), "the Node is not registered");
        assert_eq!(nominator.next_wakeup(true), None);
    }

    #[test]
    fn a_node_that_becomes_ready_has_its_pods_nominated_soon() {
        let (state, _) = joined();
        let mut nominator = Nominator::default();
        nominator.observe_change(&Object::Node(NodeRecord { ready: false, ..node("m0") }), &state, at(1_000));
        assert_eq!(nominator.next_wakeup(true), None);
        nominator.observe_change(&Object::Node(node("m0")), &state, at(1_000));
        assert_eq!(nominator.next_wakeup(true), Some(at(1_200)));
    }
}
