//! A catalogue that is refreshed, through the SDK.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cloud::catalogue::refreshed::RefreshKind;
use cloud::catalogue::{RegionOptions, Snapshot, build};
use cloud_ec2::Ec2Cloud;
use cloud_ec2::discovery::{CatalogueRefresher, Intervals, Refresh};
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

/// The defaults of a server.
pub(crate) const INTERVALS: Intervals = Intervals {
    instance_types: Some(Duration::from_hours(24)),
    on_demand_prices: Some(Duration::from_hours(12)),
    spot_prices: Some(Duration::from_mins(5)),
};

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

/// A refresher of an account, and the cloud that it reads.
struct Refreshing {
    fake: FakeAccount,
    cloud: Ec2Cloud,
    refresher: CatalogueRefresher,
}

impl Refreshing {
    async fn start(account: Account, intervals: &Intervals, clock: fn() -> Timestamp) -> Self {
        let fake = FakeAccount::start(account).await;
        let cloud = cloud_by(&fake, clock);
        let refresher = CatalogueRefresher::new(REGION, "server", builtin().clone(), intervals);
        Self { fake, cloud, refresher }
    }

    async fn refresh(&mut self) -> Vec<Refresh> {
        self.refresher.refresh(&self.cloud, builtin()).await
    }

    /// The kinds that were read, and which of them changed something.
    async fn changes(&mut self) -> Vec<(RefreshKind, bool)> {
        self.refresh().await.into_iter().map(|refresh| (refresh.kind, refresh.result.unwrap().changed)).collect()
    }

    fn price(&self, name: &str, capacity_type: CapacityType) -> Option<MicroUsd> {
        let snapshot = self.refresher.snapshot();
        let types = build(&snapshot, &RegionOptions::new(REGION), &NodeClassSettings::default()).catalogue.types;
        let found = types.iter().find(|found| found.name == name)?;
        let wanted = found.offerings.iter().find(|o| o.zone == "eu-west-1a" && o.capacity_type == capacity_type);
        wanted.filter(|offering| offering.available).map(|offering| offering.price)
    }

    fn date(&self) -> String {
        let date = self.refresher.snapshot().region(REGION).and_then(|region| region.price_date.clone());
        date.unwrap().to_string()
    }

    fn types(&self) -> usize {
        self.refresher.snapshot().type_names().count()
    }
}

fn failures(done: &[Refresh]) -> Vec<(RefreshKind, &str)> {
    done.iter().filter_map(|refresh| Some((refresh.kind, refresh.result.as_ref().err()?.as_str()))).collect()
}

#[tokio::test]
async fn a_catalogue_has_the_types_and_prices_of_the_region_and_their_date() {
    let mut refreshing = Refreshing::start(account(), &INTERVALS, || NOW).await;
    assert_eq!(refreshing.date(), "2026-05-12");
    assert_eq!(refreshing.refresher.due(), Some(Timestamp::default()));
    assert_eq!(refreshing.changes().await, RefreshKind::ALL.map(|kind| (kind, true)));
    assert_eq!(refreshing.types(), 3);
    assert_eq!(refreshing.price("m5.large", CapacityType::OnDemand), Some(MicroUsd(200_000)));
    assert_eq!(refreshing.price("m5.large", CapacityType::Spot), Some(MicroUsd(30_000)));
    assert_eq!(refreshing.price("c5.metal", CapacityType::OnDemand), Some(MicroUsd(9_000_000)));
    // The Pricing API lacks it here, and the embedded data has it.
    assert_eq!(refreshing.price("c5.large", CapacityType::OnDemand), Some(MicroUsd(96_000)));
    assert_eq!(refreshing.date(), "2026-01-02T03:04:05Z, spot prices of 2026-01-02T03:04:05Z");
    // Three products of shared hosts are two pages, and there is one of bare metal.
    assert_eq!(refreshing.fake.count("GetProducts"), 3);
    let asked = refreshing.fake.last("GetProducts");
    assert_eq!((asked["ServiceCode"].as_str(), asked["MaxResults"].as_str()), ("\"AmazonEC2\"", "100"));
    // Nothing is due at the same time again.
    assert_eq!(refreshing.refresh().await, []);
}

