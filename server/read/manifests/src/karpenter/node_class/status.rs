//! `status` of an EC2NodeClass: the resources that the selectors found in the account.

use model::node_class::{
    ImageEntry, NodeClassStatus, ReservationEntry, ReservationStatus, SecurityGroupEntry, SubnetEntry, SubnetZone,
};
use model::{InstanceTypeName, Operator, Requirement, Requirements, Text, Zone};
use serde_json::json;

use crate::Cursor;
use crate::karpenter::conditions;
use crate::schema::part::{Part, atomic, boolean, fields, list, moment, object, one_of, text};

/// The schema of `status`. Its conditions are an atomic list: a writer replaces the whole list.
pub(super) fn schema() -> Part {
    let subnet = object(fields! {
        /// Id of the subnet.
        "id": text(),
        /// Name of its zone, such as eu-west-1a.
        "zone": text(),
        /// Id of its zone, the same in every account, such as euw1-az1.
        "zoneID": text(),
    });
    let group = object(fields! {
        /// Id of the group.
        "id": text(),
        /// Name of the group.
        "name": text(),
    });
    object(fields! {
        /// Subnets found. They bound the zones of new nodes.
        "subnets": list(subnet.required(&["id", "zone"])),
        /// Security groups found.
        "securityGroups": list(group.required(&["id"])),
        /// Capacity reservations found.
        "capacityReservations": list(reservation_schema()),
        /// Images found, the preferred one first.
        "amis": list(image_schema()),
        /// The instance profile in use.
        "instanceProfile": text(),
        /// AMIsReady, SubnetsReady, SecurityGroupsReady, InstanceProfileReady, ValidationSucceeded, Ready and others.
        /// A class whose Ready is not True bars its pools.
        "conditions": conditions::schema(false),
    })
}

fn reservation_schema() -> Part {
    object(fields! {
        /// Id of the reservation.
        "id": text().pattern("^cr-[0-9a-z]+$"),
        /// The instance type that is reserved.
        "instanceType": text(),
        /// The zone in which it is reserved.
        "availabilityZone": text(),
        /// The account that owns the reservation.
        "ownerID": text().pattern("^[0-9]{12}$"),
        /// When it ends; absent when it ends by hand.
        /// Allowed:
        "endTime": moment(),
        /// Whether any machine that fits uses it, or only one that names it.
        "instanceMatchCriteria": one_of(&["open", "targeted"]),
        /// Whether its owner may take machines back.
        "interruptible": boolean(),
        /// Whether it is open-ended or a capacity block for a fixed time.
        "reservationType": one_of(&["default", "capacity-block"]).default_value(json!("default")),
        /// Whether machines may still be started in it; a block is expiring in its last 40 minutes.
        "state": one_of(&["active", "expiring"]).default_value(json!("active")),
    })
    .required(&["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"])
}

fn image_schema() -> Part {
    let requirement = object(fields! {
        /// The node label that is constrained.
        "key": text(),
        /// How the label is compared.
        "operator": text(),
        /// What the label is compared with.
        "values": atomic(text()),
    });
    object(fields! {
        /// Id of the image.
        "id": text(),
        /// Name of the image.
        "name": text(),
        /// Whether its owner has deprecated it.
        /// Default: false
        "deprecated": boolean(),
        /// Which machines boot from it: all conditions hold.
        "requirements": list(requirement.required(&["key", "operator"])),
    })
    .required(&["id", "requirements"])
}

/// Reads `status` at `at`.
pub(super) fn read(at: &Cursor<'_>) -> NodeClassStatus {
    NodeClassStatus {
        subnets: entries(&at.at("subnets"), subnet),
        security_groups: entries(&at.at("securityGroups"), security_group),
        images: entries(&at.at("amis"), image),
        reservations: entries(&at.at("capacityReservations"), reservation_status),
        instance_profile: at.at("instanceProfile").text(),
    }
}

/// The entries of a list that are complete; `None` when there is no list.
fn entries<T>(at: &Cursor<'_>, read: impl Fn(&Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
    at.exists().then(|| at.list().iter().filter_map(read).collect())
}

fn subnet(at: &Cursor<'_>) -> Option<SubnetEntry> {
    Some(SubnetEntry {
        id: at.at("id").text()?,
        zone: Zone::from(at.at("zone").text()?),
        zone_id: at.at("zoneID").text(),
    })
}

fn security_group(at: &Cursor<'_>) -> Option<SecurityGroupEntry> {
    Some(SecurityGroupEntry { id: at.at("id").text()?, name: at.at("name").text().unwrap_or_default() })
}

fn image(at: &Cursor<'_>) -> Option<ImageEntry> {
    Some(ImageEntry {
        id: at.at("id").text()?,
        name: at.at("name").text().unwrap_or_default(),
        deprecated: at.at("deprecated").bool().unwrap_or(false),
        requirements: requirements(at),
    })
}

fn reservation_status(at: &Cursor<'_>) -> Option<ReservationStatus> {
    Some(ReservationStatus {
        entry: reservation(at)?,
        instance_match_criteria: at.at("instanceMatchCriteria").text().unwrap_or_default(),
        owner_id: at.at("ownerID").text().unwrap_or_default(),
        end: at.at("endTime").timestamp(),
    })
}

/// Zones with a subnet, sorted and without duplicates; `None` when the status does not contain
/// them.
pub(super) fn zones(at: &Cursor<'_>) -> Option<Vec<SubnetZone>> {
    if !at.exists() {
        return None;
    }
    let subnets = at.list();
    let zone = |subnet: &Cursor<'_>| {
        Some(SubnetZone { name: Zone::from(subnet.at("zone").text()?), id: subnet.at("zoneID").text() })
    };
    let mut zones: Vec<SubnetZone> = subnets.iter().filter_map(zone).collect();
    // A zone that occurs with and without its id keeps the entry with the id, which sorts last.
    zones.sort();
    zones.reverse();
    zones.dedup_by(|later, earlier| later.name == earlier.name);
    zones.reverse();
    Some(zones)
}

/// Capacity reservations; one free instance each unless the status has a count.
pub(super) fn reservations(at: &Cursor<'_>) -> Vec<ReservationEntry> {
    at.list().iter().filter_map(reservation).collect()
}

fn reservation(at: &Cursor<'_>) -> Option<ReservationEntry> {
    Some(ReservationEntry {
        id: at.at("id").text()?,
        zone: Zone::from(at.at("availabilityZone").text()?),
        instance_type: InstanceTypeName::from(at.at("instanceType").text()?),
        expiring: at.at("state").str() == Some("expiring"),
        reservation_type: at.at("reservationType").text().unwrap_or_else(|| "default".into()),
        interruptible: at.at("interruptible").bool().unwrap_or(false),
        count: None,
    })
}

/// Requirements of each image on the instance type.
pub(super) fn image_requirements(at: &Cursor<'_>) -> Vec<Requirements> {
    at.list().iter().map(requirements).collect()
}

/// Requirements of an image on the instance type.
fn requirements(image: &Cursor<'_>) -> Requirements {
    image.at("requirements").list().iter().filter_map(requirement).collect()
}

fn requirement(at: &Cursor<'_>) -> Option<Requirement> {
    let operator = Operator::parse(at.at("operator").str()?)?;
    Some(Requirement::new(at.at("key").str()?, operator, at.at("values").strings().into_iter().map(Text::from)))
}
