//! Which of two nodes a pod is bound to.

use model::labels::HOSTNAME;
use model::{Effect, NodeSelectorTerm, Requirement, Taint, Text, Weighted};

use super::fixture::{Launch, labels, order};
use crate::Joining;

/// Two existing nodes: `few` has a pod of `web` with a sixteenth of the node, `many` one of another
/// application with a quarter. A pod of `web` is to be bound.
fn two_nodes() -> Launch {
    let mut launch = Launch::default();
    launch.input.label_sets.push(labels(&[("app", "other")]));
    let (web, other) = (launch.shape(250, 1, 0), launch.shape(1000, 4, 0));
    launch.existing("few", "a", &[(web, 0)]);
    launch.existing("many", "a", &[(other, 1)]);
    let unused = launch.node("c");
    launch.pod(web, unused);
    launch
}

fn place(launch: &Launch) -> String {
    let places = launch.places(order(0, Joining::Together));
    places[0].clone().expect("the pod is bound")
}

#[test]
fn the_emptier_node_is_better() {
    // few: 500m of 4 CPUs and 2 of 16 GiB are 12.5 %, 87 free; many: 1250m and 5 GiB are 31.25 %, 68
    // free. Both are balanced, before and after: 75 each. 162 against 143.
    assert_eq!(place(&two_nodes()), "few");
}

#[test]
fn pods_of_a_deployment_are_spread_by_default() {
    let mut launch = two_nodes();
    launch.input.pods[0].workload = Text::from("Deployment/web");
    // Hostnames: two nodes, ln 4 = 1.386, skew 3. Zones: one, ln 3 = 1.099, skew 5, one pod.
    // few: 1.386 + 2 + 1.099 + 4 = 8.485, 8. many: 2 + 1.099 + 4 = 7.099, 7.
    // Normalised: 100 × (8 + 7 − 8) / 8 = 87 and 100 × (8 + 7 − 7) / 8 = 100.
    // few: 87 + 75 + 2 × 87 = 336; many: 68 + 75 + 2 × 100 = 343.
    assert_eq!(place(&launch), "many");
}

#[test]
fn a_soft_taint_outweighs_the_emptier_node() {
    let mut launch = two_nodes();
    let taint = Taint { key: Text::from("slow"), value: Text::from(""), effect: Effect::PreferNoSchedule };
    launch.input.nodes[0].taints.push(taint);
    // few: 162 + 3 × 0; many: 143 + 3 × 100.
    assert_eq!(place(&launch), "many");
}

#[test]
fn preferred_node_affinity_outweighs_the_emptier_node() {
    let mut launch = two_nodes();
    launch.input.nodes[1].labels.insert(Text::from("disk"), Text::from("fast"));
    let term = NodeSelectorTerm { expressions: vec![Requirement::equals("disk", "fast")], names: Vec::new() };
    launch.input.shapes[0].preferred_node_affinity = vec![Weighted { weight: 1, term }];
    // many: 143 + 2 × 100 against 162.
    assert_eq!(place(&launch), "many");
}

#[test]
fn a_node_is_chosen_by_its_name() {
    // Apart from their names the two nodes have the same labels.
    let by_selector = |launch: &mut Launch| {
        launch.input.shapes[0].node_selector.insert(Text::from(HOSTNAME), Text::from("many"));
    };
    let by_field = |launch: &mut Launch| {
        let term =
            NodeSelectorTerm { expressions: Vec::new(), names: vec![Requirement::equals("metadata.name", "many")] };
        launch.input.shapes[0].node_affinity = vec![term];
    };
    let preferred = |launch: &mut Launch| {
        let term = NodeSelectorTerm { expressions: vec![Requirement::equals(HOSTNAME, "many")], names: Vec::new() };
        launch.input.shapes[0].preferred_node_affinity = vec![Weighted { weight: 1, term }];
    };
    for change in [&by_selector as &dyn Fn(&mut Launch), &by_field, &preferred] {
        let mut launch = two_nodes();
        change(&mut launch);
        assert_eq!(place(&launch), "many");
    }
}
