use model::node_class::NodeClassSettings;
use model::{CapacityType, Offering};

use super::super::{RegionOptions, build};
use super::*;

const REGION: &str = "eu-west-1";
const T0: Timestamp = Timestamp::from_millis(1_767_323_045_000);

fn builtin() -> &'static Snapshot {
    Snapshot::builtin().unwrap()
}

fn catalogue() -> RefreshedCatalogue {
    RefreshedCatalogue::new(REGION, builtin().clone())
}

fn types(names: &[&str]) -> DiscoveredRegion {
    let zones = BTreeSet::from(["eu-west-1a".into(), "eu-west-1b".into()]);
    let found = |name: &&str| DiscoveredType {
        name: (*name).into(),
        info: builtin().instance_type_info(name).unwrap().clone(),
        on_demand: true,
        spot: true,
        zones: zones.clone(),
        on_demand_price: None,
        spot_prices: None,
    };
    let zones = zones.iter().map(|zone: &Zone| (zone.clone(), None)).collect();
    DiscoveredRegion { name: REGION.into(), zones, types: names.iter().map(found).collect(), price_date: None }
}

fn on_demand(prices: &[(&str, i64)]) -> OnDemandPrices {
    prices.iter().map(|(name, price)| ((*name).into(), MicroUsd(*price))).collect()
}

fn spot(prices: &[(&str, &str, i64)]) -> SpotPrices {
    let mut all = SpotPrices::new();
    for (name, zone, price) in prices {
        all.entry((*name).into()).or_default().insert((*zone).into(), MicroUsd(*price));
    }
    all
}

/// Price of the offering and whether it is an estimate; `None` without an available one.
fn price(catalogue: &RefreshedCatalogue, name: &str, zone: &str, capacity_type: CapacityType) -> Option<(i64, bool)> {
    let types =
        build(&catalogue.snapshot(), &RegionOptions::new(REGION), &NodeClassSettings::default()).catalogue.types;
    let found = types.into_iter().find(|found| found.name == name)?;
    let wanted = |o: &&Offering| o.available && o.zone == zone && o.capacity_type == capacity_type;
    found.offerings.iter().find(wanted).map(|offering| (offering.price.0, offering.estimated))
}

fn on_demand_of(catalogue: &RefreshedCatalogue, name: &str) -> Option<(i64, bool)> {
    price(catalogue, name, "eu-west-1a", CapacityType::OnDemand)
}

fn spot_of(catalogue: &RefreshedCatalogue, name: &str, zone: &str) -> Option<(i64, bool)> {
    price(catalogue, name, zone, CapacityType::Spot)
}

fn date(catalogue: &RefreshedCatalogue) -> Option<Text> {
    catalogue.snapshot().region(REGION).and_then(|region| region.price_date.clone())
}

#[test]
fn before_the_first_refresh_the_catalogue_is_that_of_the_start() {
    assert_eq!(catalogue().snapshot(), *builtin());
    assert_eq!(date(&catalogue()).as_deref(), Some("2026-05-12"));
}

#[test]
fn each_kind_is_used_without_the_others() {
    // 0.107 dollars in eu-west-1, and spot at 0.425 of it: 0.045475.
    let mut by_types = catalogue();
    assert_eq!(by_types.accept_types(types(&["m5.large"]), &BTreeSet::new()), Ok(changed()));
    assert_eq!(by_types.snapshot().type_names().count(), 1);
    assert_eq!(on_demand_of(&by_types, "m5.large"), Some((107_000, false)));
    assert_eq!(spot_of(&by_types, "m5.large", "eu-west-1b"), Some((45_475, true)));
    assert_eq!(date(&by_types).as_deref(), Some("2026-05-12"));

    let mut by_on_demand = catalogue();
    assert_eq!(by_on_demand.accept_on_demand(on_demand(&[("m5.large", 120_000)]), "2026-11-26"), changed());
    assert_eq!(on_demand_of(&by_on_demand, "m5.large"), Some((120_000, false)));
    assert_eq!(on_demand_of(&by_on_demand, "c5.large"), Some((96_000, false)));
    // 0.12 x 0.425.
    assert_eq!(spot_of(&by_on_demand, "m5.large", "eu-west-1b"), Some((51_000, true)));
    assert_eq!(date(&by_on_demand).as_deref(), Some("2026-11-26"));

    let mut by_spot = catalogue();
    assert_eq!(by_spot.accept_spot(spot(&[("m5.large", "eu-west-1a", 30_000)]), T0, "2026-11-27"), changed());
    assert_eq!(on_demand_of(&by_spot, "m5.large"), Some((107_000, false)));
    assert_eq!(spot_of(&by_spot, "m5.large", "eu-west-1a"), Some((30_000, false)));
    // A pool without a price has no offering once prices are known.
    assert_eq!(spot_of(&by_spot, "m5.large", "eu-west-1b"), None);
    assert_eq!(date(&by_spot).as_deref(), Some("2026-05-12, spot prices of 2026-11-27"));
}

