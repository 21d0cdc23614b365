//! Nodes that do not match their NodePool any more.

use disruption::Settings;

use crate::blocks::{FREE, first, web};
use crate::objects::{NodeText, pod_budget};
use crate::{held, node, pod, pool, rendered, rendered_with, two_nodes};

const SINCE: &str = "2026-01-01T11:00:00Z";
const DRIFTED: &str = "Drifted n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";

fn drifted() -> NodeText {
    first().drifted(SINCE)
}

#[test]
fn a_node_with_the_condition_is_drifted() {
    assert_eq!(rendered(&two_nodes(&drifted(), &web())), DRIFTED);
    let is_false =
        first().claim_conditions("{type: Drifted, status: \"False\"}, {type: Consolidatable, status: \"True\"}");
    assert_eq!(rendered(&two_nodes(&is_false, &web())), FREE);
}

#[test]
fn a_node_with_another_hash_of_the_same_version_is_drifted() {
    let hash = |hash: &str, version: &str| {
        format!("karpenter.sh/nodepool-hash: \"{hash}\", karpenter.sh/nodepool-hash-version: {version}")
    };
    let pool = pool("default").annotation(&hash("1", "v3")).text();
    let with = |own: &str| {
        let first = first().claim_annotations(own);
        rendered_with(&Settings::default(), &(pool.clone() + &two_nodes(&first, &web())))
    };
    assert_eq!(with(&hash("2", "v3")), DRIFTED);
    assert_eq!(with(&hash("1", "v3")), FREE);
    assert_eq!(with(&hash("2", "v2")), FREE);
    assert_eq!(with("karpenter.sh/nodepool-hash: \"2\""), FREE);
}

#[test]
fn a_node_outside_of_the_requirements_is_drifted() {
    let with = |zones: &str| {
        let zone = format!("{{key: topology.kubernetes.io/zone, operator: In, values: [{zones}]}}");
        let text = pool("default").requirement(&zone).text()
            + &two_nodes(&first(), &web()).replacen("zone: lab-a", "zone: lab-b", 2);
        rendered_with(&Settings::default(), &text)
    };
    assert_eq!(with("lab-a"), DRIFTED);
    assert_eq!(with("lab-a, lab-b"), FREE);
    let team = pool("default").requirement("{key: team, operator: Exists}").text();
    let rendered = rendered_with(&Settings::default(), &(team + &two_nodes(&first(), &web())));
    assert!(rendered.starts_with("Drifted n-1"), "{rendered}");
}

#[test]
fn a_node_that_has_not_been_launched_is_not_drifted() {
    let text = two_nodes(&drifted(), &web()).replacen(
        "{type: Launched, status: \"True\"}",
        "{type: Launched, status: \"False\"}",
        1,
    );
    assert_eq!(rendered(&text), FREE);
}

#[test]
fn a_drifted_node_is_replaced_at_the_same_price() {
    let text = two_nodes(&node("n-1", "box").drifted(SINCE), &pod("web-1", "n-1", "3"));
    let expected = "Drifted n-1: saves 0.00\n  launch default-1: box on-demand\n  web-1 to default-1\nn-2 stays \
                    (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&text).replace("box,big", "box"), expected);
}

#[test]
fn drift_ignores_consolidate_after_and_the_consolidation_policy() {
    for settings in ["consolidateAfter: Never", "consolidateAfter: 0s, consolidationPolicy: WhenEmpty"] {
        let text =
            pool("default").disruption(&format!("{settings}, budgets: []")).text() + &two_nodes(&drifted(), &web());
        let rendered = rendered_with(&Settings::default(), &text);
        assert!(rendered.starts_with("Drifted n-1: saves 0.40\n  web-1 to n-2\nn-2 stays"), "{settings}: {rendered}");
    }
}

/// `n-1`, drifted, is held by `by`, and its free CPUs make `n-2` superfluous.
fn assert_held(text: &str, by: &str) {
    let expected = format!("Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Drifted): {by}\n");
    assert_eq!(rendered(text), expected);
}

