//! Where pods of removed nodes may go.

use crate::blocks::{FREE, first, web};
use crate::objects::{NodeText, PodText};
use crate::{node, plan, pod, render, rendered, two_nodes};

const SPREAD_ZONES: &str = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                            whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
const SPREAD_HOSTS: &str = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
                            whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
const EXCLUSIVE: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                         kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";

/// A `box` that stays.
fn fixed(name: &str) -> NodeText {
    node(name, "box").do_not_disrupt()
}

/// Where `web-1` of `n-1` goes beside `web-2`, with `rule` for both, when `n-2` and `n-3` have room. `web-2` is on `n-2`,
/// which is fuller and would be taken otherwise.
fn destination(rule: &str, second: &NodeText, third: &NodeText) -> String {
    let with = |pod: PodText| if rule.is_empty() { pod } else { pod.spec(rule) };
    let text =
        first().text() + &with(web()).text() + &second.text() + &with(pod("web-2", "n-2", "2")).text() + &third.text();
    let plan = plan(&text);
    let command = plan.commands.first().expect("a command for n-1");
    assert_eq!(command.nodes.len(), 1, "{}", render(&plan));
    command.placements[0].1.to_string()
}

#[test]
fn pods_go_to_the_fullest_node() {
    assert_eq!(destination("", &fixed("n-2"), &fixed("n-3")), "n-2");
}

#[test]
fn moved_pods_stay_spread_over_zones() {
    // Two pods in `lab-b` and none in `lab-a` are a skew of two.
    let second = || fixed("n-2").zone("lab-b");
    assert_eq!(destination("", &second(), &fixed("n-3")), "n-2");
    assert_eq!(destination(SPREAD_ZONES, &second(), &fixed("n-3")), "n-3");
}

#[test]
fn a_replacement_keeps_the_spread_over_zones() {
    let text = first().text()
        + &web().spec(SPREAD_ZONES).text()
        + &fixed("n-2").zone("lab-b").text()
        + &pod("web-2", "n-2", "1").spec(SPREAD_ZONES).text()
        + &fixed("n-3").text()
        + &pod("api-1", "n-3", "4").text();
    let plan = plan(&text);
    let stays = |name: &str| format!("{name} stays (Underutilized): DoNotDisrupt Node/{name}\n");
    let expected = "Underutilized n-1: saves 0.20\n  launch default-1: box on-demand\n  web-1 to default-1\n"
        .to_owned()
        + &stays("n-2")
        + &stays("n-3");
    assert_eq!(render(&plan), expected);
    let zones: Vec<&str> = plan.plan.nodes[0].zones.iter().map(|zone| zone.as_ref()).collect();
    assert_eq!(zones, ["lab-a"]);
}

#[test]
fn a_machine_for_pods_that_are_spread_badly_does_not_keep_them_so() {
    // Two pods in `lab-a` and none in `lab-b` are a skew of two. A `box` in either zone costs as much as `n-1`.
    let text = first().text()
        + &web().spec(SPREAD_ZONES).text()
        + &pod("web-2", "n-1", "1").spec(SPREAD_ZONES).text()
        + &fixed("n-2").zone("lab-b").text()
        + &pod("api-1", "n-2", "4").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("n-1 stays (Underutilized): NoSavings"), "{rendered}");
}

#[test]
fn pods_of_other_requests_count_for_the_spread() {
    // `web-1` and `web-2` go to `lab-a`, after `web-3` has gone to `lab-b`: two, one and then none in the other zone.
    let third = node("n-3", "big").zone("lab-b").drifted("2026-01-01T11:00:00Z").text()
        + &pod("web-3", "n-3", "2").spec(SPREAD_ZONES).text();
    let text = first().drifted("2026-01-01T11:00:00Z").text()
        + &pod("web-1", "n-1", "1").spec(SPREAD_ZONES).text()
        + &pod("web-2", "n-1", "1").spec(SPREAD_ZONES).text()
        + &third
        + &fixed("n-4").text()
        + &fixed("n-5").zone("lab-b").text();
    let plan = plan(&text);
    assert_eq!(plan.cost.after, model::MicroUsd(400_000), "{}", render(&plan));
}