fn changed() -> Accepted {
    Accepted { changed: true, refused: Vec::new() }
}

#[test]
fn equal_answers_change_nothing() {
    let mut catalogue = catalogue();
    for expected in [true, false] {
        let answers = [
            catalogue.accept_types(types(&["m5.large", "c5.large"]), &BTreeSet::new()).unwrap(),
            catalogue.accept_on_demand(on_demand(&[("m5.large", 120_000)]), "2026-11-26"),
            catalogue.accept_spot(spot(&[("m5.large", "eu-west-1a", 30_000)]), T0, "2026-11-26"),
        ];
        assert_eq!(answers.map(|accepted| accepted.changed), [expected; 3]);
    }
}

#[test]
fn what_an_answer_lacks_keeps_its_price() {
    let mut catalogue = catalogue();
    catalogue.accept_on_demand(on_demand(&[("m5.large", 120_000), ("c5.large", 90_000)]), "2026-11-26");
    assert!(!catalogue.accept_on_demand(on_demand(&[("c5.large", 90_000)]), "2026-11-27").changed);
    assert_eq!(on_demand_of(&catalogue, "m5.large"), Some((120_000, false)));
    let both = spot(&[("m5.large", "eu-west-1a", 30_000), ("m5.large", "eu-west-1b", 40_000)]);
    catalogue.accept_spot(both, T0, "2026-11-26");
    let one = || spot(&[("m5.large", "eu-west-1b", 40_000)]);
    assert!(!catalogue.accept_spot(one(), T0 + SPOT_KEPT, "2026-11-27").changed);
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1a"), Some((30_000, false)));
    // After a day without a price the pool is not sold.
    assert!(catalogue.accept_spot(one(), T0 + SPOT_KEPT + Millis::new(1), "2026-11-27").changed);
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1a"), None);
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1b"), Some((40_000, false)));
}

#[test]
fn spot_prices_that_hardly_differ_are_not_used_and_do_not_add_up() {
    let mut catalogue = catalogue();
    let mut accept =
        |price: i64| catalogue.accept_spot(spot(&[("m5.large", "eu-west-1a", price)]), T0, "2026-11-26").changed;
    accept(30_000);
    // Less than 1 % of 0.03 dollars, twice; the second one is 1.3 % above the price in use.
    assert_eq!([accept(30_299), accept(29_701), accept(30_299), accept(30_400)], [false, false, false, true]);
    assert!(accept(30_400 + 304));
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1a"), Some((30_704, false)));
}

