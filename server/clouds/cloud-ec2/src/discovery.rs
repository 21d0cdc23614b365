//! Reads the instance types of an account and region into a [`Snapshot`] for plans.
//!
//! | Call | Parameters | What it gives |
//! |---|---|---|
//! | `DescribeInstanceTypes` | hardware virtualization, `x86_64` and `arm64`, pages of 100 | data of a type |
//! | `DescribeInstanceTypeOfferings` | by availability zone, pages of 1,000 | zones of a type |
//! | `DescribeAvailabilityZones` | zones enabled for the account, one answer | zone ids |
//! | `DescribeSpotPriceHistory` | Linux, from now on, pages of 2,000 | current spot prices |
//!
//! Filters and page sizes are those of Karpenter's AWS provider.
//!
//! What these calls do not tell comes from [`Supplement`]:
//! - On-demand prices. Only the Pricing API has them ([`Ec2Cloud::on_demand_prices`]). Where it has none, and before it was
//!   read, [`Supplement::prices`] holds: the embedded snapshot or a catalogue file.
//! - Branch interfaces (`vpc.amazonaws.com/pod-eni`). No public API has them. A type that the
//!   supplement lacks has none.
//! - The network bandwidth of known types, from AWS's published table, which Karpenter's labels
//!   follow. The API's baselines differ from it for some types and exist for types that the table
//!   rates in words, so a known type without a figure stays without the label. For types that the
//!   supplement lacks, the baselines of all network cards are added up.
//!
//! A failed page fails the whole read, and so does an answer without types or zones: a part of a
//! catalogue must not replace a complete one. A single type with missing or contradictory fields is
//! left out and named ([`Discovered::left_out`]).
//!
//! `fleetwright catalogue refresh` reads everything once ([`Ec2Cloud::discover`]). A server reads types, on-demand prices
//! and spot prices each at an interval of its own ([`CatalogueRefresher`]).
//!
//! Reading order: `instance_type` and `devices` (a type's data), `offerings` (zones and spot
//! prices), `left_out` (reasons), the calls here, `on_demand` and `prices` (the Pricing API's products as prices, and the
//! calls for prices), and `refresher` (what is due).

mod devices;
mod instance_type;
mod left_out;
mod offerings;
mod on_demand;
mod prices;
mod refresher;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::SdkError;
use aws_sdk_ec2::operation::describe_spot_price_history::DescribeSpotPriceHistoryError;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{AvailabilityZone, InstanceTypeInfo, InstanceTypeOffering, LocationType, SpotPrice};
use cloud::catalogue::Snapshot;
use cloud::catalogue::discovered::DiscoveredRegion;
use cloud::provider::CloudError;
use model::Text;

use crate::failure::Failure;
use crate::provider::{Ec2Cloud, filter};
pub use left_out::{LeftOut, Reason};
use offerings::{offered_zones, spot_prices, zone_ids};
pub use prices::PricesRead;
pub use refresher::{CatalogueRefresher, Intervals, Refresh, Used};

const TYPES: &str = "DescribeInstanceTypes";
const OFFERINGS: &str = "DescribeInstanceTypeOfferings";
const ZONES: &str = "DescribeAvailabilityZones";
const SPOT_PRICES: &str = "DescribeSpotPriceHistory";

/// Page sizes (Karpenter AWS: instance types, prices). 100 is EC2's maximum for types.
const TYPES_PAGE: i32 = 100;
const OFFERINGS_PAGE: i32 = 1_000;
const SPOT_PRICES_PAGE: i32 = 2_000;

/// Spot prices are those of Linux, in a VPC or not.
const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// The result of a complete read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// The region's types, zones and prices.
    pub snapshot: Snapshot,
    /// Types, zones and prices that EC2 described incompletely, in the order of its answers.
    pub left_out: Vec<LeftOut>,
}

/// What the calls do not tell.
#[derive(Debug, Clone, Copy)]
pub struct Supplement<'a> {
    /// On-demand prices of types that the Pricing API lacks, or before it was read.
    pub prices: &'a Snapshot,
    /// Branch interfaces and network bandwidth by type: [`Snapshot::builtin`].
    pub hardware: &'a Snapshot,
}

/// The answers of the calls for types and zones, all pages of each.
struct Answers {
    types: Vec<InstanceTypeInfo>,
    offerings: Vec<InstanceTypeOffering>,
    zones: Vec<AvailabilityZone>,
}

/// Instance types and zones of a region, without prices.
struct TypesRead {
    region: DiscoveredRegion,
    left_out: Vec<LeftOut>,
}

