//! The holds of one cluster: which are live, what is planned for them, and what the store has of them.

use std::collections::BTreeMap;

use super::{CapacityHold, HoldCounts, HoldEnd, HoldId, HoldStatus};
use crate::DecisionId;
use crate::provisioning::PlanNumber;
use cluster::Bookings;
use model::{Millis, PoolName, Text, Timestamp};

/// Time between two checks of the places of holds while the cluster changes.
const CHECK_INTERVAL: Millis = Millis::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Order of the list that the holds were read from; `None` before the first one.
    read: Option<u64>,
    /// Those of the last list. One that was ended here stays until a list lacks it.
    known: BTreeMap<HoldId, KnownHold>,
    plan: Option<HoldPlan>,
    /// Whether the last plan of the cluster was that of a hold: pods that wait are planned next.
    planned_last: bool,
    /// State version and time of the last check of places.
    checked: Option<(u64, Timestamp)>,
}

#[derive(Debug)]
pub(crate) struct KnownHold {
    pub hold: CapacityHold,
    /// What the store has, or is to have once a write in progress ends.
    written: HoldStatus,
    /// When it is planned again.
    retry_at: Option<Timestamp>,
    /// The decision that gives it room and is not durable yet.
    recording: Option<DecisionId>,
}

/// A plan of a hold in progress.
#[derive(Debug)]
pub(crate) struct HoldPlan {
    pub number: PlanNumber,
    pub hold: HoldId,
    /// Position of the pod set of each pod of the input.
    pub pod_sets: Vec<u32>,
    pub revisions: BTreeMap<PoolName, Text>,
}

impl KnownHold {
    fn new(hold: CapacityHold) -> Self {
        Self { written: hold.status.clone(), hold, retry_at: None, recording: None }
    }

    pub fn is_live(&self) -> bool {
        self.hold.status.end.is_none()
    }

    /// Delays the next plan: what was launched for the hold is gone.
    pub fn delay_plan(&mut self, until: Timestamp) {
        self.retry_at = self.retry_at.max(Some(until));
    }

    fn lacks_room(&self) -> bool {
        self.is_live() && self.hold.without_place().iter().any(|pods| *pods > 0)
    }
}

impl Holds {
    /// Replaces the holds by those of a list, the `read`th. Of a hold that is known, what a client decides is taken over;
    /// where its room is, is known better here. Returns whether anything has changed.
    pub fn load(&mut self, read: u64, holds: Vec<CapacityHold>) -> bool {
        if self.read.is_some_and(|known| known > read) {
            return false;
        }
        let is_first = self.read.replace(read).is_none();
        let before = self.known.len();
        let mut known = std::mem::take(&mut self.known);
        let mut changed = is_first;
        for hold in holds {
            let id = hold.id.clone();
            // A client may commit a hold in the moment in which it is ended here: the store does not end it then, and it
            // gets its room again.
            let is_revived = |one: &KnownHold| !one.is_live() && hold.expires.is_none();
            let next = match known.remove(&id).filter(|one| !is_revived(one)) {
                Some(one) => {
                    changed |= one.hold.expires != hold.expires;
                    let (expires, max_price) = (hold.expires, hold.max_price);
                    KnownHold { hold: CapacityHold { expires, max_price, ..one.hold }, ..one }
                }
                None => {
                    changed = true;
                    KnownHold::new(hold)
                }
            };
            self.known.insert(id, next);
        }
        changed |= self.known.len() != before;
        let known = &self.known;
        self.plan.take_if(|plan| !known.contains_key(&plan.hold));
        self.checked = None;
        changed
    }

    /// The holds that have not ended, by id.
    pub fn live(&self) -> impl Iterator<Item = &KnownHold> {
        self.known.values().filter(|one| one.is_live())
    }

    pub fn counts(&self) -> HoldCounts {
        let mut counts = HoldCounts::default();
        for one in self.live() {
            let of_state = if one.hold.status.ready { &mut counts.ready } else { &mut counts.waiting };
            *of_state += 1;
            counts.price.0 = counts.price.0.saturating_add(one.hold.status.price().0);
        }
        counts
    }

    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut KnownHold> {
        self.known.values_mut().filter(|one| one.is_live())
    }

    /// A hold that has not ended.
    pub fn get(&self, id: &HoldId) -> Option<&CapacityHold> {
        self.known.get(id).filter(|one| one.is_live()).map(|one| &one.hold)
    }

    fn get_mut(&mut self, id: &HoldId) -> Option<&mut KnownHold> {
        self.known.get_mut(id).filter(|one| one.is_live())
    }

