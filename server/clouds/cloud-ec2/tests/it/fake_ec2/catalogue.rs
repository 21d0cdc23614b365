//! The catalogue actions: `DescribeInstanceTypes`, `DescribeInstanceTypeOfferings`,
//! `DescribeAvailabilityZones` and `DescribeSpotPriceHistory`, with filters and pages.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use super::instance_types::{self, TypeRow};
use super::{Answer, Form, element, error, numbered, ok};

/// A spot price from a moment on.
#[derive(Debug, Clone)]
pub(crate) struct SpotRow {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) product: &'static str,
    pub(crate) usd: String,
    /// RFC 3339, in UTC and whole seconds.
    pub(crate) since: &'static str,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Catalogue {
    pub(crate) types: Vec<TypeRow>,
    pub(crate) offerings: Vec<(String, String)>,
    pub(crate) zones: Vec<(String, String)>,
    pub(crate) spot: Vec<SpotRow>,
    /// The action and the page, from 0, that is throttled.
    pub(crate) throttled: Option<(&'static str, usize)>,
}

pub(super) fn describe(catalogue: &Catalogue, form: &Form) -> Answer {
    match form["Action"].as_str() {
        "DescribeInstanceTypes" => match instance_types::filtered(&catalogue.types, form) {
            Ok(items) => paged(catalogue, form, "instanceTypeSet", &items),
            Err(refused) => refused,
        },
        "DescribeInstanceTypeOfferings"
            if form.get("LocationType").map(String::as_str) != Some("availability-zone") =>
        {
            error(StatusCode::BAD_REQUEST, "InvalidParameterValue", "only by availability zone here")
        }
        "DescribeInstanceTypeOfferings" => paged(catalogue, form, "instanceTypeOfferingSet", &offerings(catalogue)),
        "DescribeSpotPriceHistory" => paged(catalogue, form, "spotPriceHistorySet", &history(catalogue, form)),
        _ => paged(catalogue, form, "availabilityZoneInfo", &zones(catalogue)),
    }
}

/// One page of `items`; a token is the number of the first item.
fn paged(catalogue: &Catalogue, form: &Form, list: &str, items: &[String]) -> Answer {
    let action = form["Action"].as_str();
    let size = form.get("MaxResults").map_or(usize::MAX, |most| most.parse().unwrap());
    let first: usize = form.get("NextToken").map_or(0, |token| token.parse().unwrap());
    if catalogue.throttled == Some((action, first / size)) {
        return error(StatusCode::SERVICE_UNAVAILABLE, "RequestLimitExceeded", "Request limit exceeded.");
    }
    let shown: String = items.iter().skip(first).take(size).map(|item| element("item", item)).collect();
    let last = first.saturating_add(size);
    let next = if last < items.len() { element("nextToken", &last.to_string()) } else { String::new() };
    ok(action, &(element(list, &shown) + &next))
}

fn offerings(catalogue: &Catalogue) -> Vec<String> {
    let item = |(name, zone): &(String, String)| {
        element("instanceType", name) + &element("locationType", "availability-zone") + &element("location", zone)
    };
    catalogue.offerings.iter().map(item).collect()
}

fn zones(catalogue: &Catalogue) -> Vec<String> {
    let item = |(name, id): &(String, String)| {
        element("zoneName", name) + &element("zoneId", id) + &element("zoneState", "available")
    };
    catalogue.zones.iter().map(item).collect()
}

/// The prices of the wanted products that hold at `StartTime` or begin later.
fn history(catalogue: &Catalogue, form: &Form) -> Vec<String> {
    let products = numbered(form, "ProductDescription");
    let start = form.get("StartTime").map_or("", String::as_str);
    let wanted = |row: &&SpotRow| products.is_empty() || products.contains(&row.product);
    let mut holding: BTreeMap<(&str, &str, &str), &SpotRow> = BTreeMap::new();
    let mut later = Vec::new();
    for row in catalogue.spot.iter().filter(wanted) {
        if row.since > start {
            later.push(row);
            continue;
        }
        let known = holding.entry((&row.instance_type, &row.zone, row.product)).or_insert(row);
        if known.since < row.since {
            *known = row;
        }
    }
    holding.into_values().chain(later).map(price).collect()
}

fn price(row: &SpotRow) -> String {
    let fields = [
        ("instanceType", row.instance_type.as_str()),
        ("productDescription", row.product),
        ("spotPrice", &row.usd),
        ("timestamp", row.since),
        ("availabilityZone", &row.zone),
    ];
    fields.map(|(name, value)| element(name, value)).concat()
}
