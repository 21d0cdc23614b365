//! Registration gate: a joined Node is registered when pods could be bound to it, all machines of
//! its decision have joined, and the earlier Nodes of the group have their pods.
//!
//! ```text
//!  node a   joined ── ready ─ held ────────────╥ nominations of a, registered: its pods are bound
//!  node b       joined ────────────── ready ───╨───────────────────────╥ nominations of b, registered
//!                        └─ at most open_together ──┘
//! ```
//!
//! **Together.** If node a were registered before node b has joined, pods planned for b would fail
//! to schedule and take free capacity on a. A machine that exceeds the maximum wait is not waited
//! for; machines of different NodePools do not wait for one another.
//!
//! **With stable nominations.** kube-scheduler may still be trying pods when the last Node joins,
//! and each failed attempt clears a nomination. So pods are nominated before registration and again
//! after a loss, until all are nominated and none has changed for a moment; then the Nodes are
//! registered.
//!
//! **In order.** Nodes cannot be registered atomically: the first one triggers an attempt for all
//! pending pods, and those nominated to an unregistered Node lose their nominations and take
//! unreserved capacity. So Nodes whose pods are all nominated are registered first, because they
//! have no unreserved capacity. Nodes that also have pods without nominations follow once the pods
//! of the first are bound, and Nodes without nominations come last.

use std::collections::BTreeMap;

use super::retries::NominationRetries;
use super::view::NominationView;
use crate::DecisionId;
use crate::nodeclaim::{ManagedClaim, NodeClaims, StageKind};
use cluster::planning::{UNREGISTERED, is_ephemeral};
use cluster::{NodeRecord, Target};
use model::{ClaimName, Millis, PoolName, Timestamp};

/// How long a Node that is not ready is held for the sake of its nominations, counted from its
/// creation. A kubelet is usually ready sooner; a cluster whose network starts only on registered
/// Nodes is delayed no longer than this.
pub const MAX_NODE_WAIT: Millis = Millis::from_secs(30);

/// How long the next Nodes wait after the last pod of the previous ones was bound. kube-scheduler
/// binds a hundred pods within a second; pods not bound by then wait for something else.
const BINDING_WAIT: Millis = Millis::from_secs(3);
/// All Nodes of a decision are registered this long after the first.
const MAX_GROUP_WAIT: Millis = Millis::from_secs(30);
/// Nominations are stable when none has changed for this long: a busy kube-scheduler makes ten and
/// more attempts in that time.
const STABLE_NOMINATIONS_FOR: Millis = Millis::new(500);
/// How long stable nominations are waited for. They become stable once kube-scheduler has finished
/// its queued attempts, which takes a busy machine some seconds.
const MAX_NOMINATION_WAIT: Millis = Millis::from_secs(15);
/// How long the first nomination is waited for; a kube-scheduler without support for nominations
/// never shows one.
const FIRST_NOMINATION_WAIT: Millis = Millis::from_secs(2);

/// Nodes that are held, by NodeClaim, and until when at the latest.
type HeldNodes = BTreeMap<ClaimName, Timestamp>;

/// Which Nodes are not registered yet, and how far their NodeClaims have come.
#[derive(Debug, Default)]
pub(super) struct RegistrationGate {
    held: HeldNodes,
    /// Progress by NodeClaim, kept after the registration, because the next Nodes of the decision
    /// wait for the pods of the first.
    progress: BTreeMap<ClaimName, RegistrationProgress>,
}

/// How far a NodeClaim has come.
#[derive(Debug, Clone, Copy, Default)]
struct RegistrationProgress {
    /// When its Node became ready for registration.
    registrable_since: Option<Timestamp>,
    /// When the nomination of its pods began, while its Node is not registered.
    nominating_since: Option<Timestamp>,
    /// When the registration of its Node was first ordered.
    ordered_at: Option<Timestamp>,
}

/// Which pods assigned to a Node can be nominated, in the order in which Nodes are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NominableShare {
    All,
    Some,
    None,
}

