//! The region of the plan.

use manifests::InputError;
use model::MicroUsd;
use planning_input::{Captured, Options};

use crate::{POOL, source};

fn read(text: &str, region: Option<&str>) -> Result<Captured, Vec<InputError>> {
    let region = region.map(str::to_owned);
    planning_input::read(&[source(text)], &Options { region, allow_no_objects: true, ..Options::default() })
}

fn region(text: &str, wanted: Option<&str>) -> String {
    read(text, wanted).unwrap_or_else(|errors| panic!("{errors:?}")).region
}

fn node(zone: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: n-{zone}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n---\n"
    )
}

#[test]
fn nodes_and_zones_of_pools_name_the_region() {
    assert_eq!(region(&node("eu-central-1b"), None), "eu-central-1");
    assert_eq!(region(&POOL.replace("us-east-1a", "us-west-2b"), None), "us-west-2");
    assert_eq!(region("", Some("eu-west-1")), "eu-west-1");
}

#[test]
fn the_default_region_is_us_east_1_with_a_note() {
    let captured =
        read(&crate::pod("p", "nodeSelector: {topology.kubernetes.io/zone: eu-west-1a}"), None).expect("a valid pod");
    assert_eq!(captured.region, "us-east-1");
    assert!(captured.notes.iter().any(|note| note.contains("us-east-1 is assumed")), "{:?}", captured.notes);
}

#[test]
fn two_regions_are_an_error() {
    let errors = read(&(node("eu-central-1b") + &node("us-east-1a")), None).expect_err("two regions");
    assert!(
        errors[0]
            .message
            .contains("found 2 regions: eu-central-1 (Node/n-eu-central-1b), us-east-1 (Node/n-us-east-1a)"),
        "{errors:?}"
    );
    let errors = read(&node("eu-central-1b"), Some("us-east-1")).expect_err("the flag contradicts the node");
    assert!(
        errors[0].message.contains("--region is us-east-1, but Node/n-eu-central-1b is in eu-central-1"),
        "{errors:?}"
    );
}

#[test]
fn annotations_take_precedence_over_flags() {
    let annotated = POOL.replace("metadata: {name: default}\nspec:\n  template", "metadata: {name: default, annotations: {fleetwright.dev/max-node-vcpu: '64', fleetwright.dev/min-nodes: '2', fleetwright.dev/node-overhead-usd: '0'}}\nspec:\n  template");
    let node_overhead = Some(MicroUsd(10_000));
    let options = Options { max_node_vcpu: Some(32), min_nodes: Some(3), node_overhead, ..Options::default() };
    let figures = |text: &str| {
        let captured = planning_input::read(&[source(text)], &options).expect("a valid pool");
        let rules = &captured.input.pools[0].rules;
        (rules.max_node_vcpu, rules.min_nodes, rules.node_overhead)
    };
    assert_eq!(figures(&annotated), (Some(64), Some(2), Some(MicroUsd(0))));
    assert_eq!(figures(POOL), (Some(32), Some(3), node_overhead));
}

fn pool_without_zone() -> String {
    let pool = POOL.replace("{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}", "");
    assert!(!pool.contains("us-east-1"), "{pool}");
    pool
}

#[test]
fn a_region_without_zones_is_an_error_unless_the_input_names_some() {
    let pool = pool_without_zone();
    let refused = |region: &str| read(&pool, Some(region)).expect_err("no zones are known")[0].message.clone();
    let gov = refused("us-gov-west-1");
    assert!(gov.contains("prices and no zones of us-gov-west-1"), "{gov}");
    assert!(gov.contains("--zones us-gov-west-1a,us-gov-west-1b"), "{gov}");
    let misspelt = refused("eu-centrl-1");
    assert!(misspelt.contains("does not know the region eu-centrl-1 (did you mean eu-central-1?)"), "{misspelt}");
    let options = |zones: &[&str]| Options {
        region: Some("us-gov-west-1".to_owned()),
        zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
        ..Options::default()
    };
    let available_zones = |options: &Options| -> std::collections::BTreeSet<String> {
        let captured = planning_input::read(&[source(&pool)], options).expect("zones are given");
        let types = captured.input.pools[0].catalogue.types.iter();
        let available = types.flat_map(|machine| &machine.offerings).filter(|offering| offering.available);
        available.map(|offering| offering.zone.to_string()).collect()
    };
    assert_eq!(available_zones(&options(&["us-gov-west-1b"])), ["us-gov-west-1b".to_owned()].into());
    // A server starts without zones: an EC2NodeClass may get subnets later.
    assert!(available_zones(&Options { allow_no_zones: true, ..options(&[]) }).is_empty());
    // Without a NodePool nothing is launched, so that no zone is needed.
    assert_eq!(region("", Some("us-gov-west-1")), "us-gov-west-1");
}

#[test]
fn the_flag_bounds_the_zones_of_node_classes_without_a_status() {
    let pool = pool_without_zone();
    let options = Options { zones: vec!["eu-north-1c".to_owned()], ..Options::default() };
    let captured = planning_input::read(&[source(&pool)], &options).expect("a valid pool");
    assert_eq!(captured.region, "eu-north-1", "the zones name the region");
    let types = captured.input.pools[0].catalogue.types.iter();
    let available = types.flat_map(|machine| &machine.offerings).filter(|offering| offering.available);
    assert!(available.map(|offering| offering.zone.as_ref()).all(|zone| zone == "eu-north-1c"));
}
