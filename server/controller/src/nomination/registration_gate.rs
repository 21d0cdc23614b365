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

use super::super::DecisionId;
use super::super::cluster_controller::ClusterController;
use super::super::machine::{Machine, Stage};
use crate::cluster::planning::{UNREGISTERED, is_ephemeral};
use crate::cluster::{NodeRecord, Target};
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

/// Nodes that are not registered yet, by NodeClaim, and until when at the latest.
pub type RegistrationGate = BTreeMap<ClaimName, Timestamp>;

/// Which pods assigned to a Node can be nominated, in the order in which Nodes are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NominableShare {
    /// All of them.
    All,
    /// Some of them.
    Some,
    /// None of them.
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
    /// All of them are registered.
    RegisterAll,
}

type GroupKey = (DecisionId, PoolName);

impl ClusterController {
    /// Records since when Nodes are registrable, and recomputes which of them are held.
    pub fn update_registration_gate(&mut self, open_together: Millis, now: Timestamp) {
        self.registration_gate.clear();
        if !self.machines.values().any(|machine| self.node_awaiting_registration(machine).is_some()) {
            return;
        }
        self.record_registrable_nodes(now);
        let mut registration_gate = self.unready_nodes(now);
        if open_together > Millis::ZERO {
            for group in self.decision_groups(now).into_values() {
                registration_gate.extend(self.held_nodes(group, open_together, now));
            }
        }
        self.registration_gate = registration_gate;
    }

    /// Nodes of a group that are held, and until when at the latest.
    fn held_nodes(&mut self, group: DecisionGroup, open_together: Millis, now: Timestamp) -> RegistrationGate {
        let step = group.next_step(open_together, now);
        let (next, others): (Vec<_>, Vec<_>) = group.waiting.into_iter().partition(|(share, _)| match step {
            RegistrationStep::Wait(_) => false,
            RegistrationStep::Register(first, _) => *share == first,
            RegistrationStep::RegisterAll => true,
        });
        let next: Vec<ClaimName> = next.into_iter().map(|(_, claim)| claim).collect();
        let (RegistrationStep::Wait(until) | RegistrationStep::Register(_, until)) = step else {
            return RegistrationGate::new();
        };
        let nominating = self
            .wait_for_nominations(&next, now)
            .into_iter()
            .flat_map(|until| next.iter().map(move |claim| (claim.clone(), until)));
        others.into_iter().map(|(_, claim)| (claim, until)).chain(nominating).collect()
    }

    /// Nominates the pods of `claims`, which are next; returns until when their Nodes are held for
    /// it.
    fn wait_for_nominations(&mut self, claims: &[ClaimName], now: Timestamp) -> Option<Timestamp> {
        let mut began = now;
        for claim in claims {
            let Some(machine) = self.machines.get_mut(claim) else { continue };
            if machine.nominating_since.is_none() {
                machine.nominating_since = Some(now);
                self.nomination_retries.schedule_now(now);
            }
            began = began.min(machine.nominating_since.unwrap_or(now));
        }
        let (mut some, mut all) = (false, true);
        for claim in claims {
            let node = self.state.node_of_claim(claim).map(|node| &node.name);
            let assigned = self.assigned_pods(claim);
            for pod in self.nominable(claim, &assigned) {
                some |= pod.own_nomination.is_some();
                all &= pod.own_nomination.as_ref() == node;
            }
        }
        let until = match (some, all) {
            (false, true) => return None,
            (_, true) => self.nomination_retries.last_change.max(began) + STABLE_NOMINATIONS_FOR,
            (true, false) => began + MAX_NOMINATION_WAIT,
            (false, false) => began + FIRST_NOMINATION_WAIT,
        };
        let until = until.min(began + MAX_NOMINATION_WAIT);
        (until > now).then_some(until)
    }

    /// Records that the registration of the machine of `claim` was ordered.
    pub fn record_registration(&mut self, claim: &ClaimName, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.registration_ordered_at.get_or_insert(now);
        }
    }

    /// The Node of a machine that has joined and is not registered.
    fn node_awaiting_registration(&self, machine: &Machine) -> Option<&NodeRecord> {
        let joining = machine.stage == Stage::Launched && machine.termination_reason.is_none();
        let node = joining.then(|| self.state.node_of_claim(&machine.claim)).flatten();
        node.filter(|node| !node.is_registered())
    }

    fn has_assigned_pods(&self, claim: &ClaimName) -> bool {
        self.state.assignments.has_pods(&Target::Claim(claim.clone()))
    }

    fn record_registrable_nodes(&mut self, now: Timestamp) {
        let joining = self.machines.values().filter(|machine| machine.stage == Stage::Launched);
        let could = |machine: &Machine| self.node_awaiting_registration(machine).is_some_and(is_registrable);
        let arrived: Vec<(ClaimName, bool)> = joining.map(|machine| (machine.claim.clone(), could(machine))).collect();
        for (claim, could) in arrived {
            if let Some(machine) = self.machines.get_mut(&claim) {
                machine.registrable_since = if could { machine.registrable_since.or(Some(now)) } else { None };
            }
        }
    }

    /// Nodes that pods could not be bound to yet.
    fn unready_nodes(&self, now: Timestamp) -> RegistrationGate {
        let unregistered =
            self.machines.values().filter_map(|machine| Some((machine, self.node_awaiting_registration(machine)?)));
        let unready = unregistered
            .filter(|(machine, _)| machine.registrable_since.is_none() && self.has_assigned_pods(&machine.claim));
        let until = unready.filter_map(|(machine, node)| Some((machine.claim.clone(), node.created? + MAX_NODE_WAIT)));
        until.filter(|(_, until)| *until > now).collect()
    }

    fn decision_groups(&self, now: Timestamp) -> BTreeMap<GroupKey, DecisionGroup> {
        let mut groups: BTreeMap<GroupKey, DecisionGroup> = BTreeMap::new();
        for machine in self.machines.values().filter(|machine| machine.termination_reason.is_none()) {
            if let Some(decision) = machine.decision {
                self.add_to_group(groups.entry((decision, machine.pool.clone())).or_default(), machine, now);
            }
        }
        groups
    }

    fn add_to_group(&self, group: &mut DecisionGroup, machine: &Machine, now: Timestamp) {
        match (machine.registration_ordered_at, machine.registrable_since) {
            (Some(at), _) => {
                group.began = Some(group.began.map_or(at, |began| began.min(at)));
                let until = at.max(self.nomination_retries.last_bound) + BINDING_WAIT;
                let assigned = self.assigned_pods(&machine.claim);
                if until > now && self.nominable(&machine.claim, &assigned).next().is_some() {
                    group.binding_until = group.binding_until.max(Some(until));
                }
            }
            (None, Some(at)) if self.has_assigned_pods(&machine.claim) => {
                group.since = Some(group.since.map_or(at, |since| since.min(at)));
                group.waiting.push((self.nominable_share(&machine.claim), machine.claim.clone()));
            }
            (None, Some(_)) => {}
            (None, None) => group.awaits_nodes |= machine.stage <= Stage::Launched,
        }
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
