//! Removals and replacements that save money.

use disruption::Settings;
use model::MicroUsd;

use crate::blocks::{first, web};
use crate::{
    CATALOGUE, NOW, node, plan, plan_of, plan_with, pod, pool, read_at, render, rendered, rendered_with, two_nodes,
};

const REPLACED: &str = "Underutilized n-1: saves 0.20\n  launch default-1: box on-demand\n  web-1 to default-1\n";

#[test]
fn a_node_that_is_too_large_is_replaced() {
    assert_eq!(rendered(&(first().text() + &web().text())), REPLACED);
}

#[test]
fn a_replacement_at_the_same_price_is_no_saving() {
    let text = node("n-1", "box").text() + &pod("web-1", "n-1", "3").text();
    assert_eq!(rendered(&text), "n-1 stays (Underutilized): NoSavings Node/n-1\n");
    let text = first().text() + &pod("web-1", "n-1", "5").text();
    assert_eq!(rendered(&text), "n-1 stays (Underutilized): NoSavings Node/n-1\n");
}

#[test]
fn nodes_whose_pods_share_a_cheaper_one_end_as_that() {
    let nodes: String = (1..4)
        .map(|n| node(&format!("n-{n}"), "big").text() + &pod(&format!("web-{n}"), &format!("n-{n}"), "1").text())
        .collect();
    // Three CPUs need one `box`.
    let cost = plan(&nodes).cost;
    assert_eq!((cost.before, cost.after), (MicroUsd(1_200_000), MicroUsd(200_000)));
}

#[test]
fn pods_that_nothing_starts_again_need_no_place() {
    // Four CPUs fit nowhere.
    let text = |pod: crate::objects::PodText| {
        node("n-1", "big").text() + &pod.text() + &node("n-2", "box").text() + &crate::pod("api-1", "n-2", "3").text()
    };
    let gone = "Underutilized n-1: saves 0.40\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&text(pod("debug", "n-1", "4").owner(""))), gone);
    let leaving = pod("web-1", "n-1", "4").metadata("deletionTimestamp: 2026-01-01T11:59:00Z");
    // A terminating pod of a ReplicaSet runs nowhere again, so the node is empty.
    assert_eq!(rendered(&text(leaving)), gone.replacen("Underutilized", "Empty", 1));
    let replica = pod("web-1", "n-1", "4").owner("StatefulSet").metadata("deletionTimestamp: 2026-01-01T11:59:00Z");
    // One of a StatefulSet is created again under the same name, and needs four CPUs then: `n-1` stays for it, with four
    // CPUs for the pod of `n-2`.
    let kept = "Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): NoSavings Node/n-1\n";
    assert_eq!(rendered(&text(replica)), kept);
}

#[test]
fn a_node_with_pods_of_negative_cost_is_not_empty() {
    // Karpenter removes such a node as empty. Here its pod needs a place like any other.
    let cheap =
        web().annotation("controller.kubernetes.io/pod-deletion-cost: \"-2147483648\"").spec("priority: -2000000000");
    assert_eq!(rendered(&(first().text() + &cheap.text())), REPLACED);
}

#[test]
fn a_node_with_daemon_set_and_static_pods_only_is_empty() {
    let text = first().text()
        + &pod("agent-1", "n-1", "1").owner("DaemonSet").text()
        + &pod("proxy-1", "n-1", "1").owner("Node").annotation("kubernetes.io/config.mirror: abc").text()
        + &pod("batch-1", "n-1", "1").phase("Succeeded").text();
    assert_eq!(rendered(&text), "Empty n-1: saves 0.40\n");
}

#[test]
fn an_on_demand_node_is_replaced_by_spot_alone_where_the_pool_allows_both() {
    // Spot `box` costs 0.08 and spot `big` 0.16, both less than 0.20.
    let text = pool("flex").text() + &node("n-1", "box").pool("flex").text() + &pod("web-1", "n-1", "3").text();
    let expected = "Underutilized n-1: saves 0.12\n  launch flex-1: box,big spot\n  web-1 to flex-1\n";
    assert_eq!(rendered(&text), expected);
}

#[test]
fn every_launch_option_costs_less_than_what_is_replaced() {
    // Of the options for an on-demand `box` at 0.20, on-demand `big` costs 0.40: it is none.
    let plan = plan(&(first().text() + &web().text()));
    assert_eq!(plan.plan.nodes[0].types.len(), 1);
}

#[test]
fn a_spot_node_is_removed_and_with_the_gate_off_not_replaced() {
    let flex = pool("flex").text();
    let first = || first().pool("flex").spot();
    let fixed = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
    let deleted = flex.clone() + &first().text() + &web().text() + &fixed;
    let expected = "Underutilized n-1: saves 0.16\n  web-1 to n-2\nn-2 stays (Underutilized): DoNotDisrupt Node/n-2\n";
    assert_eq!(rendered(&deleted), expected);
    let alone = flex + &first().text() + &web().text();
    assert_eq!(rendered(&alone), "n-1 stays (Underutilized): SpotFlexibility Node/n-1\n");
}

