//! EC2NodeClass (`karpenter.k8s.aws/v1`): the resources that the selectors found in the account.

use super::table::{Field, field, object};

/// Fields of `status`.
pub(super) const FIELDS: &[Field] = &[
    object(
        "status",
        "Object",
        "What was found; never written by hand. Without status a class counts as ready, with subnets in all zones of the region.",
    ),
    object("status.subnets", "[]Object", "Subnets found. They bound the zones of new nodes."),
    found("status.subnets.id", "Id of the subnet."),
    found("status.subnets.zone", "Name of its zone, such as eu-west-1a."),
    found("status.subnets.zoneID", "Id of its zone, the same in every account, such as euw1-az1."),
    object("status.securityGroups", "[]Object", "Security groups found."),
    found("status.securityGroups.id", "Id of the group."),
    found("status.securityGroups.name", "Name of the group."),
    object("status.capacityReservations", "[]Object", "Capacity reservations found."),
    found("status.capacityReservations.id", "Id of the reservation."),
    found("status.capacityReservations.instanceType", "The instance type that is reserved."),
    found("status.capacityReservations.availabilityZone", "The zone in which it is reserved."),
    found("status.capacityReservations.ownerID", "The account that owns the reservation."),
    found("status.capacityReservations.endTime", "When it ends; absent when it ends by hand."),
    choice(
        "status.capacityReservations.instanceMatchCriteria",
        "",
        "open, targeted",
        "Whether any machine that fits uses it, or only one that names it.",
    ),
    field(
        "status.capacityReservations.interruptible",
        "boolean",
        "",
        "",
        "Whether its owner may take machines back.",
        "",
    ),
    choice(
        "status.capacityReservations.reservationType",
        "default",
        "default, capacity-block",
        "Whether it is open-ended or a capacity block for a fixed time.",
    ),
    choice(
        "status.capacityReservations.state",
        "active",
        "active, expiring",
        "Whether machines may still be started in it; a block is expiring in its last 40 minutes.",
    ),
    object("status.amis", "[]Object", "Images found, the preferred one first."),
    found("status.amis.id", "Id of the image."),
    found("status.amis.name", "Name of the image."),
    field("status.amis.deprecated", "boolean", "false", "", "Whether its owner has deprecated it.", ""),
    object("status.amis.requirements", "[]Object", "Which machines boot from it: all conditions hold."),
    found("status.amis.requirements.key", "The node label that is constrained."),
    found("status.amis.requirements.operator", "How the label is compared."),
    field("status.amis.requirements.values", "[]string", "", "", "What the label is compared with.", ""),
    found("status.instanceProfile", "The instance profile in use."),
    object(
        "status.conditions",
        "[]Object",
        "AMIsReady, SubnetsReady, SecurityGroupsReady, InstanceProfileReady, ValidationSucceeded, Ready and others. A class whose Ready is not True bars its pools.",
    ),
];

/// A string field that the controller sets.
const fn found(path: &'static str, meaning: &'static str) -> Field {
    field(path, "string", "", "", meaning, "")
}

/// A string field with a fixed set of values.
const fn choice(path: &'static str, default: &'static str, allowed: &'static str, meaning: &'static str) -> Field {
    field(path, "string", default, allowed, meaning, "")
}
