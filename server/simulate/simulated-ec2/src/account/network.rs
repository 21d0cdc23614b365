//! DescribeSubnets, DescribeSecurityGroups, DescribeAvailabilityZones, DescribePlacementGroups.

use super::addresses::Addresses;
use super::context::Context;
use super::launch_templates::tag_set;
use super::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::{SecurityGroup, Subnet, Tags};
use crate::value::Fields;

const SUBNET_FILTERS: [&str; 5] = ["availability-zone", "availability-zone-id", "state", "subnet-id", "vpc-id"];
const GROUP_FILTERS: [&str; 3] = ["group-id", "group-name", "vpc-id"];
const ZONE_FILTERS: [&str; 7] =
    ["group-name", "opt-in-status", "region-name", "state", "zone-id", "zone-name", "zone-type"];

pub(crate) fn describe_subnets(region: &Region, addresses: &Addresses, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &SUBNET_FILTERS, true)?;
    let ids = call.parameters.list("SubnetId");
    for id in &ids {
        let unknown = || ApiError::new("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"));
        region.subnet(id).ok_or_else(unknown)?;
    }
    let passes = |subnet: &&Subnet| {
        let field = |name: &str| match name {
            "availability-zone" => subnet.zone.clone(),
            "availability-zone-id" => region.zone_id(&subnet.zone).to_owned(),
            "state" => "available".to_owned(),
            "subnet-id" => subnet.id.clone(),
            _ => subnet.vpc.clone(),
        };
        (ids.is_empty() || ids.contains(&subnet.id.as_str())) && filters.pass(&subnet.tags, |name| vec![field(name)])
    };
    let shown = |subnet: &Subnet| {
        let [a, b, c, d] = subnet.cidr.0;
        Fields::new()
            .with("subnetId", &subnet.id)
            .with("state", "available")
            .with("vpcId", &subnet.vpc)
            .with("cidrBlock", format!("{a}.{b}.{c}.{d}/{}", subnet.cidr.1))
            .with("availableIpAddressCount", addresses.free(subnet))
            .with("availabilityZone", &subnet.zone)
            .with("availabilityZoneId", region.zone_id(&subnet.zone))
            .with("ownerId", &region.settings().account)
            .with("mapPublicIpOnLaunch", false)
            .with("tagSet", tag_set(&subnet.tags))
    };
    let (page, token) = call.page()?.take_by_position(region.settings().subnets.iter().filter(passes));
    Ok(Fields::new().list("subnetSet", page.into_iter().map(shown)).maybe("nextToken", token))
}

pub(crate) fn describe_security_groups(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &GROUP_FILTERS, true)?;
    let (ids, names) = (call.parameters.list("GroupId"), call.parameters.list("GroupName"));
    let groups = &region.settings().security_groups;
    let unknown =
        |wanted: &str| ApiError::new("InvalidGroup.NotFound", format!("The security group '{wanted}' does not exist"));
    for id in &ids {
        region.security_group(id).ok_or_else(|| unknown(id))?;
    }
    for name in &names {
        groups.iter().find(|group| group.name == *name).ok_or_else(|| unknown(name))?;
    }
    let passes = |group: &&SecurityGroup| {
        let field = |name: &str| match name {
            "group-id" => group.id.clone(),
            "group-name" => group.name.clone(),
            _ => group.vpc.clone(),
        };
        let named = ids.is_empty() && names.is_empty()
            || ids.contains(&group.id.as_str())
            || names.contains(&group.name.as_str());
        named && filters.pass(&group.tags, |name| vec![field(name)])
    };
    let shown = |group: &SecurityGroup| {
        Fields::new()
            .with("groupId", &group.id)
            .with("groupName", &group.name)
            .with("groupDescription", &group.name)
            .with("vpcId", &group.vpc)
            .with("ownerId", &region.settings().account)
            .with("tagSet", tag_set(&group.tags))
    };
    let (page, token) = call.page()?.take_by_position(groups.iter().filter(passes));
    Ok(Fields::new().list("securityGroupInfo", page.into_iter().map(shown)).maybe("nextToken", token))
}

pub(crate) fn describe_zones(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &ZONE_FILTERS, false)?;
    let (names, ids) = (call.parameters.list("ZoneName"), call.parameters.list("ZoneId"));
    let name = &region.settings().region;
    let passes = |(zone, id): &&(String, String)| {
        let field = |filter: &str| match filter {
            "zone-name" => zone.clone(),
            "zone-id" => id.clone(),
            "opt-in-status" => "opt-in-not-required".to_owned(),
            "state" => "available".to_owned(),
            "zone-type" => "availability-zone".to_owned(),
            _ => name.clone(),
        };
        let is_named =
            names.is_empty() && ids.is_empty() || names.contains(&zone.as_str()) || ids.contains(&id.as_str());
        is_named && filters.pass(&Tags::new(), |filter| vec![field(filter)])
    };
    let shown = |(zone, id): &(String, String)| {
        Fields::new()
            .with("zoneName", zone)
            .with("zoneId", id)
            .with("zoneState", "available")
            .with("regionName", name)
            .with("groupName", name)
            .with("optInStatus", "opt-in-not-required")
            .with("zoneType", "availability-zone")
    };
    // The call has no pages.
    let zones = region.catalogue().zones.iter().filter(passes).map(shown);
    Ok(Fields::new().list("availabilityZoneInfo", zones))
}

/// DescribePlacementGroups: the account has none.
pub(crate) fn describe_placement_groups(call: &Context<'_>) -> Result<Fields, ApiError> {
    let named = call.parameters.list("GroupName").into_iter().chain(call.parameters.list("GroupId"));
    match named.last() {
        Some(name) => {
            let message = format!("The Placement Group '{name}' is unknown.");
            Err(ApiError::new("InvalidPlacementGroup.Unknown", message))
        }
        None => Ok(Fields::new().list::<Fields>("placementGroupSet", [])),
    }
}