#[tokio::test]
async fn each_kind_is_read_at_its_interval() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let clock = || NOW + Millis::new(NOW_MS.load(Ordering::SeqCst));
    let mut refreshing = Refreshing::start(account(), &INTERVALS, clock).await;
    refreshing.refresh().await;
    refreshing.fake.account().catalogue.spot = vec![spot_row("m5.large", "eu-west-1a", "0.05")];
    // Up to a tenth earlier.
    let due = refreshing.refresher.due().unwrap();
    assert!((NOW + Millis::new(270_000)..=NOW + Millis::new(300_000)).contains(&due), "{due:?}");
    NOW_MS.store((due - NOW).get() - 1, Ordering::SeqCst);
    assert_eq!(refreshing.refresh().await, []);
    NOW_MS.store((due - NOW).get(), Ordering::SeqCst);
    assert_eq!(refreshing.changes().await, [(RefreshKind::SpotPrices, true)]);
    assert_eq!(refreshing.price("m5.large", CapacityType::Spot), Some(MicroUsd(50_000)));
    NOW_MS.store(12 * HOUR_MS, Ordering::SeqCst);
    // The answers are the same.
    let prices = [(RefreshKind::OnDemandPrices, false), (RefreshKind::SpotPrices, false)];
    assert_eq!(refreshing.changes().await, prices);
    NOW_MS.store(24 * HOUR_MS, Ordering::SeqCst);
    assert_eq!(refreshing.changes().await, RefreshKind::ALL.map(|kind| (kind, false)));
}

#[tokio::test]
async fn what_has_no_interval_is_never_read() {
    let off = Intervals { instance_types: None, on_demand_prices: None, spot_prices: None };
    let spot_only = Intervals { spot_prices: INTERVALS.spot_prices, ..off };
    let mut refreshing = Refreshing::start(account(), &spot_only, || NOW).await;
    assert_eq!(refreshing.changes().await, [(RefreshKind::SpotPrices, true)]);
    assert_eq!(refreshing.price("m5.large", CapacityType::OnDemand), Some(MicroUsd(107_000)));
    assert_eq!(refreshing.date(), "2026-05-12, spot prices of 2026-01-02T03:04:05Z");
    assert_eq!((refreshing.fake.count("GetProducts"), refreshing.fake.count("DescribeInstanceTypes")), (0, 0));
    let mut nothing = CatalogueRefresher::new(REGION, "server", builtin().clone(), &off);
    assert_eq!((nothing.due(), nothing.refresh(&refreshing.cloud, builtin()).await), (None, Vec::new()));
}

#[tokio::test]
async fn a_failed_read_keeps_the_last_values() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let clock = || NOW + Millis::new(NOW_MS.load(Ordering::SeqCst));
    let mut refreshing = Refreshing::start(account(), &INTERVALS, clock).await;
    refreshing.refresh().await;
    let (before, date) = (refreshing.refresher.snapshot(), refreshing.date());
    refreshing.fake.fail("GetProducts", 400, "ThrottlingException");
    refreshing.fake.fail("DescribeSpotPriceHistory", 503, "RequestLimitExceeded");
    refreshing.fake.fail("DescribeInstanceTypeOfferings", 403, "UnauthorizedOperation");
    NOW_MS.store(24 * HOUR_MS, Ordering::SeqCst);
    let done = refreshing.refresh().await;
    assert_eq!(
        failures(&done),
        [
            (
                RefreshKind::InstanceTypes,
                "the server's credentials lack the right ec2:DescribeInstanceTypeOfferings: allow it in the policy of \
                 their role"
            ),
            (
                RefreshKind::OnDemandPrices,
                "AWS throttles pricing:GetProducts (ThrottlingException); the server repeats it later"
            ),
            (
                RefreshKind::SpotPrices,
                "AWS throttles ec2:DescribeSpotPriceHistory (RequestLimitExceeded); the server repeats it later"
            ),
        ]
    );
    assert_eq!((refreshing.refresher.snapshot(), refreshing.date()), (before, date));
    for action in ["GetProducts", "DescribeSpotPriceHistory", "DescribeInstanceTypeOfferings"] {
        refreshing.fake.heal(action);
    }
    // A denied call is repeated later than a throttled one.
    NOW_MS.store(24 * HOUR_MS + 5_000, Ordering::SeqCst);
    let prices = [(RefreshKind::OnDemandPrices, false), (RefreshKind::SpotPrices, false)];
    assert_eq!(refreshing.changes().await, prices);
}

