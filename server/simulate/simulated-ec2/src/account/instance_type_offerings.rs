//! What the region sells: DescribeInstanceTypes, DescribeInstanceTypeOfferings, DescribeSpotPriceHistory.

use std::collections::BTreeMap;

use super::context::Context;
use super::instance_types;
use super::region::Region;
use crate::api_error::ApiError;
use crate::catalogue::{RegionCatalogue, SpotRow, TypeRow};
use crate::query::filters::Filters;
use crate::settings::Tags;
use crate::value::Fields;

/// Maximum page of DescribeInstanceTypes (API reference).
const TYPE_PAGE: usize = 100;

pub(crate) fn describe_types(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let size: Option<usize> = call.parameters.number("MaxResults")?;
    if let Some(size) = size.filter(|size| !(5..=TYPE_PAGE).contains(size)) {
        return Err(ApiError::invalid("MaxResults", &size.to_string()));
    }
    let passes = |filters: &Filters, row: &&TypeRow| {
        let field = |name: &str| match name {
            "supported-virtualization-type" => RegionCatalogue::column(row, "virtualization").unwrap_or("hvm"),
            _ => instance_types::architecture(row),
        };
        filters.pass(&Tags::new(), field)
    };
    let known = ["processor-info.supported-architecture", "supported-virtualization-type"];
    call.filtered("instanceTypeSet", &known, &region.catalogue().types, passes, instance_types::shown)
}

/// Offerings by zone.
pub(crate) fn describe_offerings(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    match call.parameters.get("LocationType") {
        Some("availability-zone") => {}
        other => return Err(ApiError::invalid("LocationType", other.unwrap_or("region"))),
    }
    let shown = |(instance_type, zone): &(String, String)| {
        let of_type = Fields::new().with("instanceType", instance_type);
        of_type.with("locationType", "availability-zone").with("location", zone)
    };
    call.listed("instanceTypeOfferingSet", &region.catalogue().offerings, shown)
}

/// The prices of the wanted products that hold at `StartTime` or begin later.
pub(crate) fn describe_spot_prices(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let products = call.parameters.list("ProductDescription");
    let wanted = |row: &&SpotRow| products.is_empty() || products.contains(&row.product.as_str());
    let rows = region.catalogue().spot.iter().filter(wanted);
    let rows = holding_since(rows, call.parameters.get("StartTime").unwrap_or_default());
    let shown = |row: &SpotRow| {
        Fields::new()
            .with("instanceType", &row.instance_type)
            .with("productDescription", &row.product)
            .with("spotPrice", &row.usd)
            .with("timestamp", &row.since)
            .with("availabilityZone", &row.zone)
    };
    call.listed("spotPriceHistorySet", rows, shown)
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
