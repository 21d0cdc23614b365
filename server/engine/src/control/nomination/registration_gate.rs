//! When a Node that has joined is let in: when its pods could be bound there, all machines of its decision have come, and it is its
//! turn.
//!
//! ```text
//!  node a   joined ── ready ─ closed ──────────╥ hints of a, open: its pods are bound
//!  node b       joined ────────────── ready ───╨───────────────────────╥ hints of b, open
//!                        └ at most open_together_ms ┘
//! ```
//!
//! **Together.** While node a is open and node b has not come, pods planned for b are tried, fail, and take what room they find on
//! a. A machine that is later than the patience is not waited for; machines of different NodePools do not wait for one another.
//!
//! **With hints that hold.** kube-scheduler may still be trying pods when the last Node joins, and each of these attempts clears a
//! hint. So hints are given while the Nodes are closed, again where they are lost, until all are there and none has changed for a
//! moment; then the Nodes open.
//!
//! **In turns.** Nodes cannot be opened at one moment: whatever is opened first has all waiting pods tried at once, and those that
//! are hinted to a Node that is still closed lose their hints and go where room is not spoken for. So Nodes all of whose room is
//! hinted open first: nobody can stray there. Those where pods without hints have room too open when the pods of the first are
//! bound, and last those where no pod has a hint.

use std::collections::BTreeMap;

use super::super::DecisionId;
use super::super::cluster_controller::ClusterController;
use super::super::machine::{Machine, Stage};
use crate::cluster::planning::{UNREGISTERED, is_ephemeral};
use crate::cluster::{NodeRecord, Target};
use crate::model::{Text, Timestamp};

/// How long a Node that is not ready is kept closed for the sake of its hints, in milliseconds from its creation. A kubelet is
/// usually ready sooner; a cluster whose network comes up only on Nodes that were let in loses no more than this.
pub const PATIENCE_MS: i64 = 30_000;

/// How long the next Nodes wait after the last pod of those before them was bound, in milliseconds. kube-scheduler binds a hundred
/// pods within a second; pods that are not bound by then wait for something else.
const TURN_MS: i64 = 3_000;
/// All Nodes of a decision are let in so long after the first, in milliseconds.
const TURNS_MS: i64 = 30_000;
/// Hints hold when none has changed for so long, in milliseconds: a busy kube-scheduler tries ten pods and more in that time.
const SETTLED_MS: i64 = 500;
/// How long hints are waited for, in milliseconds. They hold as soon as kube-scheduler is done with what it was trying, which a busy
/// machine takes some seconds for.
const HINTING_MS: i64 = 15_000;
/// How long the first hint is waited for, in milliseconds: a cluster whose kube-scheduler knows no hints is given none.
const FIRST_HINT_MS: i64 = 2_000;

/// Nodes that are kept closed, by NodeClaim, and until when at the latest.
pub type RegistrationGate = BTreeMap<Text, Timestamp>;

/// For whom a Node has room, in the order in which Nodes open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    /// For pods that take a hint.
    Hinted,
    /// For pods that take one, and for others.
    Mixed,
    /// For pods that take none.
    Free,
}

/// Machines of one decision in one NodePool.
#[derive(Debug, Default)]
struct Group {
    /// One of them cannot be let in yet.
    incomplete: bool,
    /// Since when the first of those that could is kept closed.
    since: Option<Timestamp>,
    /// When the first of them was let in.
    began: Option<Timestamp>,
    /// Until when those that were let in are given time to take their pods.
    busy: Option<Timestamp>,
    /// Those whose turn has not come.
    closed: Vec<(Room, Text)>,
}

/// What becomes of the Nodes of a group that have come.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// They stay closed until then at the latest.
    Wait(Timestamp),
    /// Those whose room is of this kind are next, if it is the first; until then the others stay closed.
    Next(Room, Timestamp),
    /// All of them are let in.
    All,
}

type GroupKey = (DecisionId, Text);

impl ClusterController {
    /// Notes since when Nodes could be let in, and which of them stay closed for now.
    pub fn watch_doors(&mut self, open_together_ms: i64, now: Timestamp) {
        self.doors.clear();
        if !self.machines.values().any(|machine| self.knocks(machine).is_some()) {
            return;
        }
        self.note_arrivals(now);
        let mut doors = self.unready(now);
        if open_together_ms > 0 {
            for group in self.groups(now).into_values() {
                doors.extend(self.kept_closed(group, open_together_ms, now));
            }
        }
        self.doors = doors;
    }

    /// Those Nodes of a group whose turn has not come, and when it comes at the latest.
    fn kept_closed(&mut self, group: Group, open_together_ms: i64, now: Timestamp) -> RegistrationGate {
        let turn = group.turn(open_together_ms, now);
        let (next, others): (Vec<_>, Vec<_>) = group.closed.into_iter().partition(|(room, _)| match turn {
            Turn::Wait(_) => false,
            Turn::Next(first, _) => *room == first,
            Turn::All => true,
        });
        let next: Vec<Text> = next.into_iter().map(|(_, claim)| claim).collect();
        let (Turn::Wait(until) | Turn::Next(_, until)) = turn else { return RegistrationGate::new() };
        let hinting = self
            .wait_for_hints(&next, now)
            .into_iter()
            .flat_map(|until| next.iter().map(move |claim| (claim.clone(), until)));
        others.into_iter().map(|(_, claim)| (claim, until)).chain(hinting).collect()
    }