#[tokio::test]
async fn a_missing_right_for_prices_stops_nothing_else() {
    let fake = account();
    let mut refreshing = Refreshing::start(fake, &INTERVALS, || NOW).await;
    refreshing.fake.fail("GetProducts", 400, "AccessDeniedException");
    let done = refreshing.refresh().await;
    let sentence = "the server's credentials lack the right pricing:GetProducts: allow it in the policy of their role";
    assert_eq!(failures(&done), [(RefreshKind::OnDemandPrices, sentence)]);
    assert_eq!(refreshing.price("m5.large", CapacityType::OnDemand), Some(MicroUsd(107_000)));
    assert_eq!(refreshing.price("m5.large", CapacityType::Spot), Some(MicroUsd(30_000)));
    assert_eq!(refreshing.date(), "2026-05-12, spot prices of 2026-01-02T03:04:05Z");
}

#[tokio::test]
async fn spot_is_estimated_until_its_prices_were_read() {
    let mut refreshing = Refreshing::start(account(), &INTERVALS, || NOW).await;
    refreshing.fake.fail("DescribeSpotPriceHistory", 503, "RequestLimitExceeded");
    refreshing.refresh().await;
    assert_eq!(refreshing.types(), 3);
    // 0.425 of the on-demand price, which is 0.2 dollars.
    assert_eq!(refreshing.price("m5.large", CapacityType::Spot), Some(MicroUsd(85_000)));
}

#[tokio::test]
async fn an_answer_without_bare_metal_replaces_nothing() {
    let mut incomplete = account();
    incomplete.products.retain(|(tenancy, _)| *tenancy == "Shared");
    let mut refreshing = Refreshing::start(incomplete, &INTERVALS, || NOW).await;
    let done = refreshing.refresh().await;
    let failed = failures(&done);
    assert!(failed[0].1.contains("0 products of eu-west-1, none with a price"), "{failed:?}");
}

#[tokio::test]
async fn refused_prices_are_named_and_the_others_used() {
    let mut absurd = account();
    absurd.products[0].1 = product("m5.large", "10.7000000000");
    absurd.products[1].1 = product("c5.large", "0.0000000000");
    absurd.catalogue.spot.push(spot_row("c5.large", "eu-west-1a", "0.000000"));
    let mut refreshing = Refreshing::start(absurd, &INTERVALS, || NOW).await;
    let refused: Vec<String> =
        refreshing.refresh().await.into_iter().flat_map(|refresh| refresh.result.unwrap().refused).collect();
    assert_eq!(
        refused,
        [
            "the price of m5.large is 10.70, and 0.107 was known",
            "the price of c5.large is left out: pricePerUnit has an unusable value",
            "the spot price of c5.large in eu-west-1a is left out: SpotPrice has an unusable value",
        ]
    );
    assert_eq!(refreshing.price("m5.large", CapacityType::OnDemand), Some(MicroUsd(107_000)));
    assert_eq!(refreshing.price("c5.large", CapacityType::OnDemand), Some(MicroUsd(96_000)));
    assert_eq!(refreshing.price("c5.metal", CapacityType::OnDemand), Some(MicroUsd(9_000_000)));
}

#[tokio::test]
async fn the_catalogue_file_has_the_prices_and_their_date() {
    let mut refreshing = Refreshing::start(account(), &INTERVALS, || NOW).await;
    refreshing.refresh().await;
    let file = serde_json::to_vec(&refreshing.refresher.snapshot().export()).unwrap();
    let read = Snapshot::parse(&file).unwrap();
    assert_eq!(read.region(REGION).unwrap().price_date.as_deref(), Some(refreshing.date().as_str()));
    let types = build(&read, &RegionOptions::new(REGION), &NodeClassSettings::default()).catalogue.types;
    let offerings = &types.iter().find(|found| found.name == "m5.large").unwrap().offerings;
    let of = |kind| offerings.iter().find(|o| o.zone == "eu-west-1a" && o.capacity_type == kind).map(|o| o.price);
    let kinds = [CapacityType::OnDemand, CapacityType::Spot];
    assert_eq!(kinds.map(of), [Some(MicroUsd(200_000)), Some(MicroUsd(30_000))]);
}
