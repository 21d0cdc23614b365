//! Discovery of instance types, against an endpoint that serves the embedded catalogue.

use cloud::catalogue::{RegionOptions, Snapshot, build};
use cloud::provider::CloudError;
use cloud_ec2::discovery::Reason;
use cloud_ec2::{Discovered, Supplement};
use std::sync::Arc;

use model::node_class::NodeClassSettings;
use model::{CapacityType, InstanceType, MicroUsd, Offering, Zone};

use super::embedded_region::{EARLIER, embedded_region, spot_row};
use super::fake_ec2::catalogue::{Catalogue, SpotRow};
use super::fake_ec2::{FakeEc2, Form};
use super::{NOW, adapter_by, settings};

const REGION: &str = "eu-west-1";
const ZONE_ID: &str = "topology.k8s.aws/zone-id";

fn builtin() -> &'static Snapshot {
    Snapshot::builtin().unwrap()
}

async fn read(region: &str, catalogue: Catalogue) -> (FakeEc2, Result<Discovered, CloudError>) {
    let ec2 = FakeEc2::start().await;
    ec2.serve(catalogue);
    let mut settings = settings(ec2.endpoint());
    settings.region = region.to_owned();
    let supplement = Supplement { prices: builtin(), hardware: builtin() };
    let result = adapter_by(settings, || NOW).discover(supplement).await;
    (ec2, result)
}

async fn discovered(catalogue: Catalogue) -> Discovered {
    read(REGION, catalogue).await.1.unwrap()
}

fn types_of(snapshot: &Snapshot, region: &str) -> Vec<InstanceType> {
    build(snapshot, &RegionOptions::new(region), &NodeClassSettings::default()).catalogue.types
}

fn find<'t>(types: &'t [InstanceType], name: &str) -> &'t InstanceType {
    types.iter().find(|found| found.name.as_ref() == name).unwrap()
}

/// The region with these types only.
fn only(names: &[&str]) -> Catalogue {
    let mut catalogue = embedded_region(REGION);
    catalogue.types.retain(|row| names.contains(&row["name"].as_str()));
    catalogue.offerings.retain(|(name, _)| names.contains(&name.as_str()));
    catalogue.spot.retain(|row| names.contains(&row.instance_type.as_str()));
    catalogue
}

fn spot_price(found: &InstanceType, zone: &str) -> Option<MicroUsd> {
    let wanted = |o: &&Offering| o.zone.as_ref() == zone && o.capacity_type == CapacityType::Spot;
    found.offerings.iter().find(wanted).map(|offering| offering.price)
}

/// Everything of a type but its spot offerings and zone ids, which the embedded data lacks.
fn without_spot(found: &InstanceType) -> InstanceType {
    let mut found = found.clone();
    found.offerings.retain(|offering| offering.capacity_type != CapacityType::Spot);
    found.offerings.iter_mut().for_each(|offering| offering.labels = Arc::default());
    found
}

/// The zones with a spot offering at a price that is no estimate.
fn spot_zones(found: &InstanceType) -> Vec<&str> {
    let spot = found.offerings.iter().filter(|o| o.capacity_type == CapacityType::Spot && !o.estimated);
    spot.map(|offering| offering.zone.as_ref()).collect()
}

/// Reads `region` back and compares each type; returns their number.
async fn compare_region(region: &str) -> usize {
    let served = embedded_region(region);
    let found = read(region, served.clone()).await.1.unwrap();
    assert_eq!(found.left_out, [], "{region}");
    let (embedded, read) = (types_of(builtin(), region), types_of(&found.snapshot, region));
    let names = |types: &[InstanceType]| types.iter().map(|found| found.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&embedded), "{region}");
    for (embedded, read) in embedded.iter().zip(&read) {
        assert_eq!(without_spot(read), without_spot(embedded), "{region}");
        let priced = served.spot.iter().filter(|row| read.name == row.instance_type.as_str());
        assert_eq!(spot_zones(read), priced.map(|row| row.zone.as_str()).collect::<Vec<_>>(), "{}", read.name);
    }
    read.len()
}

