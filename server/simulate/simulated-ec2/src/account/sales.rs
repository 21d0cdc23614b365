//! What the region sells: DescribeInstanceTypes, DescribeInstanceTypeOfferings, DescribeSpotPriceHistory.

mod instance_type;

use std::collections::BTreeMap;

use super::context::Context;
use super::region::Region;
use crate::api_error::ApiError;
use crate::catalogue::{RegionCatalogue, SpotRow, TypeRow};
use crate::query::filters::Filters;
use crate::settings::Tags;
use crate::value::Fields;

const TYPE_FILTERS: [&str; 4] =
    ["bare-metal", "instance-type", "processor-info.supported-architecture", "supported-virtualization-type"];
const OFFERING_FILTERS: [&str; 2] = ["instance-type", "location"];
const SPOT_FILTERS: [&str; 3] = ["availability-zone", "instance-type", "product-description"];

/// Maximum page of DescribeInstanceTypes (API reference).
const TYPE_PAGE: usize = 100;

pub(crate) fn describe_types(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &TYPE_FILTERS, false)?;
    let names = call.parameters.list("InstanceType");
    let size: Option<usize> = call.parameters.number("MaxResults")?;
    if size.is_some_and(|size| !(5..=TYPE_PAGE).contains(&size)) {
        return Err(ApiError::invalid("MaxResults", &size.unwrap_or_default().to_string()));
    }
    for name in &names {
        let unknown = || {
            let message = format!("The following supplied instance types do not exist: [{name}]");
            ApiError::new("InvalidInstanceType", message)
        };
        region.instance_type(name).ok_or_else(unknown)?;
    }
    let passes = |row: &&TypeRow| {
        let name = RegionCatalogue::column(row, "name").unwrap_or_default();
        (names.is_empty() || names.contains(&name)) && filters.pass(&Tags::new(), |filter| vec![field(row, filter)])
    };
    let (page, token) = call.page()?.take_by_position(region.catalogue().types.iter().filter(passes));
    Ok(Fields::new().list("instanceTypeSet", page.into_iter().map(instance_type::shown)).maybe("nextToken", token))
}

fn field(row: &TypeRow, filter: &str) -> String {
    let column = |name: &str| RegionCatalogue::column(row, name);
    match filter {
        "bare-metal" => (column("hypervisor") == Some("metal")).to_string(),
        "instance-type" => column("name").unwrap_or_default().to_owned(),
        "supported-virtualization-type" => column("virtualization").unwrap_or("hvm").to_owned(),
        _ => instance_type::architecture(row).to_owned(),
    }
}

/// DescribeInstanceTypeOfferings, by zone, zone id or region.
pub(crate) fn describe_offerings(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &OFFERING_FILTERS, false)?;
    let location_type = call.parameters.get("LocationType").unwrap_or("region");
    let name = &region.settings().region;
    let location = |zone: &str| match location_type {
        "availability-zone" => Ok(zone.to_owned()),
        "availability-zone-id" => Ok(region.zone_id(zone).to_owned()),
        "region" => Ok(name.clone()),
        other => Err(ApiError::invalid("LocationType", other)),
    };
    let mut rows: Vec<(String, String)> = Vec::new();
    for (instance_type, zone) in &region.catalogue().offerings {
        let row = (instance_type.clone(), location(zone)?);
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }
    let passes = |(instance_type, location): &&(String, String)| {
        let field = |filter: &str| if filter == "location" { location.clone() } else { instance_type.clone() };
        filters.pass(&Tags::new(), |filter| vec![field(filter)])
    };
    let (page, token) = call.page()?.take_by_position(rows.iter().filter(passes));
    let shown = |(instance_type, location): &(String, String)| {
        Fields::new().with("instanceType", instance_type).with("locationType", location_type).with("location", location)
    };
    Ok(Fields::new().list("instanceTypeOfferingSet", page.into_iter().map(shown)).maybe("nextToken", token))
}

/// DescribeSpotPriceHistory: the prices of the wanted products that hold at `StartTime` or begin later.
pub(crate) fn describe_spot_prices(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &SPOT_FILTERS, false)?;
    let products = call.parameters.list("ProductDescription");
    let types = call.parameters.list("InstanceType");
    let zone = call.parameters.get("AvailabilityZone");
    let wanted = |row: &&SpotRow| {
        let field = |filter: &str| match filter {
            "availability-zone" => row.zone.clone(),
            "instance-type" => row.instance_type.clone(),
            _ => row.product.clone(),
        };
        (products.is_empty() || products.contains(&row.product.as_str()))
            && (types.is_empty() || types.contains(&row.instance_type.as_str()))
            && zone.is_none_or(|zone| zone == row.zone)
            && filters.pass(&Tags::new(), |filter| vec![field(filter)])
    };
    let rows = region.catalogue().spot.iter().filter(wanted);
    let rows = holding_since(rows, call.parameters.get("StartTime").unwrap_or_default());
    let (page, token) = call.page()?.take_by_position(rows);
    let shown = |row: &SpotRow| {
        Fields::new()
            .with("instanceType", &row.instance_type)
            .with("productDescription", &row.product)
            .with("spotPrice", &row.usd)
            .with("timestamp", &row.since)
            .with("availabilityZone", &row.zone)
    };
    Ok(Fields::new().list("spotPriceHistorySet", page.into_iter().map(shown)).maybe("nextToken", token))
}

/// The newest price of each pool at `start`, and all later ones. Times in RFC 3339 and UTC sort as text.
fn holding_since<'r>(rows: impl Iterator<Item = &'r SpotRow>, start: &str) -> Vec<&'r SpotRow> {
    let mut holding: BTreeMap<(&str, &str, &str), &SpotRow> = BTreeMap::new();
    let mut later = Vec::new();
    for row in rows {
        if row.since.as_str() > start {
            later.push(row);
            continue;
        }
        let known = holding.entry((&row.instance_type, &row.zone, &row.product)).or_insert(row);
        if known.since < row.since {
            *known = row;
        }
    }
    holding.into_values().chain(later).collect()
}
