//! What follows for holds from the time and the state of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{CapacityHold, HoldEnd, HoldId};
use crate::ClusterCall;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::holds::Holds;
use crate::holds::bookings::publish_bookings;
use crate::holds::planning::request_hold_plan_if_due;
use crate::step_view::StepView;
use cluster::{ClusterState, NodeRecord, Target};
use model::{Text, Timestamp};

impl Holds {
    /// Ends holds that are over and gives up places that are lost, at the checks of a cluster that is ready. Returns whether
    /// the bookings have changed.
    pub(crate) fn reconcile(&mut self, view: &StepView<'_>) -> bool {
        let expired = self.expired(view.now);
        for id in &expired {
            self.end(id, HoldEnd::Expired, "it was not committed in time");
        }
        let is_due = view.is_ready() && self.begin_check(view.state.version(), view.now);
        let lost = is_due && self.check_places(view);
        lost || !expired.is_empty()
    }

    /// Gives up places on machines that are gone or leave, and those that kube-scheduler gave to other pods; and says
    /// whether all of the room is there.
    fn check_places(&mut self, view: &StepView<'_>) -> bool {
        let state = view.state;
        let (mut displaced, lost) = (state.displaced_bookings(), lost_targets(self, state));
        let mut changed = fail_unreadable_holds(self);
        let held_back = held_back_by(view);
        let is_ready = |target: &Target| {
            let node = match target {
                Target::Claim(claim) => state.node_of_claim(claim),
                Target::Node(node) => state.node(node),
            };
            node.is_some_and(|node| node.is_initialized() || state.claim_of_node(node).is_none())
        };
        for one in self.live_mut() {
            if give_up_places(&mut one.hold, &mut displaced, &lost) {
                one.delay_plan(view.now + view.settings().retry_delay);
                changed = true;
            }
            let strangers = one.hold.strangers(state);
            describe(&mut one.hold, held_back, strangers.as_deref(), is_ready);
        }
        changed
    }
}

impl ClusterController {
    /// Takes over the holds that the store has, as of the `read`th list.
    pub(crate) fn load_holds(&mut self, read: u64, holds: Vec<CapacityHold>, now: Timestamp) {
        if self.holds.load(read, holds) {
            publish_bookings(now, &self.holds, &mut self.disruption, &mut self.provisioner, &mut self.state);
        }
    }

    /// Has the holds reconciled, planning see what has changed, the store told, and planned what has no room.
    pub(crate) fn reconcile_holds(&mut self, ctx: &mut Context<'_>) {
        if self.with_part(|parts| &mut parts.holds, ctx.now, Holds::reconcile) {
            publish_bookings(ctx.now, &self.holds, &mut self.disruption, &mut self.provisioner, &mut self.state);
        }
        for (hold, status) in self.holds.take_unwritten() {
            ctx.call(ClusterCall::WriteHold { hold, status: Box::new(status) });
        }
        request_hold_plan_if_due(
            ctx,
            &mut self.guardrails,
            &mut self.holds,
            &mut self.provisioner,
            &self.state,
            self.connected,
        );
    }
}

/// Why no hold of the cluster is given room now.
fn held_back_by(view: &StepView<'_>) -> Option<&'static str> {
    if view.settings().is_shadow(view.cluster) {
        return Some("the cluster is in shadow mode");
    }
    view.guardrails.is_quarantined().then_some("the cluster is quarantined")
}

/// Ends holds whose pods are unreadable; returns whether there were any.
fn fail_unreadable_holds(holds: &mut Holds) -> bool {
    let why = |hold: &CapacityHold| Some((hold.id.clone(), hold.pods.clone().err()?));
    let unreadable: Vec<(HoldId, Text)> = holds.live().filter_map(|one| why(&one.hold)).collect();
    for (id, why) in &unreadable {
        holds.end(id, HoldEnd::Failed, why.clone());
    }
    !unreadable.is_empty()
}

/// Targets of bookings that are gone, or that leave.
fn lost_targets(holds: &Holds, state: &ClusterState) -> BTreeSet<Target> {
    let booked = holds.live().flat_map(|one| one.hold.status.places.iter().map(|place| &place.target));
    let leaves = |node: &NodeRecord| state.is_node_outgoing(&node.name);
    let is_lost = |target: &&Target| match target {
        Target::Claim(claim) => {
            let record = state.claim(claim);
            record.is_none_or(|record| record.deleting)
                || state.is_marked_for_deletion(claim)
                || state.node_of_claim(claim).is_some_and(leaves)
        }
        Target::Node(node) => state.node(node).is_none_or(leaves),
    };
    booked.filter(is_lost).cloned().collect()
}

/// Removes the places on these targets, and those that other pods have; returns whether there were any.
fn give_up_places(
    hold: &mut CapacityHold,
    displaced: &mut BTreeMap<(HoldId, u32, Target), u32>,
    lost: &BTreeSet<Target>,
) -> bool {
    let mut is_lost = false;
    hold.status.places.retain_mut(|place| {
        let taken = displaced.remove(&(hold.id.clone(), place.pod_set, place.target.clone())).unwrap_or_default();
        place.pods -= taken.min(place.pods);
        let stays = place.pods > 0 && !lost.contains(&place.target);
        is_lost |= taken > 0 || !stays;
        stays
    });
    is_lost
}

/// Says whether all of the room of a hold is there, and what it waits for.
fn describe(
    hold: &mut CapacityHold,
    held_back: Option<&str>,
    strangers: Option<&str>,
    is_ready: impl Fn(&Target) -> bool,
) {
    let (without_place, pods) = (hold.without_place().iter().sum::<u32>(), hold.pod_count());
    let targets: BTreeSet<&Target> = hold.status.places.iter().map(|place| &place.target).collect();
    let (booting, nodes) = (targets.iter().filter(|target| !is_ready(target)).count(), targets.len());
    hold.status.ready = without_place == 0 && booting == 0;
    if without_place == 0 {
        let wait = format!("{booting} of {nodes} nodes are not ready yet");
        hold.status.message = Text::from(if booting > 0 { wait } else { String::new() });
    } else if let Some(why) = held_back {
        hold.status.message = Text::from(format!("{without_place} of {pods} pods have no room: {why}"));
    } else if hold.status.message.is_empty() {
        let why = strangers.map(|strangers| format!(": {strangers}")).unwrap_or_default();
        hold.status.message = Text::from(format!("{without_place} of {pods} pods have no room yet{why}"));
    }
}
