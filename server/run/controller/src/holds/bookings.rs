//! What is booked for holds.

use crate::copy_on_write::CopyOnWrite;
use crate::disruption::Disruption;
use crate::holds::Holds;
use crate::provisioning::Provisioner;
use cluster::ClusterState;
use model::Timestamp;

/// Has planning and disruption see the room of all live holds.
pub(crate) fn publish_bookings(
    now: Timestamp,
    holds: &Holds,
    disruption: &mut Disruption,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    state.set_bookings(holds.bookings());
    disruption.schedule_now();
    // Room that is free again may do for pods that wait.
    provisioner.replan_for_changed_objects(now);
}
