//! Prices that change while a server runs: which are due, the last good ones, and a catalogue with them.

use std::sync::Arc;

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use aws_sdk_pricing::types::{Filter, FilterType};
use cloud::catalogue::Snapshot;
use model::{Millis, Text, Timestamp};
use tracing::{info, warn};

use super::discovered::Discovered;
use super::offerings;
use super::on_demand::{self, OnDemandPrices, ProductFilters};
use crate::call_error::{CallError, CallErrorClass};
use crate::provider::Ec2Cloud;
use crate::slot::{Slot, spread};

const PRODUCTS: &str = "pricing:GetProducts";
const SPOT_PRICES: &str = "ec2:DescribeSpotPriceHistory";
const SERVICE: &str = "AmazonEC2";
/// Page size (Karpenter AWS: prices).
const PAGE: i32 = 100;

/// On-demand prices change a few times a year.
const ON_DEMAND_INTERVAL: Millis = Millis::from_hours(12);
/// Spot prices change within minutes. All clusters of the account and region share one read.
const SPOT_INTERVAL: Millis = Millis::from_mins(5);

/// On-demand and spot prices of the region of an [`Ec2Cloud`]. A failed read keeps the last prices.
#[derive(Debug)]
pub struct PriceRefresher {
    on_demand: Slot<Arc<Dated<OnDemandPrices>>>,
    spot: Slot<Arc<offerings::SpotPrices>>,
    spread: i64,
}

/// Prices, and the day on which they were read.
#[derive(Debug)]
struct Dated<P> {
    prices: P,
    date: Text,
}

impl PriceRefresher {
    /// Nothing is known, and everything is due. Refreshes of different regions are spread over time.
    #[must_use]
    pub fn new(region: &str) -> Self {
        Self { on_demand: Slot::default(), spot: Slot::default(), spread: spread(&region) }
    }

    /// When the next read is due.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.on_demand.due().min(self.spot.due())
    }

    /// Reads the prices that are due. Returns whether any were read: then [`Self::apply`] has another result. A failure
    /// is logged, and its read is repeated later.
    pub async fn refresh(&mut self, cloud: &Ec2Cloud) -> bool {
        let mut changed = false;
        if self.on_demand.is_due(cloud.now()) {
            let read = cloud.on_demand_prices().await.map(|prices| {
                let date = Text::from(date(cloud.now()));
                Arc::new(Dated { prices, date })
            });
            changed |= record(&mut self.on_demand, read, ON_DEMAND_INTERVAL, cloud.now(), self.spread);
        }
        if self.spot.is_due(cloud.now()) {
            let read = cloud.spot_prices().await.map(Arc::new);
            changed |= record(&mut self.spot, read, SPOT_INTERVAL, cloud.now(), self.spread);
        }
        changed
    }

    /// Why the prices of the last read are not known: one sentence for each kind, on-demand first.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        [self.on_demand.error(), self.spot.error()].into_iter().flatten().map(ToString::to_string).collect()
    }

    /// `discovered` with the prices that are known. On-demand prices that the Pricing API lacks are those of `supplement`.
    #[must_use]
    pub fn apply(&self, discovered: &Discovered, supplement: &Snapshot) -> Discovered {
        let mut region = discovered.region().clone();
        if let Some(known) = self.on_demand.last() {
            region.price_date = Some(known.date.clone());
            for found in &mut region.types {
                found.on_demand_price = known.prices.get(&found.name).copied();
            }
        }
        if let Some(spot) = self.spot.last() {
            for found in &mut region.types {
                found.spot_prices = spot.get(&found.name).cloned().unwrap_or_default();
            }
        }
        Discovered::new(region, discovered.left_out.clone(), supplement)
    }
}

fn record<V: Clone>(
    slot: &mut Slot<V>,
    read: Result<V, CallError>,
    interval: Millis,
    now: Timestamp,
    spread: i64,
) -> bool {
    match read {
        Ok(prices) => {
            slot.succeed(prices, now, interval, spread);
            true
        }
        Err(error) => {
            warn!(action = error.action(), code = error.code(), %error, "prices not refreshed");
            slot.fail(error, now, spread);
            false
        }
    }
}

impl Ec2Cloud {
    /// On-demand prices of the region. An answer without any for one of the queries is a failure: a part must not
    /// replace a complete list.
    async fn on_demand_prices(&self) -> Result<OnDemandPrices, CallError> {
        let region = &self.settings().region;
        let queries = on_demand::queries(region);
        let none = |message: String| CallError::new(PRODUCTS, CallErrorClass::Refused, "NoPrices", message);
        if queries.is_empty() {
            return Err(none(format!("the Pricing API has no prices of {region}")));
        }
        let (mut prices, mut left_out) = (OnDemandPrices::new(), Vec::new());
        for query in &queries {
            let products = self.products(query).await?;
            let found = on_demand::read(&products, region, &mut left_out);
            if found.is_empty() {
                return Err(none(format!("{} products of {region}, none with a price", products.len())));
            }
            prices.extend(found);
        }
        info!(region = %region, types = prices.len(), left_out = left_out.len(), "on-demand prices read");
        Ok(prices)
    }

    async fn products(&self, query: &ProductFilters) -> Result<Vec<String>, CallError> {
        let invalid = |error: aws_sdk_pricing::error::BuildError| {
            CallError::new(PRODUCTS, CallErrorClass::Refused, "InvalidRequest", error.to_string())
        };
        let filter = |(field, value): &(&str, String)| {
            Filter::builder().r#type(FilterType::TermMatch).field(*field).value(value).build().map_err(invalid)
        };
        let filters = query.iter().map(filter).collect::<Result<Vec<_>, _>>()?;
        let call = self.pricing().get_products().service_code(SERVICE).set_filters(Some(filters)).max_results(PAGE);
        let mut pages = call.into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| CallError::read(PRODUCTS, &error))?;
            found.extend(page.price_list.unwrap_or_default());
        }
        Ok(found)
    }

    /// Current spot prices of the region. Karpenter keeps those of zones without a new one; here they have no offering,
    /// because a launch there fails.
    async fn spot_prices(&self) -> Result<offerings::SpotPrices, CallError> {
        let history = self.current_spot_prices(|error| CallError::read(SPOT_PRICES, error)).await?;
        let mut left_out = Vec::new();
        let prices = offerings::spot_prices(&history, &mut left_out);
        if prices.is_empty() {
            let message = format!("{} spot prices, none of which can be read", history.len());
            return Err(CallError::new(SPOT_PRICES, CallErrorClass::Unclear, "NoPrices", message));
        }
        Ok(prices)
    }
}

/// The day of a point in time, in UTC, such as `2026-05-12`.
fn date(at: Timestamp) -> String {
    let text = DateTime::from_millis(at.as_millis()).fmt(DateTimeFormat::DateTime).unwrap_or_default();
    text.split('T').next().unwrap_or_default().to_owned()
}
