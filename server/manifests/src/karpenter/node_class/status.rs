//! `status` of an EC2NodeClass: the resources that the selectors found in the account.

use model::node_class::{ReservationEntry, SubnetZone};
use model::{InstanceTypeName, Operator, Requirement, Requirements, Text, Zone};

use crate::Cursor;

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
    at.list().iter().map(|image| image.at("requirements").list().iter().filter_map(requirement).collect()).collect()
}

fn requirement(at: &Cursor<'_>) -> Option<Requirement> {
    let operator = Operator::parse(at.at("operator").str()?)?;
    Some(Requirement::new(at.at("key").str()?, operator, at.at("values").strings().into_iter().map(Text::from)))
}
