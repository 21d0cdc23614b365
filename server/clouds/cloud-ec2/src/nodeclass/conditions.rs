//! Types of the conditions, as Karpenter names them, and their results.

use model::Text;
use model::node_class::Resolution;

use crate::call_error::CallError;

/// Condition: the images are known.
pub const AMIS_READY: &str = "AMIsReady";
/// Condition: the capacity reservations are known.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
/// Condition: there is a subnet.
pub const SUBNETS_READY: &str = "SubnetsReady";
/// Condition: there is a security group.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// Condition: there is an instance profile.
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// Condition: nothing else prevents launches.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

pub(super) fn missing(reason: &str, message: impl Into<String>) -> Resolution {
    Resolution::Missing { reason: Text::from(reason), message: Text::from(message.into()) }
}

pub(super) fn unknown(reason: &str, message: impl Into<String>) -> Resolution {
    Resolution::Unknown { reason: Text::from(reason), message: Text::from(message.into()) }
}

/// The condition cannot be looked up: `what` names the field and the region.
pub(super) fn failed(what: &str, error: &CallError) -> Resolution {
    unknown(error.reason(), format!("{what} cannot be resolved: {error}"))
}
