//! The end of holds, and what is booked for them.

use super::{HoldEnd, HoldId};
use crate::cluster_controller::ClusterController;
use model::{Text, Timestamp};

impl ClusterController {
    /// Ends a hold: its room is free, and its own machines are removed.
    pub(super) fn end_hold(&mut self, id: &HoldId, end: HoldEnd, why: impl Into<Text>, now: Timestamp) {
        self.holds.end(id, end, why);
        self.publish_bookings(now);
    }

    /// Has planning and disruption see the room of all live holds.
    pub(super) fn publish_bookings(&mut self, now: Timestamp) {
        self.state.set_bookings(self.holds.bookings());
        self.disruption.schedule_now();
        // Room that is free again may do for pods that wait.
        self.provisioner.replan_for_changed_objects(now);
    }
}