/// Machines of one decision in one NodePool.
#[derive(Debug, Default)]
struct DecisionGroup {
    /// Whether one of them cannot be registered yet.
    awaits_nodes: bool,
    /// Since when the first registrable one is held.
    since: Option<Timestamp>,
    /// When the first of them was registered.
    began: Option<Timestamp>,
    /// Until when the registered ones are given time to have their pods bound.
    binding_until: Option<Timestamp>,
    /// Those that are not registered yet.
    waiting: Vec<(NominableShare, ClaimName)>,
}

/// What happens to the joined Nodes of a group.
#[derive(Debug, PartialEq, Eq)]
enum RegistrationStep {
    /// They stay unregistered until then at the latest.
    Wait(Timestamp),
    /// Nodes of this kind are registered next, once their nominations are stable; the others wait
    /// until then at the latest.
    Register(NominableShare, Timestamp),
    RegisterAll,
}

type GroupKey = (DecisionId, PoolName);

impl RegistrationGate {
    /// Whether the Node of `claim` is not registered yet.
    pub fn holds(&self, claim: &ClaimName) -> bool {
        self.held.contains_key(claim)
    }

    /// When the next Node is held no longer, at the latest.
    pub fn next_release(&self) -> Option<Timestamp> {
        self.held.values().copied().min()
    }

    /// Whether the pods of `claim` are being nominated for the registration of its Node.
    pub fn is_nominating(&self, claim: &ClaimName) -> bool {
        let progress = self.progress_of(claim);
        progress.nominating_since.is_some() && progress.ordered_at.is_none()
    }

    /// Records that the registration of the Node of `claim` is ordered; the first order counts.
    pub fn record_registration(&mut self, claim: &ClaimName, now: Timestamp) {
        self.progress.entry(claim.clone()).or_default().ordered_at.get_or_insert(now);
    }

    /// Whether the registration of the Node of `claim` was ordered.
    pub fn is_registering(&self, claim: &ClaimName) -> bool {
        self.progress.get(claim).is_some_and(|progress| progress.ordered_at.is_some())
    }

    /// Forgets NodeClaims that were removed: one of the same name begins anew.
    pub fn forget_removed(&mut self, claims: &NodeClaims) {
        self.held.retain(|claim, _| claims.contains(claim));
        self.progress.retain(|claim, _| claims.contains(claim));
    }

    /// Records since when Nodes are registrable, and recomputes which of them are held. Schedules
    /// the nominations of the Nodes that are next.
    pub fn update(&mut self, retries: &mut NominationRetries, open_together: Millis, view: &NominationView<'_>) {
        self.held.clear();
        if !view.claims.iter().any(|claim| view.node_awaiting_registration(claim).is_some()) {
            return;
        }
        self.record_registrable_nodes(view);
        let mut held = self.unready_nodes(view);
        if open_together > Millis::ZERO {
            for group in self.decision_groups(retries.last_bound(), view).into_values() {
                held.extend(self.held_nodes(group, retries, open_together, view));
            }
        }
        self.held = held;
    }

    /// Nodes of a group that are held, and until when at the latest.
    fn held_nodes(
        &mut self,
        group: DecisionGroup,
        retries: &mut NominationRetries,
        open_together: Millis,
        view: &NominationView<'_>,
    ) -> HeldNodes {
        let step = group.next_step(open_together, view.now);
        let (next, others): (Vec<_>, Vec<_>) = group.waiting.into_iter().partition(|(share, _)| match step {
            RegistrationStep::Wait(_) => false,
            RegistrationStep::Register(first, _) => *share == first,
            RegistrationStep::RegisterAll => true,
        });
        let next: Vec<ClaimName> = next.into_iter().map(|(_, claim)| claim).collect();
        let (RegistrationStep::Wait(until) | RegistrationStep::Register(_, until)) = step else {
            return HeldNodes::new();
        };
        let nominating = self
            .wait_for_nominations(&next, retries, view)
            .into_iter()
            .flat_map(|until| next.iter().map(move |claim| (claim.clone(), until)));
        others.into_iter().map(|(_, claim)| (claim, until)).chain(nominating).collect()
    }

