use aws_sdk_ec2::primitives::DateTime;

use super::*;

fn entry(zone: &str, usd: &str, second: i64) -> SpotPrice {
    let entry = SpotPrice::builder().instance_type("m5.large".into()).availability_zone(zone).spot_price(usd);
    entry.timestamp(DateTime::from_secs(second)).build()
}

fn price_in(prices: &SpotPrices, zone: &str) -> Option<i64> {
    prices.get("m5.large")?.get(zone).map(|price| price.0)
}

#[test]
fn the_newest_price_counts_in_any_order_and_the_highest_of_one_moment() {
    let history = [entry("a", "0.05", 1), entry("a", "0.03", 2), entry("b", "0.02", 3), entry("b", "0.04", 3)];
    let mut backwards = history.clone();
    backwards.reverse();
    for history in [history, backwards] {
        let mut left_out = Vec::new();
        let prices = spot_prices(&history, &mut left_out);
        assert_eq!((price_in(&prices, "a"), price_in(&prices, "b")), (Some(30_000), Some(40_000)));
        assert_eq!(left_out, []);
    }
}

#[test]
fn unusable_prices_are_left_out_by_name() {
    let incomplete = SpotPrice::builder().spot_price("0.1").availability_zone("c").build();
    let mut left_out = Vec::new();
    let prices = spot_prices(&[entry("a", "0.000000", 1), entry("b", "-1", 1), incomplete], &mut left_out);
    assert!(prices.is_empty());
    let left_out: Vec<_> = left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "the spot price of m5.large in a is left out: SpotPrice has an unusable value",
            "the spot price of m5.large in b is left out: SpotPrice has an unusable value",
            "the spot price of an unnamed type in c is left out: InstanceType is missing",
        ]
    );
}

#[test]
fn a_zone_without_an_id_and_an_offering_without_a_zone_are_left_out_by_name() {
    let mut left_out = Vec::new();
    let zones = [
        AvailabilityZone::builder().zone_name("a").zone_id("az1").build(),
        AvailabilityZone::builder().zone_name("b").build(),
    ];
    assert_eq!(zone_ids(&zones, &mut left_out), BTreeMap::from([(Zone::from("a"), Text::from("az1"))]));
    let offering = InstanceTypeOffering::builder().instance_type("m5.large".into());
    let offered = offered_zones(&[offering.clone().location("a").build(), offering.build()], &mut left_out);
    assert_eq!(offered["m5.large"], BTreeSet::from([Zone::from("a")]));
    let items: Vec<_> = left_out.iter().map(|left_out| left_out.item.as_ref()).collect();
    assert_eq!(items, ["the id of zone b", "an offering of m5.large"]);
}