    /// Has hints given to the pods of `claims`, whose turn it is; until when their Nodes stay closed for it.
    fn wait_for_hints(&mut self, claims: &[Text], now: Timestamp) -> Option<Timestamp> {
        let mut began = now;
        for claim in claims {
            let Some(machine) = self.machines.get_mut(claim) else { continue };
            if machine.hinting.is_none() {
                machine.hinting = Some(now);
                self.nudges.at_once(now);
            }
            began = began.min(machine.hinting.unwrap_or(now));
        }
        let (mut some, mut all) = (false, true);
        for claim in claims {
            let node = self.state.node_of_claim(claim).map(|node| &node.name);
            let expected = self.expected_on(claim);
            for pod in self.hintable(claim, &expected) {
                some |= pod.hinted.is_some();
                all &= pod.hinted.as_ref() == node;
            }
        }
        let after = |at: Timestamp, millis: i64| Timestamp(at.0.saturating_add(millis));
        let until = match (some, all) {
            (false, true) => return None,
            (_, true) => after(self.nudges.moved.max(began), SETTLED_MS),
            (true, false) => after(began, HINTING_MS),
            (false, false) => after(began, FIRST_HINT_MS),
        };
        let until = until.min(after(began, HINTING_MS));
        (until > now).then_some(until)
    }

    /// The machine of `claim` is ordered to be let in.
    pub fn note_let_in(&mut self, claim: &Text, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.let_in.get_or_insert(now);
        }
    }

    /// The Node of a machine that has joined and is not let in.
    fn knocks(&self, machine: &Machine) -> Option<&NodeRecord> {
        let joining = machine.stage == Stage::Launched && machine.leaves.is_none();
        let node = joining.then(|| self.state.node_of_claim(&machine.claim)).flatten();
        node.filter(|node| !node.is_registered())
    }

    fn is_awaited(&self, claim: &Text) -> bool {
        self.state.promises.expected_by(&Target::Claim(claim.clone()))
    }

    fn note_arrivals(&mut self, now: Timestamp) {
        let joining = self.machines.values().filter(|machine| machine.stage == Stage::Launched);
        let could = |machine: &Machine| self.knocks(machine).is_some_and(could_open);
        let arrived: Vec<(Text, bool)> = joining.map(|machine| (machine.claim.clone(), could(machine))).collect();
        for (claim, could) in arrived {
            if let Some(machine) = self.machines.get_mut(&claim) {
                machine.could_open = if could { machine.could_open.or(Some(now)) } else { None };
            }
        }
    }

    /// Nodes that pods could not be bound to yet.
    fn unready(&self, now: Timestamp) -> RegistrationGate {
        let knocking = self.machines.values().filter_map(|machine| Some((machine, self.knocks(machine)?)));
        let unready = knocking.filter(|(machine, _)| machine.could_open.is_none() && self.is_awaited(&machine.claim));
        let until = unready.filter_map(|(machine, node)| {
            Some((machine.claim.clone(), Timestamp(node.created?.0.saturating_add(PATIENCE_MS))))
        });
        until.filter(|(_, until)| *until > now).collect()
    }

    fn groups(&self, now: Timestamp) -> BTreeMap<GroupKey, Group> {
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        for machine in self.machines.values().filter(|machine| machine.leaves.is_none()) {
            if let Some(decision) = machine.decision {
                self.join(groups.entry((decision, machine.pool.clone())).or_default(), machine, now);
            }
        }
        groups
    }

    fn join(&self, group: &mut Group, machine: &Machine, now: Timestamp) {
        match (machine.let_in, machine.could_open) {
            (Some(at), _) => {
                group.began = Some(group.began.map_or(at, |began| began.min(at)));
                let until = Timestamp(at.max(self.nudges.bound).0.saturating_add(TURN_MS));
                let expected = self.expected_on(&machine.claim);
                if until > now && self.hintable(&machine.claim, &expected).next().is_some() {
                    group.busy = group.busy.max(Some(until));
                }
            }
            (None, Some(at)) if self.is_awaited(&machine.claim) => {
                group.since = Some(group.since.map_or(at, |since| since.min(at)));
                group.closed.push((self.room(&machine.claim), machine.claim.clone()));
            }
            (None, Some(_)) => {}
            (None, None) => group.incomplete |= machine.stage <= Stage::Launched,
        }
    }

    fn room(&self, claim: &Text) -> Room {
        let expected = self.expected_on(claim);
        match self.hintable(claim, &expected).count() {
            0 => Room::Free,
            some if some < expected.len() => Room::Mixed,
            _ => Room::Hinted,
        }
    }
}

impl Group {
    fn turn(&self, open_together_ms: i64, now: Timestamp) -> Turn {
        let after = |at: Timestamp, millis: i64| Timestamp(at.0.saturating_add(millis));
        let arrival = self.since.map(|since| after(since, open_together_ms)).filter(|_| self.incomplete);
        let end = after(self.began.unwrap_or(now), TURNS_MS);
        let first = self.closed.iter().map(|(room, _)| *room).min();
        match (arrival.filter(|until| *until > now), self.busy) {
            (Some(until), _) => Turn::Wait(until),
            (None, _) if end <= now => Turn::All,
            (None, Some(busy)) => Turn::Wait(busy.min(end)),
            (None, None) => first.map_or(Turn::All, |room| Turn::Next(room, end)),
        }
    }
}

/// Whether pods could be bound to the Node if it were let in: it is ready, and everything else that keeps pods away while a node
/// comes up is gone.
fn could_open(node: &NodeRecord) -> bool {
    let held = |taint| is_ephemeral(taint) && taint.key.as_ref() != UNREGISTERED;
    node.ready && !node.taints.iter().any(held)
}