#[test]
fn absurd_prices_are_refused_and_the_others_used() {
    let mut catalogue = catalogue();
    // 0.107 and 0.096 dollars are embedded.
    let answer = on_demand(&[("m5.large", 10_700_000), ("c5.large", 90_000), ("c5.xlarge", 0)]);
    let accepted = catalogue.accept_on_demand(answer, "2026-11-26");
    let lines: Vec<String> = accepted.refused.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["the price of c5.xlarge is 0.00", "the price of m5.large is 10.70, and 0.107 was known"]);
    assert_eq!(on_demand_of(&catalogue, "m5.large"), Some((107_000, false)));
    assert_eq!(on_demand_of(&catalogue, "c5.large"), Some((90_000, false)));

    catalogue.accept_spot(spot(&[("m5.large", "eu-west-1a", 30_000), ("c5.large", "eu-west-1a", 30_000)]), T0, "");
    let answer = spot(&[("m5.large", "eu-west-1a", 3_000_000), ("c5.large", "eu-west-1a", 20_000)]);
    let accepted = catalogue.accept_spot(answer, T0, "");
    assert_eq!((accepted.changed, accepted.refused.len()), (true, 1));
    assert_eq!(
        accepted.refused[0].to_string(),
        "the price of m5.large in eu-west-1a as spot is 3.00, and 0.03 was known"
    );
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1a"), Some((30_000, false)));
    assert_eq!(spot_of(&catalogue, "c5.large", "eu-west-1a"), Some((20_000, false)));
}

#[test]
fn a_refused_spot_price_keeps_its_pool_no_longer_than_one_that_is_missing() {
    let mut catalogue = catalogue();
    catalogue.accept_spot(spot(&[("m5.large", "eu-west-1a", 30_000)]), T0, "");
    catalogue.accept_spot(spot(&[("m5.large", "eu-west-1a", 0)]), T0 + SPOT_KEPT + Millis::new(1), "");
    assert_eq!(spot_of(&catalogue, "m5.large", "eu-west-1a"), None);
}

/// Twenty types of the region.
fn twenty() -> Vec<&'static str> {
    let sold = |name: &&str| builtin().on_demand_price(REGION, name).is_some();
    builtin().type_names().map(AsRef::as_ref).filter(sold).take(20).collect()
}

fn used(catalogue: &RefreshedCatalogue) -> Vec<String> {
    catalogue.snapshot().type_names().map(ToString::to_string).collect()
}

#[test]
fn a_type_is_removed_when_two_answers_lack_it() {
    let (mut catalogue, names) = (catalogue(), twenty());
    catalogue.accept_types(types(&names), &BTreeSet::new()).unwrap();
    let without_two = types(&names[2..]);
    assert_eq!(catalogue.accept_types(without_two.clone(), &BTreeSet::new()), Ok(Accepted::default()));
    assert_eq!((used(&catalogue), catalogue.missing_types()), (names.iter().map(ToString::to_string).collect(), 2));
    assert_eq!(catalogue.accept_types(without_two, &BTreeSet::new()), Ok(changed()));
    assert_eq!((used(&catalogue).len(), catalogue.missing_types()), (18, 0));
}

#[test]
fn a_type_that_is_listed_again_begins_anew() {
    let (mut catalogue, names) = (catalogue(), twenty());
    for answer in [&names[..], &names[1..], &names[..], &names[1..]] {
        catalogue.accept_types(types(answer), &BTreeSet::new()).unwrap();
    }
    assert_eq!(used(&catalogue).len(), 20);
}

#[test]
fn a_type_that_cannot_be_read_stays() {
    let (mut catalogue, names) = (catalogue(), twenty());
    catalogue.accept_types(types(&names), &BTreeSet::new()).unwrap();
    let unreadable = BTreeSet::from([names[0].into()]);
    for _ in 0..3 {
        catalogue.accept_types(types(&names[1..]), &unreadable).unwrap();
    }
    assert_eq!(used(&catalogue).len(), 20);
}

#[test]
fn an_answer_that_lacks_more_than_a_tenth_of_the_types_is_refused() {
    let (mut catalogue, names) = (catalogue(), twenty());
    catalogue.accept_types(types(&names), &BTreeSet::new()).unwrap();
    for _ in 0..3 {
        let refused = catalogue.accept_types(types(&names[3..]), &BTreeSet::new()).unwrap_err();
        assert_eq!((refused.found, refused.missing, refused.known), (17, 3, 20));
    }
    assert_eq!((used(&catalogue).len(), catalogue.missing_types()), (20, 0));
}