/// Spot types `s-01` to `s-NN` of four CPUs, each a cent dearer than the one before, and a node of the last.
fn spot_types(count: usize, gate: bool, requirement: &str) -> String {
    let kind = |at: usize| {
        let price = at as f64 / 100.0;
        format!(
            r#"{{"name":"s-{at:02}","labels":{{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"}},"overhead":{{}},
              "capacity":{{"cpu":"4","memory":"16Gi","pods":"110"}},
              "offerings":[{{"zone":"lab-a","capacityType":"spot","priceUsdPerHour":{price}}}]}}"#
        )
    };
    let types = (1..=count).map(kind).collect::<Vec<String>>().join(",");
    let catalogue = format!(
        r#"{{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{{"name":"lab","zones":["lab-a"]}}],"types":[{types}]}}"#
    );
    let pool = pool("flex");
    let pool = if requirement.is_empty() { pool } else { pool.requirement(requirement) };
    let node = node("n-1", &format!("s-{count:02}")).pool("flex").spot().text();
    let text = pool.text() + &node + &pod("web-1", "n-1", "3").text();
    let settings = Settings { spot_to_spot: gate, ..Settings::default() };
    render(&plan_of(&read_at(NOW, &catalogue, &text), &settings))
}

/// The names of the first `count` types.
fn names(count: usize) -> String {
    (1..=count).map(|at| format!("s-{at:02}")).collect::<Vec<String>>().join(",")
}

#[test]
fn spot_replaces_spot_with_fifteen_cheaper_types_and_keeps_fifteen() {
    let held = "n-1 stays (Underutilized): SpotFlexibility Node/n-1\n";
    // One of the types is the node's own.
    assert_eq!(spot_types(15, true, ""), held);
    let replaced = |saved: &str, options: usize| {
        format!("Underutilized n-1: saves {saved}\n  launch flex-1: {} spot\n  web-1 to flex-1\n", names(options))
    };
    // From 0.16, 0.17 and 0.20 to 0.01.
    assert_eq!(spot_types(16, true, ""), replaced("0.15", 15));
    assert_eq!(spot_types(17, true, ""), replaced("0.16", 15));
    assert_eq!(spot_types(20, true, ""), replaced("0.19", 15));
    assert_eq!(spot_types(20, false, ""), held);
}

#[test]
fn spot_options_are_kept_as_far_as_min_values_need_them() {
    let requirement =
        |count: usize| format!("{{key: node.kubernetes.io/instance-type, operator: Exists, minValues: {count}}}");
    let replaced = |options: usize| {
        format!("Underutilized n-1: saves 0.19\n  launch flex-1: {} spot\n  web-1 to flex-1\n", names(options))
    };
    assert_eq!(spot_types(20, true, &requirement(17)), replaced(17));
    assert_eq!(spot_types(20, true, &requirement(3)), replaced(15));
    // 19 types are cheaper.
    assert_eq!(spot_types(20, true, &requirement(20)), "n-1 stays (Underutilized): MinValues Node/n-1\n");
}

#[test]
fn cheaper_machines_must_meet_min_values() {
    let with = |count: usize| {
        let requirement = format!("{{key: node.kubernetes.io/instance-type, operator: Exists, minValues: {count}}}");
        let text = pool("default").requirement(&requirement).text() + &first().text() + &web().text();
        rendered_with(&Settings::default(), &text)
    };
    assert_eq!(with(1), REPLACED);
    assert_eq!(with(2), "n-1 stays (Underutilized): MinValues Node/n-1\n");
}

#[test]
fn a_removal_saves_more_than_the_least_savings() {
    let with = |cents: i64| {
        let settings = Settings { min_savings: MicroUsd(cents * 10_000), ..Settings::default() };
        rendered_with(&settings, &(pool("default").text() + &two_nodes(&first(), &web())))
    };
    assert!(
        with(39).starts_with("Underutilized n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings")
    );
    // `n-2` would save 0.20.
    let stays = with(41);
    let codes: Vec<&str> = stays.lines().filter_map(|line| line.split(": ").nth(1)?.split(' ').next()).collect();
    assert_eq!(codes, ["NoSavings", "NoSavings"], "{stays}");
    let replaced = |cents: i64| {
        let settings = Settings { min_savings: MicroUsd(cents * 10_000), ..Settings::default() };
        rendered_with(&settings, &(pool("default").text() + &first().text() + &web().text()))
    };
    assert_eq!(replaced(19), REPLACED);
    assert_eq!(replaced(21), "n-1 stays (Underutilized): NoSavings Node/n-1\n");
}