impl Ec2Cloud {
    /// Reads the instance types, zones and spot prices of the account in the region of the
    /// settings. Changes nothing. The credentials must allow the four calls of this module.
    ///
    /// # Errors
    /// The error of the first call that fails, on any page; [`CloudError::Unknown`] when EC2
    /// returns no instance type or no offering that can be read.
    pub async fn discover(&self, supplement: Supplement<'_>) -> Result<Discovered, CloudError> {
        let TypesRead { mut region, mut left_out } = self.types_and_zones(supplement.hardware).await?;
        let history = self.current_spot_prices().await;
        let history = history.map_err(|error| Failure::read(SPOT_PRICES, &error).of_call())?;
        let mut spot = spot_prices(&history, &mut left_out);
        for found in &mut region.types {
            found.spot_prices = Some(spot.remove(&found.name).unwrap_or_default());
        }
        Ok(Discovered { snapshot: Snapshot::discovered(region, supplement.prices), left_out })
    }

    /// Reads the instance types and zones.
    async fn types_and_zones(&self, hardware: &Snapshot) -> Result<TypesRead, CloudError> {
        let answers = Answers {
            types: self.described_types().await?,
            offerings: self.described_offerings().await?,
            zones: self.described_zones().await?,
        };
        assemble(&self.settings().region, &answers, hardware)
    }

    async fn described_types(&self) -> Result<Vec<InstanceTypeInfo>, CloudError> {
        let call = self.client().describe_instance_types().max_results(TYPES_PAGE);
        let call = call.filters(filter("supported-virtualization-type", ["hvm"]));
        let call = call.filters(filter("processor-info.supported-architecture", ["x86_64", "arm64"]));
        let found = call.into_paginator().items().send().try_collect().await;
        found.map_err(|error| Failure::read(TYPES, &error).of_call())
    }

    async fn described_offerings(&self) -> Result<Vec<InstanceTypeOffering>, CloudError> {
        let call = self.client().describe_instance_type_offerings().max_results(OFFERINGS_PAGE);
        let pages = call.location_type(LocationType::AvailabilityZone).into_paginator();
        let found = pages.items().send().try_collect().await;
        found.map_err(|error| Failure::read(OFFERINGS, &error).of_call())
    }

    async fn described_zones(&self) -> Result<Vec<AvailabilityZone>, CloudError> {
        let sent = self.client().describe_availability_zones().send().await;
        let answer = sent.map_err(|error| Failure::read(ZONES, &error).of_call())?;
        Ok(answer.availability_zones.unwrap_or_default())
    }

    /// A history that begins now has the current price of each type and zone.
    async fn current_spot_prices(
        &self,
    ) -> Result<Vec<SpotPrice>, SdkError<DescribeSpotPriceHistoryError, HttpResponse>> {
        let call = self.client().describe_spot_price_history().max_results(SPOT_PRICES_PAGE);
        let call = call.set_product_descriptions(Some(PRODUCTS.map(str::to_owned).into()));
        let pages = call.start_time(DateTime::from_millis(self.now().as_millis())).into_paginator();
        pages.items().send().try_collect().await
    }
}

/// The types of `region` from complete answers.
fn assemble(region: &str, answers: &Answers, hardware: &Snapshot) -> Result<TypesRead, CloudError> {
    let mut left_out = Vec::new();
    let ids = zone_ids(&answers.zones, &mut left_out);
    let mut offered = offered_zones(&answers.offerings, &mut left_out);
    let zones = offered.values().flatten().map(|zone| (zone.clone(), ids.get(zone).cloned())).collect();
    let mut types = Vec::with_capacity(answers.types.len());
    for described in &answers.types {
        match instance_type::read(described, hardware) {
            Ok(read) => types.push(read),
            Err(refused) => left_out.push(refused),
        }
    }
    instance_type::remove_duplicates(&mut types, &mut left_out);
    // EC2 also offers types that the filters exclude.
    for found in &mut types {
        found.zones = offered.remove(&found.name).unwrap_or_default();
    }
    types.retain(|found| !found.zones.is_empty());
    if types.is_empty() {
        return Err(nothing_usable(answers, left_out.first()));
    }
    let region = DiscoveredRegion { name: Text::from(region), zones, types, price_date: None };
    Ok(TypesRead { region, left_out })
}

fn nothing_usable(answers: &Answers, first: Option<&LeftOut>) -> CloudError {
    let (types, offerings) = (answers.types.len(), answers.offerings.len());
    let example = first.map(|left_out| format!("; {left_out}")).unwrap_or_default();
    let operation = format!("{TYPES} (no usable instance type in {types} types and {offerings} offerings{example})");
    CloudError::Unknown { operation: Text::from(operation) }
}