#[test]
fn moved_pods_stay_apart() {
    assert_eq!(destination(EXCLUSIVE, &fixed("n-2"), &fixed("n-3")), "n-3");
}

#[test]
fn moved_pods_stay_spread_over_nodes() {
    assert_eq!(destination(SPREAD_HOSTS, &fixed("n-2"), &fixed("n-3")), "n-3");
}

#[test]
fn a_pod_that_another_pod_excludes_stays_apart_too() {
    // `db-1` admits no pod of `web` beside it.
    let guard = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                 kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let text = first().text()
        + &web().text()
        + &fixed("n-2").text()
        + &pod("db-1", "n-2", "2").spec(guard).text()
        + &fixed("n-3").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Underutilized n-1: saves 0.40\n  web-1 to n-3\n"), "{rendered}");
}

#[test]
fn pods_on_the_same_host_port_stay_apart() {
    let port = |pod: PodText| {
        pod.text().replace("name: a, resources", "name: a, ports: [{containerPort: 80, hostPort: 80}], resources")
    };
    let text =
        first().text() + &port(web()) + &fixed("n-2").text() + &port(pod("db-1", "n-2", "2")) + &fixed("n-3").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Underutilized n-1: saves 0.40\n  web-1 to n-3\n"), "{rendered}");
}

#[test]
fn taints_and_selectors_are_respected() {
    let tainted = fixed("n-2").node_spec("taints: [{key: db, effect: NoSchedule}]");
    assert_eq!(destination("", &tainted, &fixed("n-3")), "n-3");
    let cordoned = fixed("n-2").node_spec("unschedulable: true");
    assert_eq!(destination("", &cordoned, &fixed("n-3")), "n-3");
    let selecting = "nodeSelector: {disk: fast}";
    let text = first().label("disk: fast").text()
        + &web().spec(selecting).text()
        + &fixed("n-2").text()
        + &fixed("n-3").label("disk: fast").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Underutilized n-1: saves 0.40\n  web-1 to n-3\n"), "{rendered}");
}

#[test]
fn nodes_that_leave_take_no_pods() {
    let leaving = fixed("n-2").claim_metadata("deletionTimestamp: 2026-01-01T11:59:00Z").text();
    let text = first().text() + &web().text() + &leaving + &fixed("n-3").text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Underutilized n-1: saves 0.40\n  web-1 to n-3\n"), "{rendered}");
}

#[test]
fn a_drifted_pod_may_go_to_a_node_that_consolidate_after_closes() {
    // The rule that such a node takes no pods is of consolidation alone.
    let pool = crate::pool("default").disruption("consolidateAfter: 10m, budgets: []").text();
    let recent = node("n-2", "box")
        .claim_conditions("{type: Registered, status: \"True\"}")
        .claim_status("lastPodEventTime: 2026-01-01T11:59:00Z")
        .text()
        + &pod("api-1", "n-2", "3").text();
    let with = |first: &NodeText| {
        crate::rendered_with(
            &disruption::Settings::default(),
            &(pool.clone() + &first.text() + &web().text() + &recent),
        )
    };
    let stays = "n-2 stays (Underutilized): ConsolidateAfter Node/n-2\n";
    let drifted = with(&first().drifted("2026-01-01T11:00:00Z"));
    assert_eq!(drifted, format!("Drifted n-1: saves 0.40\n  web-1 to n-2\n{stays}"));
    // Consolidation replaces it.
    let replaced = with(&first());
    assert_eq!(
        replaced,
        format!("Underutilized n-1: saves 0.20\n  launch default-1: box on-demand\n  web-1 to default-1\n{stays}")
    );
}

#[test]
fn every_pod_of_a_removed_node_is_placed_once() {
    let plan = plan(&(two_nodes(&first(), &pod("web-1", "n-1", "500m")) + &pod("web-2", "n-1", "500m").text()));
    let moved: Vec<&str> = plan.commands[0].placements.iter().map(|(pod, _)| pod.name.as_ref()).collect();
    assert_eq!(moved.len(), 2);
    assert!(moved.contains(&"web-1") && moved.contains(&"web-2"));
    assert_eq!(rendered(&two_nodes(&first(), &web())), FREE);
}