#[test]
fn a_removal_saves_more_than_its_moves_cost() {
    let with = |cents: i64, pods: usize| {
        let settings = Settings { churn_price: MicroUsd(cents * 10_000), ..Settings::default() };
        let pods: String = (1..=pods).map(|at| pod(&format!("web-{at}"), "n-1", "500m").text()).collect();
        let others = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
        let plan = plan_with(&settings, &(pool("default").text() + &first().text() + &pods + &others));
        plan.commands.iter().map(|command| command.savings).next()
    };
    // 0.39 for one pod is less than 0.40, and 0.42 for two is more. One replacement at 0.20 saves 0.20.
    assert_eq!(with(39, 1), Some(MicroUsd(400_000)));
    assert_eq!(with(41, 1), None);
    assert_eq!(with(19, 2), Some(MicroUsd(400_000)));
    assert_eq!(with(21, 2), None);
}

#[test]
fn limits_are_judged_with_the_removed_node_gone() {
    let with = |limits: &str| {
        let pool = pool("default").spec(&format!("limits: {{{limits}}}")).text();
        rendered_with(&Settings::default(), &(pool + &first().text() + &web().text()))
    };
    assert_eq!(with("cpu: 8"), REPLACED);
    assert_eq!(with("cpu: 4"), REPLACED);
    assert_eq!(with("nodes: 1"), REPLACED);
    assert_eq!(with("cpu: 3"), "n-1 stays (Underutilized): NoCapacity Node/n-1\n");
}

#[test]
fn limits_of_replacements_are_judged_together() {
    // Of nodes of a pool with 12 CPUs, 16 are used. Each `big` could become a `box` alone: 8 + 4. Both: 4 + 4.
    let exclusive = |name: &str, node: &str| {
        pod(name, node, "3")
            .spec(
                "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                     kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}",
            )
            .text()
    };
    let text = pool("default").spec("limits: {cpu: 12}").text()
        + &first().text()
        + &exclusive("web-1", "n-1")
        + &node("n-2", "big").text()
        + &exclusive("web-2", "n-2");
    let cost = plan_with(&Settings::default(), &text).cost;
    assert_eq!(cost.after, MicroUsd(400_000));
}

#[test]
fn nodes_that_share_a_cheaper_machine_are_replaced_together() {
    // Spot `big` at 0.16 has the six CPUs of two on-demand `box` at 0.20 each. Each alone: spot `box` at 0.08, in sum 0.16.
    let text = pool("flex").text()
        + &node("n-1", "box").pool("flex").text()
        + &pod("web-1", "n-1", "3").text()
        + &node("n-2", "box").pool("flex").text()
        + &pod("web-2", "n-2", "3").text();
    assert_eq!(plan(&text).cost.after, MicroUsd(160_000));
}

/// Karpenter drops from the types of a replacement those that cost as much as a node of the same type that it
/// replaces (`t3.small` for a pair with a `t3.small`): the other node would better go alone. Here that is what is
/// found: the pods end on the smaller node, and nothing is launched.
#[test]
fn a_pair_is_not_replaced_by_a_machine_of_the_type_of_one_of_them() {
    // Two CPUs fit in a `box` for 0.20, as which `n-2` runs; together the nodes cost 0.60.
    let text = node("n-1", "big").text()
        + &node("n-2", "box").text()
        + &pod("web-1", "n-1", "1").text()
        + &pod("api-1", "n-2", "1").text();
    let expected = "Underutilized n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&text), expected);
}

#[test]
fn pods_do_not_move_to_a_node_that_has_been_replaced() {
    // `web` pods exclude each other. `n-1` becomes a `box`, and the pods of `n-2` need 5.5 CPUs: it stays. 0.40 + 0.20.
    let exclusive = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                     kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let text = first().text()
        + &web().spec(exclusive).text()
        + &node("n-2", "big").text()
        + &pod("web-2", "n-2", "1").spec(exclusive).text()
        + &pod("api-1", "n-2", "3500m").text()
        + &pod("api-2", "n-2", "1").text();
    let plan = plan(&text);
    assert_eq!(plan.cost.after, MicroUsd(600_000), "{}", render(&plan));
}

#[test]
fn a_replacement_may_be_in_a_cheaper_zone() {
    // On-demand `box` costs 0.20 in `lab-a`, where the node is, and 0.15 in `lab-b`.
    let catalogue = CATALOGUE.replacen(
        r#"{"zone":"lab-b","capacityType":"on-demand","priceUsdPerHour":0.2}"#,
        r#"{"zone":"lab-b","capacityType":"on-demand","priceUsdPerHour":0.15}"#,
        1,
    );
    let text = pool("default").text() + &node("n-1", "box").text() + &pod("web-1", "n-1", "3").text();
    let plan = plan_of(&read_at(NOW, &catalogue, &text), &Settings::default());
    let expected = "Underutilized n-1: saves 0.05\n  launch default-1: box on-demand\n  web-1 to default-1\n";
    assert_eq!(render(&plan), expected);
}