    /// The bookings of all live holds.
    pub fn bookings(&self) -> Bookings {
        let live = self.live().map(|one| one.hold.id.clone()).collect();
        Bookings::new(self.live().flat_map(|one| one.hold.bookings()).collect(), live)
    }

    /// Whether the places of holds are checked now, for a state of this version.
    pub fn begin_check(&mut self, version: u64, now: Timestamp) -> bool {
        let is_due = self.check_due(version).is_some_and(|due| due <= now) && self.live().next().is_some();
        if is_due {
            self.checked = Some((version, now));
        }
        is_due
    }

    fn check_due(&self, version: u64) -> Option<Timestamp> {
        match self.checked {
            None => Some(Timestamp::default()),
            Some((known, at)) => (known != version).then_some(at + CHECK_INTERVAL),
        }
    }

    /// The next hold without room that is due at `now`. While pods wait for a plan, `pods_are_due`, they and holds take turns.
    pub fn next_to_plan(&self, pods_are_due: bool, now: Timestamp) -> Option<&CapacityHold> {
        if self.plan.is_some() || (pods_are_due && self.planned_last) {
            return None;
        }
        let is_due = |one: &&KnownHold| one.recording.is_none() && one.retry_at.is_none_or(|at| at <= now);
        // The one that ends first.
        let due = self.live().filter(|one| one.lacks_room()).filter(is_due);
        due.map(|one| &one.hold).min_by_key(|hold| (hold.expires.is_none(), hold.expires))
    }

    /// Records that a plan was requested.
    pub fn begin_plan(&mut self, plan: HoldPlan) {
        (self.plan, self.planned_last) = (Some(plan), true);
    }

    pub fn begin_plan_of_pods(&mut self) {
        self.planned_last = false;
    }

