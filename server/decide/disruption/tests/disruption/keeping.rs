//! What provisioning bought for a rule, a removal keeps: required and preferred rules of pods over zones and hosts, and
//! annotations of NodePools.
//!
//! The cluster has the zones `lab-a`, `lab-b` and `lab-c`, and in each a `box` of four CPUs, of which a pod of `web` uses
//! one: two of the three nodes would do but for a rule.

use disruption::Settings;

use crate::blocks::web;
use crate::objects::{NodeText, PodText};
use crate::{CATALOGUE, NOW, node, plan_of, pod, pool, read_at, render};

/// The catalogue with a third zone.
pub fn catalogue() -> String {
    let last = |spot: &str| format!(r#"{{"zone":"lab-b","capacityType":"spot","priceUsdPerHour":{spot}}}"#);
    let with_third = |on_demand: &str, spot: &str| {
        let in_c = |kind: &str, price: &str| {
            format!(r#",{{"zone":"lab-c","capacityType":"{kind}","priceUsdPerHour":{price}}}"#)
        };
        last(spot) + &in_c("on-demand", on_demand) + &in_c("spot", spot)
    };
    CATALOGUE
        .replace(r#"["lab-a","lab-b"]"#, r#"["lab-a","lab-b","lab-c"]"#)
        .replace(&last("0.08"), &with_third("0.2", "0.08"))
        .replace(&last("0.16"), &with_third("0.4", "0.16"))
}

fn rendered(text: &str) -> String {
    render(&plan_of(&read_at(NOW, &catalogue(), text), &Settings::default()))
}

const ZONES: [&str; 3] = ["lab-a", "lab-b", "lab-c"];
const HARD_ZONES: &str = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
const HARD_HOSTS: &str = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
                          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";

fn boxes() -> [NodeText; 3] {
    [0, 1, 2].map(|at| node(&format!("n-{}", at + 1), "box").zone(ZONES[at]))
}

/// The pool `default`, `nodes`, and on each of them so many pods of `web` with `rule`.
fn cluster(nodes: [NodeText; 3], pods: usize, rule: &str) -> String {
    let mut text = pool("default").text();
    for (at, node) in nodes.iter().enumerate() {
        text += &node.text();
        for number in 0..pods {
            text += &with(web_pod(at * pods + number, at), rule).text();
        }
    }
    text
}

fn web_pod(number: usize, node: usize) -> PodText {
    pod(&format!("web-{}", number + 1), &format!("n-{}", node + 1), "1")
}

fn with(pod: PodText, rule: &str) -> PodText {
    if rule.is_empty() { pod } else { pod.spec(rule) }
}

fn assert_nothing_goes(text: &str) {
    let rendered = rendered(text);
    let stays = |line: &str| line.contains(" stays (Underutilized): NoSavings");
    assert!(rendered.lines().count() == 3 && rendered.lines().all(stays), "{rendered}");
}

#[test]
fn without_a_rule_two_nodes_go() {
    let rendered = rendered(&cluster(boxes(), 1, ""));
    assert_eq!(rendered.lines().filter(|line| line.starts_with("Underutilized")).count(), 2, "{rendered}");
}

#[test]
fn required_spread_over_zones_is_kept() {
    // While a node is drained its zone has no pod, so that a second one elsewhere makes the skew two.
    assert_nothing_goes(&cluster(boxes(), 1, HARD_ZONES));
    // Both pods of one zone in another make four, and none in the first.
    assert_nothing_goes(&cluster(boxes(), 2, HARD_ZONES));
    let at_least = HARD_ZONES.replace("maxSkew: 1,", "maxSkew: 1, minDomains: 3,");
    assert_nothing_goes(&cluster(boxes(), 1, &at_least));
}

#[test]
fn a_wider_skew_lets_as_many_nodes_go_as_kube_scheduler_binds() {
    // With a maximum of two, one pod may go to another zone: two there, none in the first. A further one makes three.
    let rendered = rendered(&cluster(boxes(), 1, &HARD_ZONES.replace("maxSkew: 1", "maxSkew: 2")));
    assert_eq!(rendered.lines().filter(|line| line.starts_with("Underutilized")).count(), 1, "{rendered}");
}

#[test]
fn a_zone_that_honoured_taints_exclude_is_kept_because_a_node_would_be_launched_there() {
    // While n-1 is drained, its zone does not count, and two pods in another make the skew 2 - 1. For a pod that waits a node
    // would be launched in the empty zone.
    let rule = HARD_ZONES.replace("maxSkew: 1,", "maxSkew: 1, nodeTaintsPolicy: Honor,");
    assert_nothing_goes(&cluster(boxes(), 1, &rule));
}

#[test]
fn required_spread_over_hosts_is_kept() {
    assert_nothing_goes(&cluster(boxes(), 1, HARD_HOSTS));
}

#[test]
fn required_distance_over_zones_is_kept() {
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                 topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}";
    assert_nothing_goes(&cluster(boxes(), 1, apart));
}

#[test]
fn preferred_spread_over_zones_is_kept() {
    let soft = HARD_ZONES.replace("DoNotSchedule", "ScheduleAnyway");
    assert_nothing_goes(&cluster(boxes(), 1, &soft));
    assert_nothing_goes(&cluster(boxes(), 2, &soft));
}

#[test]
fn preferred_distance_over_zones_is_kept_and_over_hosts_it_is_not() {
    let apart = |key: &str| {
        format!(
            "affinity: {{podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, podAffinityTerm: \
             {{topologyKey: {key}, labelSelector: {{matchLabels: {{app: web}}}}}}}}]}}}}"
        )
    };
    assert_nothing_goes(&cluster(boxes(), 1, &apart("topology.kubernetes.io/zone")));
    // No node is bought for a preference over the hostname.
    let rendered = rendered(&cluster(boxes(), 1, &apart("kubernetes.io/hostname")));
    assert_eq!(rendered.lines().filter(|line| line.starts_with("Underutilized")).count(), 2, "{rendered}");
}

#[test]
fn a_preferred_neighbour_in_the_zone_is_kept() {
    // `db-1` is on a node of `lab-a` that stays and is full; `web-1` prefers its zone and has it. `n-2` has room.
    let near = "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: \
                {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: db}}}}]}}";
    let text = |rule: &str| {
        let [first, second, _] = boxes();
        let full = node("n-3", "box").do_not_disrupt();
        pool("default").text()
            + &first.text()
            + &with(web(), rule).text()
            + &second.do_not_disrupt().text()
            + &pod("api-1", "n-2", "3").text()
            + &full.text()
            + &pod("db-1", "n-3", "4").text()
    };
    assert!(rendered(&text("")).starts_with("Underutilized n-1: saves 0.20\n  web-1 to n-2\n"));
    let kept = rendered(&text(near));
    assert!(kept.starts_with("n-1 stays (Underutilized): NoSavings"), "{kept}");
}

#[test]
fn a_preferred_kind_of_node_is_kept() {
    // Spot costs 0.08 and on-demand 0.20; the pod prefers on-demand, and has it.
    let prefers = |kind: &str| {
        format!(
            "affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: \
             {{matchExpressions: [{{key: karpenter.sh/capacity-type, operator: In, values: [{kind}]}}]}}}}]}}}}"
        )
    };
    let text = |rule: &str| {
        pool("flex").text() + &node("n-1", "box").pool("flex").text() + &pod("web-1", "n-1", "3").spec(rule).text()
    };
    assert_eq!(rendered(&text(&prefers("on-demand"))), "n-1 stays (Underutilized): NoSavings Node/n-1\n");
    // What it prefers and does not have is not kept.
    let replaced = rendered(&text(&prefers("spot")));
    assert!(replaced.starts_with("Underutilized n-1: saves 0.12\n"), "{replaced}");
}

/// The zones of the machines that are launched when the first node goes for `reason`.
fn zones_of_replacements(first: NodeText, rule: &str) -> Vec<Vec<String>> {
    let [_, second, third] = boxes();
    let text = cluster([first, second, third], 1, rule);
    let plan = plan_of(&read_at(NOW, &catalogue(), &text), &Settings::default());
    assert_eq!(plan.commands.len(), 1, "{}", render(&plan));
    assert_eq!(plan.commands[0].nodes, [0], "{}", render(&plan));
    plan.plan.nodes.iter().map(|node| node.zones.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn a_drifted_or_expired_node_is_replaced_in_the_zone_that_would_be_lost() {
    let soft = HARD_ZONES.replace("DoNotSchedule", "ScheduleAnyway");
    for rule in [HARD_ZONES, &soft] {
        let first = || boxes().into_iter().next().expect("three nodes");
        let in_a = vec![vec!["lab-a".to_owned()]];
        assert_eq!(zones_of_replacements(first().drifted("2026-01-01T11:00:00Z"), rule), in_a);
        assert_eq!(zones_of_replacements(first().expires_after("12h"), rule), in_a);
    }
}

#[test]
fn a_drifted_node_gives_up_a_preference_that_nothing_keeps() {
    // The NodePool launches in `lab-b` alone, where the node does not fit any more.
    let soft = HARD_ZONES.replace("DoNotSchedule", "ScheduleAnyway");
    let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [lab-b]}";
    let text = pool("default").requirement(zone).text()
        + &node("n-1", "box").text()
        + &with(web(), &soft).text()
        + &node("n-2", "box").zone("lab-b").text()
        + &with(pod("web-2", "n-2", "1"), &soft).text();
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Drifted n-1: saves 0.20\n  web-1 to n-2\n"), "{rendered}");
}

#[test]
fn an_expired_node_goes_although_its_pod_waits_until_it_is_gone() {
    // The same with a required spread: two pods in `lab-b` and none in `lab-a` until the node is gone.
    let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [lab-b]}";
    let text = |first: NodeText| {
        pool("default").requirement(zone).text()
            + &first.text()
            + &with(web(), HARD_ZONES).text()
            + &node("n-2", "box").zone("lab-b").text()
            + &with(pod("web-2", "n-2", "1"), HARD_ZONES).text()
    };
    let expired = rendered(&text(node("n-1", "box").expires_after("12h")));
    assert!(expired.starts_with("Expired n-1: saves 0.20\n  web-1 to n-2\n"), "{expired}");
    // Drift waits.
    let drifted = rendered(&text(node("n-1", "box")));
    assert!(drifted.starts_with("n-1 stays (Drifted): NoCapacity Pod/shop/web-1\n"), "{drifted}");
}

/// `flex` with the annotation, whose nodes are given; each has a pod of one CPU.
fn annotated(annotation: &str, nodes: [NodeText; 3]) -> String {
    let mut text = pool("flex").annotation(annotation).text();
    for (at, node) in nodes.into_iter().enumerate() {
        text += &(node.pool("flex").text() + &web_pod(at, at).text());
    }
    text
}

/// On-demand, on-demand, spot, in one zone.
fn mixed() -> [NodeText; 3] {
    [node("n-1", "box"), node("n-2", "box"), node("n-3", "box").spot()]
}

fn commands(rendered: &str) -> usize {
    rendered.lines().filter(|line| line.starts_with("Underutilized")).count()
}

#[test]
fn on_demand_nodes_are_kept_beside_spot() {
    assert_eq!(commands(&rendered(&annotated("", mixed()))), 2);
    let kept = rendered(&annotated("fleetwright.dev/on-demand-min-nodes: \"2\"", mixed()));
    // The spot node may go: its pod fits on one of the others, which are needed by nothing else.
    let on_demand =
        ["n-1 stays (Underutilized): Policy NodePool/flex", "n-2 stays (Underutilized): Policy NodePool/flex"];
    assert!(on_demand.iter().all(|line| kept.contains(line)) || kept.starts_with("Underutilized n-3"), "{kept}");
    assert!(!kept.contains("Underutilized n-1") && !kept.contains("Underutilized n-2"), "{kept}");
}

#[test]
fn the_share_of_spot_stays_below_its_limit() {
    // Without a rule the on-demand nodes, which cost more, go. At most half on spot: one on-demand node stays beside it.
    let all = rendered(&annotated("", mixed()));
    assert!(all.contains("n-3 stays"), "{all}");
    let half = rendered(&annotated("fleetwright.dev/spot-max-percent: \"50\"", mixed()));
    let gone: Vec<&str> = half.lines().filter(|line| line.starts_with("Underutilized")).collect();
    assert!(!gone.is_empty() && !half.contains("launch"), "{half}");
    let stays_on_demand = half.contains("n-1 stays") || half.contains("n-2 stays");
    assert!(stays_on_demand, "{half}");
}

#[test]
fn the_least_number_of_nodes_is_kept() {
    for (least, gone) in [(1, 2), (2, 1), (3, 0)] {
        let annotation = format!("fleetwright.dev/min-nodes: \"{least}\"");
        let rendered = rendered(&annotated(&annotation, mixed()));
        assert_eq!(rendered.lines().filter(|line| line.starts_with("Underutilized")).count(), gone, "{rendered}");
    }
    // Three nodes for two pods that may stand apart: a third one is bought for nobody.
    let mut nodes = mixed().map(|node| node.pool("flex").text()).concat();
    nodes += &(pod("web-1", "n-1", "1").text() + &pod("web-2", "n-2", "1").text());
    let rendered = rendered(&(pool("flex").annotation("fleetwright.dev/min-nodes: \"3\"").text() + &nodes));
    assert!(rendered.contains("Empty n-3"), "{rendered}");
}

#[test]
fn zones_of_a_pool_stay_balanced() {
    // Two nodes in each of `lab-a` and `lab-b`, the first two with little on them and the others held. Without a rule both
    // go; balanced, one does: none in `lab-a` and two in `lab-b` differ by two.
    let text = |annotation: &str| {
        let mut text = pool("default").annotation(annotation).text();
        for (at, (zone, cpus)) in
            [("lab-a", "500m"), ("lab-a", "500m"), ("lab-b", "3"), ("lab-b", "3")].iter().enumerate()
        {
            let name = format!("n-{}", at + 1);
            let mut node = node(&name, "box").zone(zone);
            if at > 1 {
                node = node.do_not_disrupt();
            }
            text += &(node.text() + &pod(&format!("web-{}", at + 1), &name, cpus).text());
        }
        text
    };
    assert_eq!(commands(&rendered(&text(""))), 2);
    let balanced = rendered(&text("fleetwright.dev/zone-balance: \"true\""));
    assert_eq!(commands(&balanced), 1, "{balanced}");
    assert!(balanced.contains("stays (Underutilized): Policy NodePool/default"), "{balanced}");
}

#[test]
fn an_empty_node_that_an_annotation_needs_is_kept() {
    // Of one on-demand node and one of spot, both with a pod, the second on-demand node is the empty one.
    let mut text = pool("flex").annotation("fleetwright.dev/on-demand-min-nodes: \"2\"").text();
    text += &mixed().map(|node| node.pool("flex").text()).concat();
    text += &(pod("web-1", "n-1", "4").text() + &pod("web-3", "n-3", "4").text());
    let kept = rendered(&text);
    assert!(kept.contains("n-2 stays (Empty): Policy NodePool/flex"), "{kept}");
}

#[test]
fn a_drifted_node_is_replaced_though_its_pool_has_less_than_an_annotation_asks_for() {
    // Three on-demand nodes are asked for; there are two, and another one replaces the drifted one.
    let [first, second, third] = mixed();
    let nodes = [first.drifted("2026-01-01T11:00:00Z"), second, third];
    let rendered = rendered(&annotated("fleetwright.dev/on-demand-min-nodes: \"3\"", nodes));
    assert!(rendered.starts_with("Drifted n-1: saves 0.00\n  launch flex-1: box"), "{rendered}");
    assert!(rendered.lines().nth(1).is_some_and(|line| line.ends_with("on-demand")), "{rendered}");
}

#[test]
fn a_pool_launches_for_a_drifted_node_no_more_than_it_lacks_beside_those_that_stay() {
    // Three nodes with two pods each, of which `min-nodes` asks for three: one replaces one.
    let nodes = [node("n-1", "box").drifted("2026-01-01T11:00:00Z"), node("n-2", "box"), node("n-3", "box")];
    let mut text = pool("default").annotation("fleetwright.dev/min-nodes: \"3\"").text();
    for (at, node) in nodes.into_iter().enumerate() {
        text += &node.text();
        for pod_at in 0..2 {
            text += &pod(&format!("web-{at}-{pod_at}"), &format!("n-{}", at + 1), "1500m").text();
        }
    }
    let rendered = rendered(&text);
    assert_eq!(rendered.matches("launch default-").count(), 1, "{rendered}");
}

#[test]
fn a_drifted_node_that_several_machines_replace_counts_those_that_stay() {
    // Two of the four pods fit on a `box`: two are enough, as `min-nodes` asks for five and four stay.
    let only_boxes = "{key: node.kubernetes.io/instance-type, operator: In, values: [box]}";
    let mut text = pool("default").requirement(only_boxes).annotation("fleetwright.dev/min-nodes: \"5\"").text();
    text += &node("n-1", "big").drifted("2026-01-01T11:00:00Z").text();
    for at in 0..4 {
        text += &pod(&format!("web-{at}"), "n-1", "1500m").text();
    }
    for at in 2..6 {
        text +=
            &(node(&format!("n-{at}"), "box").text() + &pod(&format!("other-{at}"), &format!("n-{at}"), "3").text());
    }
    let rendered = rendered(&text);
    assert!(rendered.starts_with("Drifted n-1: saves 0.00\n"), "{rendered}");
    assert_eq!(rendered.matches("launch default-").count(), 2, "{rendered}");
}

#[test]
fn an_expired_node_goes_though_its_pod_prefers_the_zone_that_has_too_many() {
    // Both nodes are in `lab-a`, which the pod of the expired one prefers; a new one in `lab-a` would leave two there.
    let prefers = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
                   {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [lab-a]}]}}]}}";
    let mut text = pool("default").annotation("fleetwright.dev/zone-balance: \"true\"").text();
    text += &(node("n-1", "box").zone("lab-a").text() + &pod("web-1", "n-1", "3").text());
    text += &node("n-2", "box").zone("lab-a").expires_after("12h").text();
    text += &pod("web-2", "n-2", "3").spec(prefers).text();
    let plan = plan_of(&read_at(NOW, &catalogue(), &text), &Settings::default());
    assert_eq!(plan.commands[0].nodes, [1], "{}", render(&plan));
    let zones: Vec<String> =
        plan.plan.nodes.iter().flat_map(|node| node.zones.iter().map(ToString::to_string)).collect();
    assert!(!zones.is_empty() && !zones.contains(&"lab-a".to_owned()), "{zones:?}");
}