#[test]
fn drift_is_held_by_what_protects_pods_unless_the_drain_has_a_deadline() {
    let graceful = || drifted().claim_spec("terminationGracePeriod: 1h");
    let budget = pod_budget("web", 0);
    let by = "PodDisruptionBudget PodDisruptionBudget/shop/web";
    assert_held(&(two_nodes(&drifted(), &web()) + &budget), by);
    let gone = "Drifted n-1: saves 0.40\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    // The pod runs until the deadline: nothing else has to run it now.
    assert_eq!(rendered(&(two_nodes(&graceful(), &web()) + &budget)), gone);
    let protected = web().do_not_disrupt("true");
    assert_held(&two_nodes(&drifted(), &protected), "DoNotDisrupt Pod/shop/web-1");
    assert_eq!(rendered(&two_nodes(&graceful(), &protected)), gone);
}

#[test]
fn a_deadline_of_the_drain_ignores_neither_the_node_nor_nominations() {
    let graceful = || drifted().claim_spec("terminationGracePeriod: 1h");
    assert_held(&two_nodes(&graceful().do_not_disrupt(), &web()), "DoNotDisrupt Node/n-1");
    let nominated = pod("new-1", "", "1").pending("n-1").text();
    assert_held(&(two_nodes(&graceful(), &web()) + &nominated), "Nominated Pod/shop/new-1");
}

#[test]
fn a_deadline_of_the_drain_does_not_serve_consolidation() {
    let graceful = first().claim_spec("terminationGracePeriod: 1h");
    let text = two_nodes(&graceful, &web()) + &pod_budget("web", 0);
    let expected = "Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): PodDisruptionBudget \
                    PodDisruptionBudget/shop/web\n";
    assert_eq!(rendered(&text), expected);
}

/// The reasons and nodes of the commands when one of the drifted nodes may go.
fn first_of(nodes: &str) -> Vec<String> {
    let text = pool("default").disruption("consolidateAfter: Never, budgets: [{nodes: \"1\"}]").text() + nodes;
    let rendered = rendered_with(&Settings::default(), &text);
    rendered.lines().filter(|line| !line.starts_with("  ") && !line.contains("stays")).map(str::to_owned).collect()
}

#[test]
fn nodes_without_pods_go_first_and_then_those_that_drifted_first() {
    let late = || node("n-1", "box").drifted("2026-01-01T11:30:00Z").text();
    let early = || node("n-2", "box").drifted("2026-01-01T11:00:00Z").text();
    let pods = pod("web-1", "n-1", "1").text() + &pod("api-1", "n-2", "1").text();
    assert_eq!(first_of(&(late() + &early() + &pods)), ["Drifted n-2: saves 0.20"]);
    assert_eq!(first_of(&(late() + &early() + &pod("api-1", "n-2", "1").text())), ["Drifted n-1: saves 0.20"]);
}

