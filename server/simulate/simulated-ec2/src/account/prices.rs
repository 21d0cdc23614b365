//! Pricing: GetProducts of `AmazonEC2`, from the on-demand prices of the region.

use serde_json::{Value, json};

use super::context::Context;
use super::region::Region;
use crate::api_error::ApiError;
use crate::catalogue::{RegionCatalogue, TypeRow, decimal};
use crate::query::paging::PageRequest;

/// Maximum page of GetProducts (API reference).
const PAGE: usize = 100;

/// Codes of on-demand offers and of hourly rates, which are the same for all products.
const ON_DEMAND: &str = "JRTCKXETXF";
const HOURLY: &str = "6YS6EN2CT7";

pub(crate) fn get_products(region: &Region, call: &Context<'_>) -> Result<Value, ApiError> {
    if call.required("ServiceCode")? != "AmazonEC2" {
        return Err(ApiError::new("NotFoundException", "The simulation has the prices of AmazonEC2 only"));
    }
    let filters = call.items("Filters").map(read_filter).collect::<Result<Vec<_>, _>>()?;
    let limit = call.faults.page_size(call.action).unwrap_or(PAGE).min(PAGE);
    let page = PageRequest::read(call.parameters, Some(limit))?;
    let products = region.catalogue().types.iter().filter_map(|row| product(region, row));
    let passes = |(attributes, _): &(Value, String)| {
        filters.iter().all(|(field, value)| attributes[*field].as_str() == Some(*value))
    };
    let (page, token) = page.take_by_position(products.filter(passes));
    let prices: Vec<String> = page.into_iter().map(|(attributes, usd)| price(attributes, &usd).to_string()).collect();
    let mut answer = json!({ "FormatVersion": "aws_v1", "PriceList": prices });
    if let Some(token) = token {
        answer["NextToken"] = token.into();
    }
    Ok(answer)
}

fn read_filter(filter: &Value) -> Result<(&str, &str), ApiError> {
    match (filter["Type"].as_str(), filter["Field"].as_str(), filter["Value"].as_str()) {
        (Some("TERM_MATCH"), Some(field), Some(value)) => Ok((field, value)),
        _ => Err(ApiError::new("InvalidParameterException", format!("Input Parameters are not valid: {filter}"))),
    }
}

/// The attributes of a type's product for Linux, and its price; metal types are sold with dedicated tenancy.
fn product(region: &Region, row: &TypeRow) -> Option<(Value, String)> {
    let name = RegionCatalogue::column(row, "name")?;
    let usd = decimal(region.on_demand_price(name)?);
    let is_metal = RegionCatalogue::column(row, "hypervisor") == Some("metal");
    let (tenancy, family) =
        if is_metal { ("Dedicated", "Compute Instance (bare metal)") } else { ("Shared", "Compute Instance") };
    let attributes = json!({
        "instanceType": name,
        "regionCode": region.settings().region,
        "servicecode": "AmazonEC2",
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
        "vcpu": RegionCatalogue::column(row, "vcpu").unwrap_or_default(),
    });
    Some((attributes, usd))
}

/// An element of `PriceList`, before it is written as a string.
fn price(mut attributes: Value, usd: &str) -> Value {
    let name = attributes["instanceType"].as_str().unwrap_or_default().to_owned();
    // A filter has the product family among the attributes, a product beside them.
    let family = attributes.as_object_mut().and_then(|fields| fields.remove("productFamily"));
    attributes.as_object_mut().and_then(|fields| fields.remove("serviceCode"));
    let sku = sku(&name);
    let (offer, rate) = (format!("{sku}.{ON_DEMAND}"), format!("{sku}.{ON_DEMAND}.{HOURLY}"));
    let dimension = json!({
        "unit": "Hrs",
        "endRange": "Inf",
        "beginRange": "0",
        "description": format!("${usd} per On Demand Linux {name} Instance Hour"),
        "appliesTo": [],
        "rateCode": rate,
        "pricePerUnit": { "USD": format!("{usd}0000") },
    });
    let term = json!({
        "priceDimensions": { (rate): dimension },
        "sku": sku,
        "effectiveDate": "2026-05-01T00:00:00Z",
        "offerTermCode": ON_DEMAND,
        "termAttributes": {},
    });
    json!({
        "product": { "productFamily": family, "attributes": attributes, "sku": sku },
        "serviceCode": "AmazonEC2",
        "terms": { "OnDemand": { (offer): term } },
        "version": "20260512000000",
        "publicationDate": "2026-05-12T00:00:00Z",
    })
}

/// A code of a product, from the name of its type.
fn sku(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|character| character.to_ascii_uppercase()).collect()
}
