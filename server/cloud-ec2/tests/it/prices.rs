//! Prices that are refreshed, through the SDK.

use std::sync::atomic::{AtomicI64, Ordering};

use cloud::catalogue::{RegionOptions, Snapshot, build};
use cloud_ec2::discovery::PriceRefresher;
use cloud_ec2::{Discovered, Ec2Cloud, Supplement};
use model::node_class::NodeClassSettings;
use model::{CapacityType, MicroUsd, Millis, Timestamp};
use serde_json::{Value, json};

use super::NOW;
use super::embedded_region::{embedded_region, spot_row};
use super::fake_ec2::catalogue::Catalogue;
use super::fake_ec2::selectors::{Account, FakeAccount};
use super::node_class::cloud_by;

const REGION: &str = "eu-west-1";
const HOUR_MS: i64 = 3_600_000;

fn builtin() -> &'static Snapshot {
    Snapshot::builtin().unwrap()
}

fn product(name: &str, usd: &str) -> Value {
    let term = json!({"T.1.D": {"unit": "Hrs", "pricePerUnit": {"USD": usd}}});
    json!({"product": {"attributes": {"instanceType": name}}, "terms": {"OnDemand": {"T.1": {"priceDimensions": term}}}})
}

/// `m5.large`, `c5.large` and `c5.metal`; the first and the last have a price of their own.
fn account() -> Account {
    let mut catalogue: Catalogue = embedded_region(REGION);
    let names = ["m5.large", "c5.large", "c5.metal"];
    catalogue.types.retain(|row| names.contains(&row["name"].as_str()));
    catalogue.offerings.retain(|(name, _)| names.contains(&name.as_str()));
    catalogue.spot = vec![spot_row("m5.large", "eu-west-1a", "0.03")];
    let products = vec![
        ("Shared", product("m5.large", "0.2000000000")),
        ("Shared", product("x9.large", "0.3000000000")),
        ("Shared", product("x9.xlarge", "0.6000000000")),
        ("Dedicated", product("c5.metal", "9.0000000000")),
    ];
    Account { catalogue, products, page: Some(2), ..Account::default() }
}

async fn discover(cloud: &Ec2Cloud) -> Discovered {
    cloud.discover(Supplement { prices: builtin(), hardware: builtin() }).await.unwrap()
}

/// The price in zone a.
fn price(discovered: &Discovered, name: &str, capacity_type: CapacityType) -> Option<MicroUsd> {
    let types = build(&discovered.snapshot, &RegionOptions::new(REGION), &NodeClassSettings::default()).catalogue.types;
    let found = types.iter().find(|found| found.name == name).unwrap();
    let wanted = found.offerings.iter().find(|o| o.zone == "eu-west-1a" && o.capacity_type == capacity_type);
    wanted.filter(|offering| offering.available).map(|offering| offering.price)
}

fn date(discovered: &Discovered) -> Option<&str> {
    discovered.snapshot.regions().iter().find(|region| &*region.name == REGION).unwrap().price_date.as_deref()
}

#[tokio::test]
async fn a_catalogue_has_the_prices_of_the_region_and_their_date() {
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, || NOW);
    let discovered = discover(&cloud).await;
    assert_eq!(price(&discovered, "m5.large", CapacityType::OnDemand), Some(MicroUsd(107_000)));
    let mut prices = PriceRefresher::new(REGION);
    assert!(prices.refresh(&cloud).await);
    let priced = prices.apply(&discovered, builtin());
    assert_eq!(price(&priced, "m5.large", CapacityType::OnDemand), Some(MicroUsd(200_000)));
    assert_eq!(price(&priced, "c5.metal", CapacityType::OnDemand), Some(MicroUsd(9_000_000)));
    // The Pricing API lacks it here, and the embedded data has it.
    assert_eq!(price(&priced, "c5.large", CapacityType::OnDemand), Some(MicroUsd(96_000)));
    assert_eq!((date(&discovered), date(&priced)), (Some("2026-05-12"), Some("2026-01-02")));
    // Three products of shared hosts are two pages, and there is one of bare metal.
    assert_eq!(fake.count("GetProducts"), 3);
    let asked = fake.last("GetProducts");
    assert_eq!((asked["ServiceCode"].as_str(), asked["MaxResults"].as_str()), ("\"AmazonEC2\"", "100"));
    // Nothing is due at the same time again.
    assert!(!prices.refresh(&cloud).await);
}

