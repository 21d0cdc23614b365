//! Types of the conditions, as Karpenter names them.

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
