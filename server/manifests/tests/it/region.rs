//! The region that is planned in.

use manifests::{Captured, InputError, Options};

use crate::{POOL, source};

fn read(text: &str, region: Option<&str>) -> Result<Captured, Vec<InputError>> {
    manifests::read(&[source(text)], &Options { region: region.map(str::to_owned), ..Options::default() })
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
fn without_a_word_it_is_us_east_1_with_a_note() {
    let captured =
        read(&crate::pod("p", "nodeSelector: {topology.kubernetes.io/zone: eu-west-1a}"), None).expect("a valid pod");
    assert_eq!(captured.region, "us-east-1");
    assert!(captured.notes.iter().any(|note| note.contains("us-east-1 is assumed")), "{:?}", captured.notes);
}

#[test]
fn two_regions_are_refused() {
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
fn flags_tighten_the_rules_of_pools() {
    let annotated = POOL.replace("metadata: {name: default}\nspec:\n  template", "metadata: {name: default, annotations: {fleetwright.dev/max-node-vcpu: '64', fleetwright.dev/min-nodes: '2'}}\nspec:\n  template");
    let options = Options { max_node_vcpu: Some(32), min_nodes: Some(3), ..Options::default() };
    let captured = manifests::read(&[source(&annotated)], &options).expect("a valid pool");
    let rules = &captured.input.pools[0].rules;
    assert_eq!((rules.max_node_vcpu, rules.min_nodes), (Some(32), Some(3)));
}