#[tokio::test]
async fn every_type_of_every_region_reads_back_with_the_embedded_figures() {
    let mut compared = std::collections::BTreeMap::new();
    for region in builtin().regions().iter().filter(|region| !region.zones.is_empty()) {
        compared.insert(region.name.as_ref(), compare_region(&region.name).await);
    }
    // Lines with zones in the sections of `ec2-regions.csv`.
    assert_eq!((compared["us-east-1"], compared["eu-west-1"], compared.len()), (1366, 1181, 34));
    assert_eq!(compared.values().sum::<usize>(), 22_259);
}

#[tokio::test]
async fn spot_prices_are_those_of_the_newest_linux_price_in_each_zone() {
    let mut catalogue = only(&["m5.large", "c5.large"]);
    let price = |zone: &str, product, usd, since| SpotRow { product, since, ..spot_row("m5.large", zone, usd) };
    catalogue.spot = vec![
        price("eu-west-1a", "Linux/UNIX", "0.030000", EARLIER),
        price("eu-west-1a", "Linux/UNIX", "0.034500", "2026-01-02T03:00:00Z"),
        price("eu-west-1a", "Windows", "0.120000", "2026-01-02T03:01:00Z"),
        price("eu-west-1b", "Linux/UNIX (Amazon VPC)", "0.041", EARLIER),
        spot_row("c5.large", "eu-west-1c", "0.0222"),
    ];
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    let prices = |name| ["a", "b", "c"].map(|letter| spot_price(find(&types, name), &format!("{REGION}{letter}")));
    // A zone without a price has no spot offering.
    assert_eq!(prices("m5.large"), [Some(MicroUsd(34_500)), Some(MicroUsd(41_000)), None]);
    assert_eq!(prices("c5.large"), [None, None, Some(MicroUsd(22_200))]);
}

#[tokio::test]
async fn offerings_have_the_account_s_zone_ids() {
    let mut catalogue = only(&["m5.large"]);
    catalogue.zones =
        [("eu-west-1a", "euw1-az3"), ("eu-west-1b", "euw1-az1")].map(|(n, i)| (n.into(), i.into())).into();
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    let offerings = &find(&types, "m5.large").offerings;
    let id = |zone: &str| offerings.iter().find(|o| o.zone.as_ref() == zone).unwrap().labels.get(ZONE_ID).cloned();
    assert_eq!(id("eu-west-1a").as_deref(), Some("euw1-az3"));
    assert_eq!(id("eu-west-1b").as_deref(), Some("euw1-az1"));
    assert_eq!(id("eu-west-1c"), None);
}

#[tokio::test]
async fn a_failed_page_of_any_call_fails_the_read() {
    // eu-west-1 has 12 pages of types, 4 or more of offerings, and 2 of spot prices.
    for place in [
        ("DescribeInstanceTypes", 0),
        ("DescribeInstanceTypes", 7),
        ("DescribeInstanceTypeOfferings", 1),
        ("DescribeAvailabilityZones", 0),
        ("DescribeSpotPriceHistory", 1),
    ] {
        let catalogue = Catalogue { throttled: Some(place), ..embedded_region(REGION) };
        let (_, result) = read(REGION, catalogue).await;
        assert_eq!(result, Err(CloudError::RequestLimitExceeded { retry_after_ms: 1_000 }), "{place:?}");
    }
}

#[tokio::test]
async fn answers_without_types_or_offerings_are_an_error() {
    let whole = || only(&["m5.large"]);
    for empty in [Catalogue { types: Vec::new(), ..whole() }, Catalogue { offerings: Vec::new(), ..whole() }] {
        let error = read(REGION, empty).await.1.unwrap_err();
        assert!(error.to_string().contains("DescribeInstanceTypes (no usable instance type in "), "{error}");
    }
}