    /// Nominates the pods of `claims`, which are next; returns until when their Nodes are held for
    /// it.
    fn wait_for_nominations(
        &mut self,
        claims: &[ClaimName],
        retries: &mut NominationRetries,
        view: &NominationView<'_>,
    ) -> Option<Timestamp> {
        let now = view.now;
        let mut began = now;
        for claim in claims {
            let progress = self.progress.entry(claim.clone()).or_default();
            if progress.nominating_since.is_none() {
                retries.schedule_now(now);
            }
            began = began.min(*progress.nominating_since.get_or_insert(now));
        }
        let (mut some, mut all) = (false, true);
        for claim in claims {
            let node = view.state.node_of_claim(claim).map(|node| &node.name);
            let assigned = view.assigned_pods(claim);
            for pod in view.nominable(claim, &assigned) {
                some |= pod.own_nomination.is_some();
                all &= pod.own_nomination.as_ref() == node;
            }
        }
        let until = match (some, all) {
            (false, true) => return None,
            (_, true) => retries.last_change().max(began) + STABLE_NOMINATIONS_FOR,
            (true, false) => began + MAX_NOMINATION_WAIT,
            (false, false) => began + FIRST_NOMINATION_WAIT,
        };
        let until = until.min(began + MAX_NOMINATION_WAIT);
        (until > now).then_some(until)
    }

    fn progress_of(&self, claim: &ClaimName) -> RegistrationProgress {
        self.progress.get(claim).copied().unwrap_or_default()
    }

    fn record_registrable_nodes(&mut self, view: &NominationView<'_>) {
        for claim in view.claims.iter().filter(|claim| claim.stage() == StageKind::Launched) {
            if view.node_awaiting_registration(claim).is_some_and(is_registrable) {
                self.progress.entry(claim.name().clone()).or_default().registrable_since.get_or_insert(view.now);
            } else if let Some(progress) = self.progress.get_mut(claim.name()) {
                progress.registrable_since = None;
            }
        }
    }

    /// Nodes that pods could not be bound to yet.
    fn unready_nodes(&self, view: &NominationView<'_>) -> HeldNodes {
        let unregistered =
            view.claims.iter().filter_map(|claim| Some((claim.name(), view.node_awaiting_registration(claim)?)));
        let unready = unregistered
            .filter(|(claim, _)| self.progress_of(claim).registrable_since.is_none() && view.has_assigned_pods(claim));
        let until = unready.filter_map(|(claim, node)| Some((claim.clone(), node.created? + MAX_NODE_WAIT)));
        until.filter(|(_, until)| *until > view.now).collect()
    }

    fn decision_groups(&self, last_bound: Timestamp, view: &NominationView<'_>) -> BTreeMap<GroupKey, DecisionGroup> {
        let mut groups: BTreeMap<GroupKey, DecisionGroup> = BTreeMap::new();
        for claim in view.claims.iter().filter(|claim| claim.termination_reason().is_none()) {
            if let Some(decision) = claim.decision() {
                let group = groups.entry((decision, claim.pool().clone())).or_default();
                group.add(claim, self.progress_of(claim.name()), last_bound, view);
            }
        }
        groups
    }
}

impl<'v> NominationView<'v> {
    /// The Node of a machine that has joined and is not registered.
    fn node_awaiting_registration(&self, claim: &ManagedClaim) -> Option<&'v NodeRecord> {
        let joining = claim.stage() == StageKind::Launched && claim.termination_reason().is_none();
        let node = joining.then(|| self.state.node_of_claim(claim.name())).flatten();
        node.filter(|node| !node.is_registered())
    }

    fn has_assigned_pods(&self, claim: &ClaimName) -> bool {
        self.state.assignments().has_pods(&Target::Claim(claim.clone()))
    }

    fn nominable_share(&self, claim: &ClaimName) -> NominableShare {
        let assigned = self.assigned_pods(claim);
        match self.nominable(claim, &assigned).count() {
            0 => NominableShare::None,
            some if some < assigned.len() => NominableShare::Some,
            _ => NominableShare::All,
        }
    }
}

