//! DescribeCapacityReservations.

use model::Timestamp;

use super::context::{Context, iso};
use super::instances::Instances;
use super::launch_templates::tag_set;
use super::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::Reservation;
use crate::value::Fields;

const FILTERS: [&str; 6] =
    ["availability-zone", "instance-match-criteria", "instance-type", "owner-id", "state", "tenancy"];

/// DescribeCapacityReservations, with the counts that launched instances leave.
pub(crate) fn describe(region: &Region, instances: &Instances, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &FILTERS, true)?;
    let ids = call.parameters.list("CapacityReservationId");
    for id in &ids {
        let unknown = || {
            let message = format!("The capacity reservation id '{id}' does not exist.");
            ApiError::new("InvalidCapacityReservationId.NotFound", message)
        };
        region.reservation(id).ok_or_else(unknown)?;
    }
    let passes = |reservation: &&Reservation| {
        (ids.is_empty() || ids.contains(&reservation.id.as_str()))
            && filters.pass(&reservation.tags, |name| vec![field(reservation, name, call.now)])
    };
    let (page, token) = call.page()?.take_by_position(region.settings().reservations.iter().filter(passes));
    let shown =
        page.into_iter().map(|reservation| shown(region, reservation, instances.using(&reservation.id), call.now));
    Ok(Fields::new().list("capacityReservationSet", shown).maybe("nextToken", token))
}

fn state(reservation: &Reservation, now: Timestamp) -> &'static str {
    if reservation.ends_ms.is_some_and(|end| now.as_millis() >= end) { "expired" } else { "active" }
}

fn criteria(reservation: &Reservation) -> &'static str {
    if reservation.targeted { "targeted" } else { "open" }
}

fn field(reservation: &Reservation, name: &str, now: Timestamp) -> String {
    match name {
        "availability-zone" => reservation.zone.clone(),
        "instance-match-criteria" => criteria(reservation).to_owned(),
        "instance-type" => reservation.instance_type.clone(),
        "owner-id" => reservation.owner.clone(),
        "state" => state(reservation, now).to_owned(),
        _ => "default".to_owned(),
    }
}

fn shown(region: &Region, reservation: &Reservation, using: u32, now: Timestamp) -> Fields {
    let is_active = state(reservation, now) == "active";
    let free = if is_active { reservation.count.saturating_sub(using) } else { 0 };
    let kind = if reservation.capacity_block { "capacity-block" } else { "default" };
    Fields::new()
        .with("capacityReservationId", &reservation.id)
        .with("ownerId", &reservation.owner)
        .with("instanceType", &reservation.instance_type)
        .with("instancePlatform", "Linux/UNIX")
        .with("availabilityZone", &reservation.zone)
        .with("availabilityZoneId", region.zone_id(&reservation.zone))
        .with("tenancy", "default")
        .with("totalInstanceCount", reservation.count)
        .with("availableInstanceCount", free)
        .with("state", state(reservation, now))
        .maybe("endDate", reservation.ends_ms.map(|end| iso(Timestamp::from_millis(end))))
        .with("endDateType", if reservation.ends_ms.is_some() { "limited" } else { "unlimited" })
        .with("instanceMatchCriteria", criteria(reservation))
        .with("reservationType", kind)
        .with("interruptible", reservation.interruptible)
        .with("tagSet", tag_set(&reservation.tags))
}
