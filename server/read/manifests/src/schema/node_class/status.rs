//! `status` of an EC2NodeClass: the resources that the selectors found in the account.

use serde_json::json;

use crate::schema::part::{Part, atomic, boolean, list, moment, object, one_of, text};
use crate::schema::shared::conditions;

/// Schema of `status`.
pub(super) fn schema() -> Part {
    let subnet = object([("id", text()), ("zone", text()), ("zoneID", text())]).required(&["id", "zone"]);
    let group = object([("id", text()), ("name", text())]).required(&["id"]);
    object([
        ("amis", list(image())),
        ("capacityReservations", list(reservation())),
        ("conditions", list_of_conditions()),
        ("instanceProfile", text()),
        ("securityGroups", list(group)),
        ("subnets", list(subnet)),
    ])
}

/// Conditions as an atomic list: a writer replaces the whole list.
fn list_of_conditions() -> Part {
    conditions(false)
}

fn image() -> Part {
    let requirement = object([("key", text()), ("operator", text()), ("values", atomic(text()))]);
    object([
        ("deprecated", boolean()),
        ("id", text()),
        ("name", text()),
        ("requirements", list(requirement.required(&["key", "operator"]))),
    ])
    .required(&["id", "requirements"])
}

fn reservation() -> Part {
    object([
        ("availabilityZone", text()),
        ("endTime", moment()),
        ("id", text().pattern("^cr-[0-9a-z]+$")),
        ("instanceMatchCriteria", one_of(&["open", "targeted"])),
        ("instanceType", text()),
        ("interruptible", boolean()),
        ("ownerID", text().pattern("^[0-9]{12}$")),
        ("reservationType", one_of(&["default", "capacity-block"]).default(json!("default"))),
        ("state", one_of(&["active", "expiring"]).default(json!("active"))),
    ])
    .required(&["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"])
}