#[tokio::test]
async fn a_type_that_is_described_incompletely_is_left_out_by_name() {
    let mut catalogue = only(&["m5.large", "c5.large", "r5.large"]);
    for row in &mut catalogue.types {
        match row["name"].as_str() {
            "c5.large" => drop(row.remove("memoryMib")),
            "r5.large" => drop(row.insert("cardEnis".to_owned(), "9".to_owned())), // of 3 in all
            _ => {}
        }
    }
    catalogue.spot[0].usd = "free".to_owned();
    let found = discovered(catalogue).await;
    let names: Vec<_> = found.snapshot.type_names().map(AsRef::as_ref).collect();
    assert_eq!(names, ["m5.large"]);
    let left_out: Vec<_> = found.left_out.iter().map(ToString::to_string).collect();
    let interfaces = "NetworkInfo.MaximumNetworkInterfaces contradicts NetworkInfo.NetworkCards";
    assert_eq!(
        left_out,
        [
            "c5.large is left out: MemoryInfo.SizeInMiB is missing".to_owned(),
            format!("r5.large is left out: {interfaces}"),
            "the spot price of c5.large in eu-west-1a is left out: SpotPrice has an unusable value".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_type_described_twice_is_left_out() {
    let mut catalogue = only(&["m5.large", "c5.large"]);
    let mut again = catalogue.types[0].clone();
    again.insert("vcpu".to_owned(), "64".to_owned());
    catalogue.types.push(again);
    let found = discovered(catalogue).await;
    assert_eq!(found.snapshot.type_names().map(AsRef::as_ref).collect::<Vec<_>>(), ["m5.large"]);
    assert_eq!(
        found.left_out.iter().map(|l| (l.item.as_ref(), l.reason)).collect::<Vec<_>>(),
        [("c5.large", Reason::Duplicate)]
    );
}

#[tokio::test]
async fn a_type_that_the_embedded_data_lacks_has_the_api_s_bandwidth_and_no_branch_interfaces() {
    let mut catalogue = only(&["m5.large", "c6in.32xlarge"]);
    for row in &mut catalogue.types {
        let name = row["name"].replace("m5", "m99").replace("c6in", "c99in");
        row.insert("name".to_owned(), name);
    }
    catalogue.offerings = ["m99.large", "c99in.32xlarge"].map(|name| (name.to_owned(), "eu-west-1a".to_owned())).into();
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    let small = find(&types, "m99.large");
    assert_eq!(small.capacity.get("vpc.amazonaws.com/pod-eni"), 0);
    assert_eq!(label(small, "karpenter.k8s.aws/instance-network-bandwidth"), "In [750]");
    // Two cards of 100 Gbit/s.
    assert_eq!(label(find(&types, "c99in.32xlarge"), "karpenter.k8s.aws/instance-network-bandwidth"), "In [200000]");
    // No snapshot has a price: it cannot be bought on demand.
    assert!(small.offerings.iter().all(|offering| !offering.available));
}

/// The embedded data has no type with AMD's GPUs.
#[tokio::test]
async fn a_type_with_amd_gpus_has_the_documented_figures() {
    let row = "name=g4ad.16xlarge arch=amd64 cpu=AMD mhz=3000 hypervisor=nitro vcpu=64 memoryMib=262144 \
               gpu=AMD:V520:4:8192 efa=0 nvmeGb=2400 cardEnis=8 enis=8 cards=1 ipv4=30 spot=y";
    let row = row.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let mut catalogue = only(&[]);
    catalogue.types.push(row.map(|(column, value)| (column.to_owned(), value.to_owned())).collect());
    catalogue.offerings.push(("g4ad.16xlarge".to_owned(), "eu-west-1a".to_owned()));
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    let found = find(&types, "g4ad.16xlarge");
    // 8 interfaces of 29 pod addresses, and 2 pods on the host network.
    assert_eq!(found.capacity.get("pods"), 234);
    assert_eq!(found.capacity.get("amd.com/gpu"), 4);
    // 60 + 10 + 10 + 150 millicores are reserved.
    assert_eq!(found.allocatable.get("cpu"), 63_770);
    // 262,144 - 19,661 (7.5 %, rounded up) - (11 * 234 + 255) - 100 MiB.
    assert_eq!(found.allocatable.get("memory"), 239_554 << 20);
    assert_eq!(found.allocatable.get("ephemeral-storage"), 17 << 30);
}

#[tokio::test]
async fn labels_that_only_the_api_has_are_set() {
    let mut catalogue = only(&["m5.large", "c5.large"]);
    let fields = [("encryption", "false"), ("enclaves", "supported"), ("ebsSupport", "default"), ("ebsMbps", "4750")];
    for (column, value) in fields {
        let row = catalogue.types.iter_mut().find(|row| row["name"] == "m5.large").unwrap();
        row.insert(column.to_owned(), value.to_owned());
    }
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    for (key, value) in [
        ("karpenter.k8s.aws/instance-encryption-in-transit-supported", "In [false]"),
        ("karpenter.k8s.aws/nitro-sandbox", "In [true]"),
        ("karpenter.k8s.aws/instance-ebs-bandwidth", "In [4750]"),
    ] {
        assert_eq!(label(find(&types, "m5.large"), key), value, "{key}");
        assert_eq!(label(find(&types, "c5.large"), key), "DoesNotExist", "{key}");
    }
}

#[tokio::test]
async fn usage_classes_decide_on_capacity_types() {
    let mut catalogue = only(&["m5.large", "c5.large", "r5.large"]);
    for row in &mut catalogue.types {
        let usage = match row["name"].as_str() {
            "m5.large" => "spot",
            "c5.large" => "on-demand",
            _ => "capacity-block",
        };
        row.insert("usage".to_owned(), usage.to_owned());
    }
    let types = types_of(&discovered(catalogue).await.snapshot, REGION);
    let sold = |name| find(&types, name).offerings.iter().map(|o| o.capacity_type).collect::<Vec<_>>();
    assert_eq!(sold("m5.large"), [CapacityType::Spot; 3]);
    assert_eq!(sold("c5.large"), [CapacityType::OnDemand; 3]);
    assert!(types.iter().all(|found| found.name.as_ref() != "r5.large"));
}

#[tokio::test]
async fn calls_have_the_stated_parameters_and_follow_every_page() {
    let (ec2, result) = read(REGION, embedded_region(REGION)).await;
    assert_eq!(result.unwrap().snapshot.zones(REGION), ["a", "b", "c"].map(|l| Zone::from(format!("{REGION}{l}"))));
    let requests = ec2.requests();
    let of = |action: &str| requests.iter().filter(|form| form["Action"] == action).collect::<Vec<&Form>>();
    let types = of("DescribeInstanceTypes");
    assert_eq!(types.len(), embedded_region(REGION).types.len().div_ceil(100));
    assert_eq!(types[0]["MaxResults"], "100");
    assert_eq!(
        (types[0]["Filter.1.Name"].as_str(), types[0]["Filter.1.Value.1"].as_str()),
        ("supported-virtualization-type", "hvm")
    );
    assert_eq!(types[0]["Filter.2.Name"], "processor-info.supported-architecture");
    assert_eq!((types[0]["Filter.2.Value.1"].as_str(), types[0]["Filter.2.Value.2"].as_str()), ("x86_64", "arm64"));
    let offerings = of("DescribeInstanceTypeOfferings");
    assert_eq!(offerings.len(), embedded_region(REGION).offerings.len().div_ceil(1_000));
    assert_eq!(offerings[0]["LocationType"], "availability-zone");
    let spot = of("DescribeSpotPriceHistory");
    assert_eq!(spot.len(), embedded_region(REGION).spot.len().div_ceil(2_000));
    assert_eq!(spot[0]["StartTime"], "2026-01-02T03:04:05Z");
    assert_eq!(
        (spot[0]["ProductDescription.1"].as_str(), spot[0]["ProductDescription.2"].as_str()),
        ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
    );
    assert_eq!(of("DescribeAvailabilityZones").len(), 1);
}

/// The label's requirement without its key.
fn label(found: &InstanceType, key: &str) -> String {
    found.labels.get(key).unwrap().to_string().trim_start_matches(key).trim().to_owned()
}