#[test]
fn a_drifted_node_that_stays_names_what_blocks_its_drift() {
    // The budget of drift holds both. `n-2` is full, so consolidation finds nothing either.
    let text = pool("default").budgets("{nodes: \"0\", reasons: [Drifted]}").text()
        + &two_nodes(&node("n-1", "box").drifted(SINCE), &pod("web-1", "n-1", "3"));
    let expected = "n-1 stays (Drifted): Budget NodePool/default\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

#[test]
fn a_drifted_node_that_its_budget_blocks_may_go_as_underutilized() {
    let text = pool("default").budgets("{nodes: \"0\", reasons: [Drifted]}").text() + &two_nodes(&drifted(), &web());
    assert_eq!(rendered_with(&Settings::default(), &text), FREE);
}

#[test]
fn a_drifted_node_whose_pod_has_no_place_stays_and_blocks_no_other() {
    let text = two_nodes(&drifted(), &web())
        + &node("n-3", "box").label("disk: fast").drifted("2026-01-01T10:00:00Z").text()
        + &pod("db-1", "n-3", "3").spec("nodeSelector: {disk: fast}").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Drifted n-1: saves 0.40\n  web-1 to n-"), "{rendered}");
    assert_eq!(rendered.lines().last(), Some("n-3 stays (Drifted): NoCapacity Pod/shop/db-1"));
}

#[test]
fn a_drifted_node_of_a_static_pool_whose_limit_has_no_room_is_held() {
    let pool = pool("default").spec("replicas: 2").spec("limits: {nodes: \"2\"}").text();
    let rendered = rendered_with(&Settings::default(), &(pool + &two_nodes(&drifted(), &web())));
    let by = "Static NodePool/default";
    assert_eq!(rendered, format!("n-1 stays (Drifted): {by}\nn-2 stays (Underutilized): {by}\n"));
}

#[test]
fn several_drifted_nodes_go_together() {
    let text =
        two_nodes(&drifted(), &web()) + &node("n-3", "box").drifted(SINCE).text() + &pod("db-1", "n-3", "3").text();
    let rendered = rendered(&text);
    // The pods have four CPUs, and `n-2` has room for one of them: a `box` for three, or for both.
    assert!(rendered.starts_with("Drifted n-1 n-3: saves 0.40\n  launch default-1: box"), "{rendered}");
    assert_eq!(held(&text), ["n-2 stays (Underutilized): NoSavings Node/n-2"]);
}

/// Two drifted nodes of a static NodePool with two replicas, each with a pod of three of its four CPUs.
fn drifted_static(limits: &str) -> String {
    let drifted = |name: &str| node(name, "box").drifted(SINCE).text();
    let pool = pool("default").spec("replicas: 2");
    let pool = if limits.is_empty() { pool } else { pool.spec(&format!("limits: {{nodes: \"{limits}\"}}")) };
    let text = pool.text()
        + &drifted("n-1")
        + &pod("web-1", "n-1", "3").text()
        + &drifted("n-2")
        + &pod("web-2", "n-2", "3").text();
    rendered_with(&Settings::default(), &text).replace("box,big", "box")
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_one_for_one_as_limits_have_room() {
    let replaced = |number: usize| {
        format!(
            "Drifted n-{number}: saves 0.00\n  launch default-{number}: box on-demand\n  web-{number} to default-{number}\n"
        )
    };
    let stays = |number: usize| format!("n-{number} stays (Drifted): Static NodePool/default\n");
    assert_eq!(drifted_static("2"), stays(1) + &stays(2));
    assert_eq!(drifted_static("3"), replaced(1) + &stays(2));
    assert_eq!(drifted_static("4"), replaced(1) + &replaced(2));
    assert_eq!(drifted_static(""), replaced(1) + &replaced(2));
}

#[test]
fn the_machine_of_a_static_pool_is_part_of_the_cost_and_carries_the_pods_that_move_to_it() {
    let text = pool("default").spec("replicas: 1").text()
        + &node("n-1", "big").drifted(SINCE).text()
        + &pod("web-1", "n-1", "3").text();
    let plan = crate::plan_with(&Settings::default(), &text);
    // A `big` at 0.40 goes, and a `box` at 0.20 comes.
    assert_eq!((plan.cost.before, plan.cost.after), (model::MicroUsd(400_000), model::MicroUsd(200_000)));
    let machines: Vec<_> = plan.launched_by(&plan.commands[0]).collect();
    assert_eq!((machines.len(), machines[0].pods.len(), plan.commands[0].savings.0), (1, 1, 200_000));
    assert!(plan.plan.nodes.is_empty(), "nothing is launched for pods");
}

#[test]
fn a_static_pool_with_more_nodes_than_replicas_replaces_none() {
    let text = pool("default").spec("replicas: 1").text()
        + &node("n-1", "box").drifted(SINCE).text()
        + &node("n-2", "box").drifted(SINCE).text();
    let rendered = rendered_with(&Settings::default(), &text);
    let stays = |name: &str| format!("{name} stays (Drifted): Static NodePool/default\n");
    // They are empty as well, and a fixed number of nodes holds them.
    let expected = stays("n-1") + &stays("n-2");
    assert_eq!(rendered, expected);
}