    /// Whether a plan of a hold is in progress.
    pub fn is_planning(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes the plan with this number, if it is the one in progress.
    pub fn take_plan(&mut self, number: PlanNumber) -> Option<HoldPlan> {
        self.plan.take_if(|plan| plan.number == number)
    }

    /// The hold has no room yet, for this reason, and is planned again at `retry_at`.
    pub fn wait(&mut self, id: &HoldId, why: impl Into<Text>, retry_at: Timestamp) {
        if let Some(one) = self.get_mut(id) {
            one.hold.status.message = why.into();
            one.retry_at = Some(retry_at);
        }
    }

    pub fn end(&mut self, id: &HoldId, end: HoldEnd, why: impl Into<Text>) {
        if let Some(one) = self.get_mut(id) {
            one.hold.status = HoldStatus { end: Some(end), message: why.into(), ..HoldStatus::default() };
            one.recording = None;
        }
    }

    /// Gives a hold the places of a decision, which records them. Returns what is recorded.
    pub fn place(&mut self, id: &HoldId, places: Vec<super::HoldPlace>, decision: DecisionId) -> Option<HoldStatus> {
        let one = self.get_mut(id)?;
        let status = &mut one.hold.status;
        status.places.extend(places);
        status.ready = false;
        status.message = Text::default();
        (one.retry_at, one.recording) = (None, Some(decision));
        one.written = one.hold.status.clone();
        Some(one.written.clone())
    }

    pub fn record_durable(&mut self, decision: DecisionId) {
        let written = self.known.values_mut().filter(|one| one.recording == Some(decision));
        written.for_each(|one| one.recording = None);
    }

    /// What has to be written: statuses that differ from those of the store.
    pub fn take_unwritten(&mut self) -> Vec<(HoldId, HoldStatus)> {
        let differs = |one: &&mut KnownHold| one.recording.is_none() && one.hold.status != one.written;
        let changed = self.known.values_mut().filter(differs).map(|one| {
            one.written = one.hold.status.clone();
            (one.hold.id.clone(), one.written.clone())
        });
        changed.collect()
    }

    /// Holds that are over at `now`.
    pub fn expired(&self, now: Timestamp) -> Vec<HoldId> {
        let is_over = |one: &&KnownHold| one.hold.expires.is_some_and(|expires| expires <= now);
        self.live().filter(is_over).map(|one| one.hold.id.clone()).collect()
    }

    /// When the cluster has to be advanced without an event; `version` is that of its state.
    pub fn next_wakeup(&self, is_ready: bool, version: u64, now: Timestamp) -> Option<Timestamp> {
        let expiries = self.live().filter_map(|one| one.hold.expires);
        let is_idle = is_ready && self.plan.is_none();
        let retries = self.live().filter(|one| one.lacks_room() && is_idle).filter_map(|one| one.retry_at);
        let check = self.check_due(version).filter(|_| is_ready && self.live().next().is_some());
        expiries.chain(retries).chain(check).min().map(|at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::holds::{HeldPods, HoldKind, HoldPlace};
    use model::{MicroUsd, PodShape};

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn hold(id: &str, expires: i64) -> CapacityHold {
        let pods = HeldPods {
            name: "workers".into(),
            namespace: "default".into(),
            shape: Arc::new(PodShape::default()),
            labels: Arc::default(),
            count: 1,
        };
        CapacityHold {
            id: HoldId(id.into()),
            kind: HoldKind::Dedicated,
            pods: Ok(vec![pods]),
            expires: Some(at(expires)),
            max_price: None,
            status: HoldStatus::default(),
        }
    }

    fn plan(number: u64, id: &str) -> HoldPlan {
        let (number, hold) = (PlanNumber(number), HoldId(id.into()));
        HoldPlan { number, hold, pod_sets: vec![0], revisions: BTreeMap::new() }
    }

    fn next(holds: &Holds, pods_are_due: bool) -> Option<&str> {
        holds.next_to_plan(pods_are_due, at(0)).map(|hold| hold.id.0.as_ref())
    }

    fn place() -> HoldPlace {
        HoldPlace { target: cluster::Target::Claim("m".into()), pod_set: 0, pods: 1, price: MicroUsd(5) }
    }

    #[test]
    fn holds_and_pods_that_are_due_are_planned_in_turn_and_the_hold_that_ends_first_comes_first() {
        let mut holds = Holds::default();
        holds.load(1, vec![hold("a", 900_000), hold("b", 600_000)]);
        assert_eq!(next(&holds, true), Some("b"));
        holds.begin_plan(plan(1, "b"));
        assert_eq!(next(&holds, false), None, "one plan at a time");
        assert!(holds.take_plan(PlanNumber(1)).is_some() && holds.take_plan(PlanNumber(1)).is_none());
        assert_eq!(next(&holds, true), None, "pods wait, and a hold was planned last");
        assert_eq!(next(&holds, false), Some("b"), "no pods wait");
        holds.begin_plan_of_pods();
        assert_eq!(next(&holds, true), Some("b"));
    }

    #[test]
    fn what_is_recorded_with_a_decision_is_not_written_beside_it() {
        let mut holds = Holds::default();
        holds.load(1, vec![hold("a", 900_000)]);
        let id = HoldId("a".into());
        assert!(holds.place(&id, vec![place()], DecisionId(7)).is_some());
        assert!(holds.take_unwritten().is_empty());
        holds.live_mut().for_each(|one| one.hold.status.ready = true);
        assert!(holds.take_unwritten().is_empty(), "the record could come later, and would undo it");
        holds.record_durable(DecisionId(7));
        assert_eq!(holds.take_unwritten().len(), 1);
        assert!(holds.take_unwritten().is_empty(), "written once");
    }

    #[test]
    fn a_list_takes_over_what_clients_decide_and_keeps_where_the_room_is() {
        let mut holds = Holds::default();
        holds.load(3, vec![hold("a", 900_000), hold("b", 900_000)]);
        let (a, b) = (HoldId("a".into()), HoldId("b".into()));
        holds.place(&a, vec![place()], DecisionId(7));
        assert!(!holds.load(2, Vec::new()), "an older list changes nothing");
        assert!(holds.get(&b).is_some());
        assert!(holds.load(4, vec![CapacityHold { expires: None, ..hold("a", 0) }]));
        let committed = holds.get(&a).unwrap();
        assert_eq!((committed.expires, committed.status.places.len()), (None, 1));
        assert!(holds.get(&b).is_none(), "it was released");
    }

    #[test]
    fn a_hold_that_a_client_commits_while_it_is_ended_here_lives_again() {
        let mut holds = Holds::default();
        holds.load(1, vec![hold("a", 1_000)]);
        let id = HoldId("a".into());
        holds.end(&id, HoldEnd::Expired, "over");
        assert!(holds.load(2, vec![CapacityHold { expires: None, ..hold("a", 0) }]));
        assert!(holds.get(&id).is_some_and(|hold| hold.expires.is_none()));
        assert_eq!(next(&holds, false), Some("a"), "its room is planned again");
    }

    #[test]
    fn a_hold_that_was_ended_here_stays_ended_while_lists_still_have_it() {
        let mut holds = Holds::default();
        holds.load(1, vec![hold("a", 1_000)]);
        let id = HoldId("a".into());
        assert_eq!(holds.expired(at(999)), []);
        assert_eq!(holds.expired(at(1_000)), std::slice::from_ref(&id));
        holds.end(&id, HoldEnd::Expired, "over");
        holds.load(2, vec![hold("a", 1_000)]);
        assert!(holds.get(&id).is_none() && holds.expired(at(2_000)).is_empty());
        assert_eq!(holds.take_unwritten().len(), 1);
    }
}