#[test]
fn a_command_that_would_take_the_last_pod_of_a_zone_from_the_spread_of_an_earlier_one_waits_for_it() {
    // Both pods of the drifted node fit on n-1 alone: two in lab-a, one in lab-b, which nothing runs again once n-3 goes.
    let mut text = pool("default").text();
    text += &node("n-1", "box").zone("lab-a").do_not_disrupt().text();
    text += &node("n-2", "box").zone("lab-b").drifted("2026-01-01T11:00:00Z").text();
    text += &with(pod("web-1", "n-2", "1"), HARD_ZONES).text();
    text += &with(pod("web-2", "n-2", "1"), HARD_ZONES).text();
    text += &(node("n-3", "box").zone("lab-b").text() + &pod("web-3", "n-3", "4").owner("").text());
    text += &(node("n-4", "box").zone("lab-b").do_not_disrupt().text() + &pod("other-1", "n-4", "4").text());
    let rendered = crate::rendered_with(&Settings::default(), &text);
    let expected = "Drifted n-2: saves 0.20\n  web-1 to n-1\n  web-2 to n-1\n";
    assert!(rendered.starts_with(expected), "{rendered}");
    assert!(rendered.contains("\nn-3 stays (Underutilized): NoCapacity Node/n-2\n"), "{rendered}");
}

#[test]
fn a_drifted_node_is_replaced_where_an_annotation_needs_it() {
    // Its pod fits on another node, and then two of three nodes would be left.
    let [first, second, third] = mixed();
    let nodes = [first.drifted("2026-01-01T11:00:00Z"), second, third];
    let rendered = rendered(&annotated("fleetwright.dev/on-demand-min-nodes: \"2\"", nodes));
    assert!(rendered.starts_with("Drifted n-1: saves 0.00\n  launch flex-1: box"), "{rendered}");
    assert!(rendered.lines().nth(1).is_some_and(|line| line.ends_with("on-demand")), "{rendered}");
}
