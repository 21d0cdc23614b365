//! On-demand prices of a region from the Pricing API (Karpenter AWS: prices).

use cloud::catalogue::{OnDemandPrices, parse_usd};
use model::{InstanceTypeName, MicroUsd, Text};
use serde_json::Value;

use super::left_out::{LeftOut, Reason};

/// Filters of all queries besides the region: Linux without other software, on instances that are not reserved.
const COMMON: [(&str, &str); 5] = [
    ("serviceCode", "AmazonEC2"),
    ("preInstalledSw", "NA"),
    ("operatingSystem", "Linux"),
    ("capacitystatus", "Used"),
    ("marketoption", "OnDemand"),
];

/// Virtual instances on shared hosts, and bare metal, which Amazon sells as dedicated hosts.
const QUERIES: [[(&str, &str); 2]; 2] = [
    [("tenancy", "Shared"), ("productFamily", "Compute Instance")],
    [("tenancy", "Dedicated"), ("productFamily", "Compute Instance (bare metal)")],
];

/// Field and value of each filter of a query; all must match.
pub(super) type ProductFilters = Vec<(&'static str, String)>;

/// The queries for a region; none where the Pricing API has no prices.
pub(super) fn queries(region: &str) -> Vec<ProductFilters> {
    if region.starts_with("us-gov") {
        return Vec::new();
    }
    let query = |own: [(&'static str, &str); 2]| {
        let fixed = COMMON.into_iter().chain(own).map(|(field, value)| (field, value.to_owned()));
        std::iter::once(("regionCode", region.to_owned())).chain(fixed).collect()
    };
    QUERIES.map(query).into()
}

/// Prices of the elements of `PriceList`, each a JSON text. Of several prices of a type the highest counts, so that a
/// plan does not promise too low a price.
pub(super) fn read(
    products: impl IntoIterator<Item = impl AsRef<str>>,
    region: &str,
    left_out: &mut Vec<LeftOut>,
) -> OnDemandPrices {
    let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
    let mut prices = OnDemandPrices::new();
    for product in products {
        match read_product(product.as_ref(), currency) {
            Ok((name, price)) => {
                let known = prices.entry(name).or_insert(price);
                *known = price.max(*known);
            }
            Err(refused) => left_out.push(refused),
        }
    }
    prices
}

fn read_product(product: &str, currency: &str) -> Result<(InstanceTypeName, MicroUsd), LeftOut> {
    let refuse = |name: &str, reason| LeftOut { item: Text::from(format!("the price of {name}")), reason };
    let product: Value =
        serde_json::from_str(product).map_err(|_| refuse("an unnamed type", Reason::Invalid("PriceList")))?;
    let name = product["product"]["attributes"]["instanceType"].as_str();
    let name = name.ok_or_else(|| refuse("an unnamed type", Reason::Missing("instanceType")))?;
    let terms = product["terms"]["OnDemand"].as_object().into_iter().flat_map(|terms| terms.values());
    let dimensions = terms.filter_map(|term| term["priceDimensions"].as_object()).flat_map(|found| found.values());
    let stated: Vec<&str> = dimensions.filter_map(|found| found["pricePerUnit"][currency].as_str()).collect();
    if stated.is_empty() {
        return Err(refuse(name, Reason::Missing("pricePerUnit")));
    }
    let read = |text: &&str| parse_usd(text).ok_or_else(|| refuse(name, Reason::Invalid("pricePerUnit")));
    let prices: Vec<MicroUsd> = stated.iter().map(read).collect::<Result<_, _>>()?;
    // Nothing is free.
    let highest = prices.into_iter().max().filter(|price| price.0 > 0);
    let price = highest.ok_or_else(|| refuse(name, Reason::Invalid("pricePerUnit")))?;
    Ok((InstanceTypeName::from(name), price))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(name: &str, currency: &str, price: &str) -> String {
        format!(
            r#"{{"product":{{"attributes":{{"instanceType":"{name}"}}}},
                 "terms":{{"OnDemand":{{"T.1":{{"priceDimensions":{{"T.1.D":{{"pricePerUnit":{{"{currency}":"{price}"}}}}}}}}}}}}}}"#
        )
    }

    fn prices(products: &[String], region: &str) -> (Vec<(String, i64)>, Vec<String>) {
        let mut left_out = Vec::new();
        let read = read(products, region, &mut left_out);
        let read = read.into_iter().map(|(name, price)| (name.to_string(), price.0)).collect();
        (read, left_out.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn there_is_a_query_for_shared_hosts_and_one_for_bare_metal() {
        let found = queries("eu-west-1");
        let common = "regionCode=eu-west-1 serviceCode=AmazonEC2 preInstalledSw=NA operatingSystem=Linux \
                      capacitystatus=Used marketoption=OnDemand";
        let shown =
            |query: &ProductFilters| query.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [
                format!("{common} tenancy=Shared productFamily=Compute Instance"),
                format!("{common} tenancy=Dedicated productFamily=Compute Instance (bare metal)"),
            ]
        );
        assert!(queries("us-gov-west-1").is_empty());
    }

    #[test]
    fn prices_are_read_exactly_and_zeros_are_left_out() {
        let products = [
            product("m5.large", "USD", "0.1070000000"),
            product("m5.large", "USD", "0.0960000000"),
            product("c5.large", "USD", "0.0000000000"),
            product("t4g.nano", "USD", "0.0046005000"),
        ];
        let expected = [("m5.large".to_owned(), 107_000), ("t4g.nano".to_owned(), 4_601)];
        let left_out = ["the price of c5.large is left out: pricePerUnit has an unusable value".to_owned()];
        assert_eq!(prices(&products, "eu-west-1"), (expected.into(), left_out.into()));
    }

    #[test]
    fn prices_of_china_are_in_its_currency() {
        let products = [product("m5.large", "CNY", "0.7350000000")];
        assert_eq!(prices(&products, "cn-north-1").0, [("m5.large".to_owned(), 735_000)]);
        assert_eq!(prices(&products, "eu-west-1").1, ["the price of m5.large is left out: pricePerUnit is missing"]);
    }

    #[test]
    fn products_that_cannot_be_read_are_named() {
        let products = ["{".to_owned(), "{}".to_owned(), product("m5.large", "USD", "free")];
        assert_eq!(
            prices(&products, "eu-west-1").1,
            [
                "the price of an unnamed type is left out: PriceList has an unusable value",
                "the price of an unnamed type is left out: instanceType is missing",
                "the price of m5.large is left out: pricePerUnit has an unusable value",
            ]
        );
    }
}
