//! The calls for on-demand and spot prices.

use aws_sdk_pricing::types::{Filter, FilterType};
use cloud::catalogue::{OnDemandPrices, SpotPrices};

use super::left_out::LeftOut;
use super::offerings;
use super::on_demand::{self, ProductFilters};
use crate::call_error::{CallError, CallErrorClass};
use crate::provider::Ec2Cloud;

const PRODUCTS: &str = "pricing:GetProducts";
const SPOT_PRICES: &str = "ec2:DescribeSpotPriceHistory";
const SERVICE: &str = "AmazonEC2";
/// Page size (Karpenter AWS: prices).
const PAGE: i32 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PricesRead<P> {
    /// By type, and spot prices by zone as well.
    pub prices: P,
    /// Prices that cannot be read, or are not above zero.
    pub left_out: Vec<LeftOut>,
}

impl Ec2Cloud {
    /// On-demand prices of the region. An answer without any for one of the queries is a failure: a part must not
    /// replace a complete list.
    ///
    /// # Errors
    /// What failed and what to do, in a sentence.
    pub async fn on_demand_prices(&self) -> Result<PricesRead<OnDemandPrices>, String> {
        self.read_on_demand_prices().await.map_err(|error| error.to_string())
    }

    pub(super) async fn read_on_demand_prices(&self) -> Result<PricesRead<OnDemandPrices>, CallError> {
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
        Ok(PricesRead { prices, left_out })
    }

    async fn products(&self, query: &ProductFilters) -> Result<Vec<String>, CallError> {
        let filter = |(field, value): &(&str, String)| {
            Filter::builder().r#type(FilterType::TermMatch).field(*field).value(value).build()
        };
        let filters = query.iter().map(filter).collect::<Result<Vec<_>, _>>();
        let filters = filters.map_err(|error| CallError::invalid_request(PRODUCTS, &error))?;
        let call = self.pricing().get_products().service_code(SERVICE).set_filters(Some(filters)).max_results(PAGE);
        let found = call.into_paginator().items().send().try_collect().await;
        found.map_err(|error| CallError::read(PRODUCTS, &error))
    }

    /// Current spot prices of the region.
    pub(super) async fn read_spot_prices(&self) -> Result<PricesRead<SpotPrices>, CallError> {
        let history = self.current_spot_prices().await.map_err(|error| CallError::read(SPOT_PRICES, &error))?;
        let mut left_out = Vec::new();
        let prices = offerings::spot_prices(&history, &mut left_out);
        if prices.is_empty() {
            let message = format!("{} spot prices, none of which can be read", history.len());
            return Err(CallError::new(SPOT_PRICES, CallErrorClass::Unclear, "NoPrices", message));
        }
        Ok(PricesRead { prices, left_out })
    }
}