impl DecisionGroup {
    /// Adds a machine that stays. `last_bound` is when an assigned pod was last bound.
    fn add(
        &mut self,
        claim: &ManagedClaim,
        progress: RegistrationProgress,
        last_bound: Timestamp,
        view: &NominationView<'_>,
    ) {
        match (progress.ordered_at, progress.registrable_since) {
            (Some(at), _) => {
                self.began = Some(self.began.map_or(at, |began| began.min(at)));
                let until = at.max(last_bound) + BINDING_WAIT;
                let assigned = view.assigned_pods(claim.name());
                if until > view.now && view.nominable(claim.name(), &assigned).next().is_some() {
                    self.binding_until = self.binding_until.max(Some(until));
                }
            }
            (None, Some(at)) if view.has_assigned_pods(claim.name()) => {
                self.since = Some(self.since.map_or(at, |since| since.min(at)));
                self.waiting.push((view.nominable_share(claim.name()), claim.name().clone()));
            }
            (None, Some(_)) => {}
            (None, None) => self.awaits_nodes |= claim.stage() <= StageKind::Launched,
        }
    }

    fn next_step(&self, open_together: Millis, now: Timestamp) -> RegistrationStep {
        let arrival = self.since.map(|since| since + open_together).filter(|_| self.awaits_nodes);
        let end = self.began.unwrap_or(now) + MAX_GROUP_WAIT;
        let first = self.waiting.iter().map(|(share, _)| *share).min();
        match (arrival.filter(|until| *until > now), self.binding_until) {
            (Some(until), _) => RegistrationStep::Wait(until),
            (None, _) if end <= now => RegistrationStep::RegisterAll,
            (None, Some(binding_until)) => RegistrationStep::Wait(binding_until.min(end)),
            (None, None) => first.map_or(RegistrationStep::RegisterAll, |share| RegistrationStep::Register(share, end)),
        }
    }
}

/// Whether pods could be bound to the Node after registration: it is ready, and has no other
/// ephemeral taint.
fn is_registrable(node: &NodeRecord) -> bool {
    let held = |taint| is_ephemeral(taint) && taint.key.as_ref() != UNREGISTERED;
    node.ready && !node.taints.iter().any(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{claim, text};

    #[test]
    fn a_claim_of_the_same_name_begins_anew() {
        let at = Timestamp::from_millis;
        let (mut gate, mut claims, name) = (RegistrationGate::default(), NodeClaims::default(), text("m0"));
        claims.insert(ManagedClaim::from_claim(&claim("m0"), None, at(0)));
        gate.progress.entry(text("m0")).or_default().nominating_since = Some(at(1));
        assert!(gate.is_nominating(&name));
        gate.record_registration(&name, at(2));
        gate.record_registration(&name, at(3));
        gate.forget_removed(&claims);
        assert_eq!(gate.progress_of(&name).ordered_at, Some(at(2)), "the first order counts");
        assert!(!gate.is_nominating(&name));
        claims.remove(&name);
        gate.forget_removed(&claims);
        assert!(gate.progress_of(&name).ordered_at.is_none());
    }

    #[test]
    fn nodes_wait_for_late_ones_then_for_bindings_and_never_longer_than_the_maximum() {
        let at = Timestamp::from_millis;
        let ten = Millis::from_secs(10);
        let waiting = || vec![(NominableShare::Some, text("b")), (NominableShare::All, text("a"))];
        let group = || DecisionGroup { waiting: waiting(), ..DecisionGroup::default() };
        let late = || DecisionGroup { awaits_nodes: true, since: Some(at(0)), ..group() };
        assert_eq!(late().next_step(ten, at(9_999)), RegistrationStep::Wait(at(10_000)));
        let end = at(10_000) + MAX_GROUP_WAIT;
        assert_eq!(late().next_step(ten, at(10_000)), RegistrationStep::Register(NominableShare::All, end));
        let begun = |binding_until| DecisionGroup { began: Some(at(0)), binding_until, ..group() };
        assert_eq!(begun(Some(at(3_000))).next_step(ten, at(1_000)), RegistrationStep::Wait(at(3_000)));
        assert_eq!(begun(Some(at(60_000))).next_step(ten, at(1_000)), RegistrationStep::Wait(at(0) + MAX_GROUP_WAIT));
        assert_eq!(begun(None).next_step(ten, at(0) + MAX_GROUP_WAIT), RegistrationStep::RegisterAll);
    }
}
