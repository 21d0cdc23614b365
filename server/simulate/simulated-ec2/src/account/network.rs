//! What a launch is made of in the account: DescribeSubnets, DescribeSecurityGroups, DescribeImages,
//! DescribeCapacityReservations, and DescribeAvailabilityZones.

use model::Timestamp;

use super::addresses::Addresses;
use super::context::{Context, iso, tag_set};
use super::instances::Instances;
use super::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::{Image, Reservation, SecurityGroup, Subnet};
use crate::value::Fields;

pub(crate) fn describe_subnets(region: &Region, addresses: &Addresses, call: &Context<'_>) -> Result<Fields, ApiError> {
    let shown = |subnet: &Subnet| {
        Fields::new()
            .with("subnetId", &subnet.id)
            .with("vpcId", &subnet.vpc)
            .with("availableIpAddressCount", addresses.free(subnet))
            .with("availabilityZone", &subnet.zone)
            .with("availabilityZoneId", region.zone_id(&subnet.zone))
            .with("tagSet", tag_set(&subnet.tags))
    };
    let (known, subnets) = (["tag:", "tag-key", "subnet-id"], &region.settings().subnets);
    call.filtered("subnetSet", &known, subnets, |filters, subnet| filters.pass(&subnet.tags, |_| &subnet.id), shown)
}

pub(crate) fn describe_security_groups(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let passes = |filters: &Filters, group: &&SecurityGroup| {
        let field = |name: &str| if name == "group-id" { group.id.as_str() } else { group.name.as_str() };
        filters.pass(&group.tags, field)
    };
    let shown = |group: &SecurityGroup| {
        Fields::new()
            .with("groupId", &group.id)
            .with("groupName", &group.name)
            .with("vpcId", &group.vpc)
            .with("tagSet", tag_set(&group.tags))
    };
    let known = ["tag:", "tag-key", "group-id", "group-name"];
    call.filtered("securityGroupInfo", &known, &region.settings().security_groups, passes, shown)
}

/// Zones, of which there are no pages.
pub(crate) fn describe_zones(region: &Region) -> Fields {
    let shown = |(zone, id): &(String, String)| Fields::new().with("zoneName", zone).with("zoneId", id);
    Fields::new().list("availabilityZoneInfo", region.catalogue().zones.iter().map(shown))
}

/// Images of the owners that the call names, else of all. Deprecated ones are left out unless it asks for them.
pub(crate) fn describe_images(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let (owners, now) = (call.parameters.list("Owner"), iso(call.now));
    let with_deprecated = call.parameters.is_true("IncludeDeprecated");
    let is_owner = |image: &Image, owner: &str| match owner {
        "self" => image.owner == region.settings().account,
        other => image.owner == other || image.owner_alias.as_deref() == Some(other),
    };
    let passes = |filters: &Filters, image: &&Image| {
        let is_hidden = !with_deprecated && image.deprecated.as_ref().is_some_and(|at| *at <= now);
        let field = |name: &str| match name {
            "image-id" => image.id.as_str(),
            "name" => &image.name,
            _ => &image.state,
        };
        let owned = owners.is_empty() || owners.iter().any(|owner| is_owner(image, owner));
        !is_hidden && owned && filters.pass(&image.tags, field)
    };
    let shown = |image: &Image| {
        Fields::new()
            .with("imageId", &image.id)
            .with("imageState", &image.state)
            .with("imageOwnerId", &image.owner)
            .with("creationDate", &image.created)
            .with("architecture", &image.architecture)
            .with("name", &image.name)
            .maybe("deprecationTime", image.deprecated.as_ref())
            .with("tagSet", tag_set(&image.tags))
    };
    let known = ["tag:", "tag-key", "image-id", "name", "state"];
    call.filtered("imagesSet", &known, &region.settings().images, passes, shown)
}

/// Capacity reservations, with the counts that launched instances leave.
pub(crate) fn describe_reservations(
    region: &Region,
    instances: &Instances,
    call: &Context<'_>,
) -> Result<Fields, ApiError> {
    let ids = call.parameters.list("CapacityReservationId");
    for id in &ids {
        let message = || format!("The capacity reservation id '{id}' does not exist.");
        let unknown = || ApiError::new("InvalidCapacityReservationId.NotFound", message());
        region.reservation(id).ok_or_else(unknown)?;
    }
    let state = |reservation: &Reservation| if reservation.has_ended(call.now) { "expired" } else { "active" };
    let criteria = |reservation: &Reservation| if reservation.targeted { "targeted" } else { "open" };
    let passes = |filters: &Filters, reservation: &&Reservation| {
        let field = |name: &str| match name {
            "instance-match-criteria" => criteria(reservation),
            "owner-id" => &reservation.owner,
            _ => state(reservation),
        };
        (ids.is_empty() || ids.contains(&reservation.id.as_str())) && filters.pass(&reservation.tags, field)
    };
    let shown = |reservation: &Reservation| {
        let left = reservation.count.saturating_sub(instances.using(&reservation.id));
        Fields::new()
            .with("capacityReservationId", &reservation.id)
            .with("ownerId", &reservation.owner)
            .with("instanceType", &reservation.instance_type)
            .with("availabilityZone", &reservation.zone)
            .with("totalInstanceCount", reservation.count)
            .with("availableInstanceCount", if reservation.has_ended(call.now) { 0 } else { left })
            .with("state", state(reservation))
            .maybe("endDate", reservation.ends_ms.map(|end| iso(Timestamp::from_millis(end))))
            .with("instanceMatchCriteria", criteria(reservation))
            .with("reservationType", if reservation.capacity_block { "capacity-block" } else { "default" })
            .with("interruptible", reservation.interruptible)
            .with("tagSet", tag_set(&reservation.tags))
    };
    let known = ["tag:", "tag-key", "instance-match-criteria", "owner-id", "state"];
    call.filtered("capacityReservationSet", &known, &region.settings().reservations, passes, shown)
}