#[tokio::test]
async fn the_catalogue_file_has_the_prices_and_their_date() {
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, || NOW);
    let mut prices = PriceRefresher::new(REGION);
    prices.refresh(&cloud).await;
    let priced = prices.apply(&discover(&cloud).await, builtin());
    let file = serde_json::to_vec(&priced.snapshot.export()).unwrap();
    let read = Snapshot::parse(&file).unwrap();
    assert_eq!(read.region(REGION).unwrap().price_date.as_deref(), Some("2026-01-02"));
    let types = build(&read, &RegionOptions::new(REGION), &NodeClassSettings::default()).catalogue.types;
    let offerings = &types.iter().find(|found| found.name == "m5.large").unwrap().offerings;
    let of = |kind| offerings.iter().find(|o| o.zone == "eu-west-1a" && o.capacity_type == kind).map(|o| o.price);
    let kinds = [CapacityType::OnDemand, CapacityType::Spot];
    assert_eq!(kinds.map(of), [Some(MicroUsd(200_000)), Some(MicroUsd(30_000))]);
}

#[tokio::test]
async fn spot_prices_are_read_every_few_minutes_and_on_demand_prices_twice_a_day() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, || NOW + Millis::new(NOW_MS.load(Ordering::SeqCst)));
    let discovered = discover(&cloud).await;
    let mut prices = PriceRefresher::new(REGION);
    prices.refresh(&cloud).await;
    fake.account().catalogue.spot = vec![spot_row("m5.large", "eu-west-1a", "0.05")];
    let due = prices.due();
    assert!((NOW + Millis::new(270_000)..=NOW + Millis::new(300_000)).contains(&due), "{due:?}");
    let before = fake.count("GetProducts");
    NOW_MS.store((due - NOW).get(), Ordering::SeqCst);
    assert!(prices.refresh(&cloud).await);
    let priced = prices.apply(&discovered, builtin());
    assert_eq!(price(&priced, "m5.large", CapacityType::Spot), Some(MicroUsd(50_000)));
    assert_eq!(fake.count("GetProducts"), before);
    NOW_MS.store(12 * HOUR_MS, Ordering::SeqCst);
    prices.refresh(&cloud).await;
    assert_eq!(fake.count("GetProducts"), 2 * before);
}

#[tokio::test]
async fn a_failed_read_keeps_the_last_prices() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, || NOW + Millis::new(NOW_MS.load(Ordering::SeqCst)));
    let discovered = discover(&cloud).await;
    let mut prices = PriceRefresher::new(REGION);
    prices.refresh(&cloud).await;
    fake.fail("GetProducts", 400, "ThrottlingException");
    fake.fail("DescribeSpotPriceHistory", 503, "RequestLimitExceeded");
    NOW_MS.store(24 * HOUR_MS, Ordering::SeqCst);
    assert!(!prices.refresh(&cloud).await);
    let priced = prices.apply(&discovered, builtin());
    assert_eq!(price(&priced, "m5.large", CapacityType::OnDemand), Some(MicroUsd(200_000)));
    assert_eq!((date(&priced), prices.problems().len()), (Some("2026-01-02"), 2));
    fake.heal("GetProducts");
    fake.heal("DescribeSpotPriceHistory");
    NOW_MS.store(24 * HOUR_MS + 5_000, Ordering::SeqCst);
    assert!(prices.refresh(&cloud).await);
    assert_eq!(date(&prices.apply(&discovered, builtin())), Some("2026-01-03"));
}

#[tokio::test]
async fn a_missing_right_for_prices_stops_nothing_else() {
    let fake = FakeAccount::start(account()).await;
    fake.fail("GetProducts", 400, "AccessDeniedException");
    let cloud = cloud_by(&fake, || NOW);
    let discovered = discover(&cloud).await;
    let mut prices = PriceRefresher::new(REGION);
    assert!(prices.refresh(&cloud).await);
    let sentence = "the server's credentials lack the right pricing:GetProducts: allow it in the policy of their role";
    assert_eq!(prices.problems(), [sentence]);
    let priced = prices.apply(&discovered, builtin());
    assert_eq!(price(&priced, "m5.large", CapacityType::OnDemand), Some(MicroUsd(107_000)));
    assert_eq!(price(&priced, "m5.large", CapacityType::Spot), Some(MicroUsd(30_000)));
    assert_eq!(date(&priced), Some("2026-05-12"));
}

#[tokio::test]
async fn an_answer_without_bare_metal_replaces_nothing() {
    let mut incomplete = account();
    incomplete.products.retain(|(tenancy, _)| *tenancy == "Shared");
    let fake = FakeAccount::start(incomplete).await;
    let cloud = cloud_by(&fake, || NOW);
    let mut prices = PriceRefresher::new(REGION);
    prices.refresh(&cloud).await;
    assert!(prices.problems()[0].contains("0 products of eu-west-1, none with a price"), "{:?}", prices.problems());
}

#[test]
fn a_new_refresher_has_everything_due() {
    assert_eq!(PriceRefresher::new(REGION).due(), Timestamp::default());
}
