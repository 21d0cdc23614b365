//! What blocks a node. In each test the same cluster without the block loses `n-1`, so a guard that is switched off fails
//! the test of its name.

use disruption::Settings;

use model::running::RecentMove;
use model::{Millis, PodKey, Timestamp};

use crate::objects::{NodeText, PodText};
use crate::{
    CATALOGUE, DisruptionPlan, NOW, held, node, plan_of, pod, pool, read_at, render, rendered, rendered_with, two_nodes,
};

/// `web-1` takes the free CPU of `n-2`, and `n-1` is not needed. Nothing else saves: no machine costs less than a `box`.
pub const FREE: &str = "Underutilized n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";

pub fn web() -> PodText {
    pod("web-1", "n-1", "1")
}

pub fn first() -> NodeText {
    node("n-1", "big")
}

/// `n-1` stays, held by `by`. It has seven CPUs free, so `n-2` goes instead.
fn assert_held(text: &str, by: &str) {
    let expected = format!("Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): {by}\n");
    assert_eq!(rendered(text), expected);
}

/// As [`assert_held`]; `n-1` takes no pods, and `n-2` stays too.
fn assert_closed(text: &str, by: &str) {
    let expected = format!("n-1 stays (Underutilized): {by}\nn-2 stays (Underutilized): NoSavings Node/n-2\n");
    assert_eq!(rendered(text), expected);
}

#[test]
fn a_node_that_nothing_blocks_goes() {
    assert_eq!(rendered(&two_nodes(&first(), &web())), FREE);
}

#[test]
fn do_not_disrupt_on_a_pod_blocks_while_it_lasts() {
    let with = |value: &str| two_nodes(&first(), &web().do_not_disrupt(value));
    let by = "DoNotDisrupt Pod/shop/web-1";
    assert_held(&with("true"), by);
    // The pod has run for an hour.
    assert_held(&with("60m1s"), by);
    assert_eq!(rendered(&with("60m")), FREE);
    for ignored in ["false", "True", "-5m", "soon"] {
        assert_eq!(rendered(&with(ignored)), FREE, "{ignored}");
    }
    // The duration begins with the start of the pod.
    assert_held(&two_nodes(&first(), &web().do_not_disrupt("1s").not_started()), by);
}

#[test]
fn a_pod_of_another_scheduler_blocks_because_no_place_can_be_planned_for_it() {
    let text = two_nodes(&first(), &web().spec("schedulerName: volcano"));
    assert_held(&text, "OtherScheduler Pod/shop/web-1");
    assert_eq!(rendered(&two_nodes(&first(), &web().spec("schedulerName: default-scheduler"))), FREE);
}

#[test]
fn do_not_disrupt_on_a_node_blocks_while_it_lasts() {
    let with =
        |value: &str| two_nodes(&first().annotation(&format!("karpenter.sh/do-not-disrupt: \"{value}\"")), &web());
    let by = "DoNotDisrupt Node/n-1";
    assert_held(&with("true"), by);
    // The node was created twelve hours ago.
    assert_held(&with("12h1s"), by);
    assert_eq!(rendered(&with("12h")), FREE);
    assert_eq!(rendered(&with("false")), FREE);
}

/// The plan of a cluster on whose node `n-1` the pod `web-1` was moved; it may be moved again in 90 s.
fn plan_after_move(text: &str) -> DisruptionPlan {
    let mut captured = read_at(NOW, CATALOGUE, &(pool("default").text() + text));
    let pod = PodKey { namespace: "shop".into(), name: "web-1".into() };
    let until = Timestamp::from_millis(NOW) + Millis::from_secs(90);
    captured.running.nodes[0].recent_move = Some(RecentMove { pod, until });
    plan_of(&captured, &Settings::default())
}

#[test]
fn a_pod_that_was_moved_lately_blocks_its_node_from_consolidation() {
    let plan = plan_after_move(&two_nodes(&first(), &web()));
    let by = "RecentlyMoved Pod/shop/web-1";
    let expected = format!("Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): {by}\n");
    assert_eq!(render(&plan), expected);
    let why = "was moved by consolidation, which may move it again in 1 min 30 s, at 2026-01-01T12:01:30Z (disruption.move-interval)";
    assert_eq!(plan.held[0].by[0].message, why);
}

#[test]
fn a_pod_that_was_moved_lately_blocks_its_node_from_no_other_removal() {
    let drifted = render(&plan_after_move(&two_nodes(&first().drifted("2026-01-01T11:00:00Z"), &web())));
    assert!(drifted.starts_with("Drifted n-1: saves 0.40\n  web-1 to n-2\n"), "{drifted}");
    let empty = render(&plan_after_move(&first().text()));
    assert_eq!(empty, "Empty n-1: saves 0.40\n");
}

#[test]
fn do_not_disrupt_on_daemon_set_and_static_pods_blocks() {
    let with = |bound: &PodText| two_nodes(&first(), &web()) + &bound.text();
    let agent = || pod("agent-1", "n-1", "100m").owner("DaemonSet");
    assert_held(&with(&agent().do_not_disrupt("true")), "DoNotDisrupt Pod/shop/agent-1");
    assert_eq!(rendered(&with(&agent())), FREE);
    let proxy = || pod("proxy-1", "n-1", "100m").owner("Node").annotation("kubernetes.io/config.mirror: abc");
    assert_held(&with(&proxy().do_not_disrupt("true")), "DoNotDisrupt Pod/shop/proxy-1");
    assert_eq!(rendered(&with(&proxy())), FREE);
}

#[test]
fn do_not_disrupt_on_finished_and_terminating_pods_blocks_nothing() {
    for phase in ["Succeeded", "Failed"] {
        let finished = pod("batch-1", "n-1", "1").do_not_disrupt("true").phase(phase);
        assert_eq!(rendered(&(two_nodes(&first(), &web()) + &finished.text())), FREE, "{phase}");
    }
    let leaving = pod("batch-1", "n-1", "1").do_not_disrupt("true").metadata("deletionTimestamp: 2026-01-01T11:59:00Z");
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &leaving.text())), FREE);
}

/// The pool of the two nodes with `consolidateAfter`, and `n-1` with these conditions and status of its NodeClaim.
fn waiting(after: &str, conditions: &str, status: &str) -> String {
    let first = first().claim_conditions(conditions);
    let first = if status.is_empty() { first } else { first.claim_status(status) };
    let pool = pool("default").disruption(&format!("consolidateAfter: {after}, budgets: []"));
    let text = pool.text() + &two_nodes(&first, &web());
    rendered_with(&Settings::default(), &text)
}

/// `n-1` is not consolidatable yet. While `consolidateAfter` runs it takes no pods of other candidates either.
fn assert_waiting(rendered: &str) {
    let expected =
        "n-1 stays (Underutilized): ConsolidateAfter Node/n-1\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered, expected);
}

#[test]
fn consolidate_after_blocks_until_its_time_or_the_condition() {
    let no_condition = "{type: Registered, status: \"True\"}";
    let event = |time: &str| format!("lastPodEventTime: 2026-01-01T{time}Z");
    // Ten minutes before 12:00 is 11:50.
    assert_waiting(&waiting("10m", no_condition, &event("11:50:01")));
    assert_eq!(waiting("10m", no_condition, &event("11:50:00")), FREE);
    let is_true = "{type: Consolidatable, status: \"True\"}";
    assert_eq!(waiting("10m", is_true, &event("11:59:00")), FREE);
    let is_false = "{type: Consolidatable, status: \"False\"}";
    assert_eq!(waiting("10m", is_false, &event("11:50:00")), FREE);
    assert_waiting(&waiting("10m", is_false, &event("11:59:00")));
}

#[test]
fn without_a_pod_event_consolidate_after_counts_from_initialization() {
    let no_condition = "{type: Registered, status: \"True\"}";
    // Initialized at 00:05.
    assert_eq!(waiting("11h55m", no_condition, ""), FREE);
    assert_waiting(&waiting("11h55m1s", no_condition, ""));
}

#[test]
fn consolidate_after_never_blocks_whatever_the_condition_says() {
    let by = "ConsolidateAfter NodePool/default";
    let expected = format!("n-1 stays (Underutilized): {by}\nn-2 stays (Underutilized): {by}\n");
    assert_eq!(waiting("Never", "{type: Consolidatable, status: \"True\"}", ""), expected);
}

#[test]
fn a_node_that_is_not_initialized_is_held_and_takes_no_pods() {
    assert_closed(&two_nodes(&first().not_initialized(), &web()), "NotInitialized Node/n-1");
}

#[test]
fn a_node_claim_without_a_node_is_held_and_takes_no_pods() {
    // `n-3` has no Node yet. The other two are as without it.
    let text = two_nodes(&first(), &web()) + &node("n-3", "big").without_node().text();
    let expected = FREE.to_owned() + "n-3 stays (Underutilized): NotInitialized Node/n-3\n";
    assert_eq!(rendered(&text), expected);
}

#[test]
fn a_nominated_pod_blocks() {
    let nominated = |to: &str| two_nodes(&first(), &web()) + &pod("new-1", "", "1").pending(to).text();
    assert_held(&nominated("n-1"), "Nominated Pod/shop/new-1");
}

#[test]
fn a_pod_that_waits_blocks_the_node_that_it_is_planned_on() {
    let waiting =
        |selector: &str| two_nodes(&first(), &web()) + &pod("new-1", "", "1").pending("").spec(selector).text();
    assert_held(&waiting("nodeSelector: {kubernetes.io/hostname: n-1}"), "PendingPods Pod/shop/new-1");
    // No node and no machine has this label.
    assert_eq!(rendered(&waiting("nodeSelector: {disk: fast}")), FREE);
}

#[test]
fn a_pod_that_waits_for_a_machine_of_its_own_blocks_nothing() {
    let large = pod("new-1", "", "8").pending("").text();
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &large)), FREE);
}

#[test]
fn a_node_that_is_being_deleted_is_held_by_that() {
    let marks = [
        first().claim_metadata("deletionTimestamp: 2026-01-01T11:59:00Z"),
        first().node_metadata("deletionTimestamp: 2026-01-01T11:59:00Z"),
        first().annotation("fleetwright.dev/drain: '{\"claim\": \"n-1\"}'"),
    ];
    for mark in marks {
        // Its pod is planned on the free CPU of `n-2`, which stays for it.
        let expected =
            "n-1 stays (Underutilized): Deleting Node/n-1\nn-2 stays (Underutilized): PendingPods Pod/shop/web-1\n";
        assert_eq!(rendered(&two_nodes(&mark, &web())), expected);
    }
}

#[test]
fn when_empty_blocks_nodes_with_pods_only() {
    let pool = pool("default").disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmpty, budgets: []").text();
    let with = |text: &str| rendered_with(&Settings::default(), &(pool.clone() + text));
    let by = "Policy NodePool/default";
    let held = format!("n-1 stays (Underutilized): {by}\nn-2 stays (Underutilized): {by}\n");
    assert_eq!(with(&two_nodes(&first(), &web())), held);
    assert_eq!(with(&first().text()), "Empty n-1: saves 0.40\n");
}

/// `n-1`, a `box` with so many small pods, beside a `big` that stays with one pod. `n-1` is a third of the cost of both.
fn balanced(policy: &str, pods: usize) -> String {
    let disruption = format!("consolidateAfter: 0s, consolidationPolicy: {policy}, budgets: []");
    let pods: String = (0..pods).map(|at| pod(&format!("web-{at}"), "n-1", "100m").text()).collect();
    let text = pool("default").disruption(&disruption).text()
        + &node("n-1", "box").text()
        + &pods
        + &node("n-2", "big").do_not_disrupt().text()
        + &pod("api-1", "n-2", "1").text();
    let rendered = rendered_with(&Settings::default(), &text);
    rendered.lines().find(|line| line.contains("n-1")).unwrap_or_default().to_owned()
}

#[test]
fn the_policy_balanced_blocks_nodes_whose_removal_disrupts_more_than_twice_what_it_saves() {
    let goes = "Underutilized n-1: saves 0.20";
    // Disruption of `n-1` is 1 + 3 of 4 + 2 in all: 2/3, twice the third that is saved.
    assert_eq!(balanced("Balanced", 3), goes);
    // 5 of 7 is more.
    assert_eq!(balanced("Balanced", 4), "n-1 stays (Underutilized): Policy NodePool/default");
    assert_eq!(balanced("WhenEmptyOrUnderutilized", 4), goes);
}

#[test]
fn a_pod_that_nothing_else_can_run_blocks() {
    // No machine of the pool has the label.
    let with = |selector: &str| two_nodes(&first().label("disk: fast"), &web().spec(selector));
    assert_held(&with("nodeSelector: {disk: fast}"), "NoCapacity Node/n-1");
    assert_eq!(rendered(&with("nodeSelector: {kubernetes.io/arch: amd64}")), FREE);
}

#[test]
fn a_node_that_no_cheaper_machine_replaces_is_held_by_its_price() {
    assert_eq!(held(&(node("n-1", "box").text() + &web().text())), ["n-1 stays (Underutilized): NoSavings Node/n-1"]);
}

#[test]
fn nodes_of_a_static_pool_are_held() {
    let pool = pool("default").spec("replicas: 3").text();
    let text = pool + &two_nodes(&first(), &web()) + &node("n-3", "box").text();
    let by = "Static NodePool/default";
    let line = |node: &str, reason: &str| format!("{node} stays ({reason}): {by}\n");
    let expected = line("n-1", "Underutilized") + &line("n-2", "Underutilized") + &line("n-3", "Empty");
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

#[test]
fn all_that_blocks_a_node_is_named() {
    let text = two_nodes(&first().do_not_disrupt(), &web().do_not_disrupt("true"))
        + &crate::objects::pod_budget("db", 0)
        + &pod("db-1", "n-1", "1").text()
        + &pod("new-1", "", "1").pending("n-1").text();
    let by = "PodDisruptionBudget PodDisruptionBudget/shop/db, DoNotDisrupt Node/n-1, DoNotDisrupt Pod/shop/web-1, \
              Nominated Pod/shop/new-1";
    assert_held(&text, by);
}

#[test]
fn every_block_has_a_sentence() {
    let plan = crate::plan(&two_nodes(&first(), &web().do_not_disrupt("true")));
    let messages: Vec<&str> = plan.held.iter().flat_map(|held| &held.by).map(|block| block.message.as_str()).collect();
    assert_eq!(messages, ["has karpenter.sh/do-not-disrupt"]);
}

/// The pod `db-0` of a StatefulSet on `n-1`, which ends within an hour and is made anew under its name.
fn ending(cpu: &str) -> PodText {
    let since = "deletionTimestamp: 2026-01-01T12:59:50Z, deletionGracePeriodSeconds: 3600";
    pod("db-0", "n-1", cpu).owner("StatefulSet").metadata(since)
}

#[test]
fn a_terminating_pod_of_a_stateful_set_needs_a_place() {
    // One CPU is free on `n-2`, and none on a full `box`.
    let moved = "Underutilized n-1: saves 0.40\n  db-0 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&two_nodes(&first(), &ending("1"))), moved);
    let plan = crate::plan(&two_nodes(&node("n-1", "box"), &ending("2")));
    assert_eq!(plan.commands, [], "{}", render(&plan));
    // Beside a pod that runs, on two machines at once: both find a place or the node stays.
    let beside = two_nodes(&first(), &ending("500m")) + &pod("web-1", "n-1", "500m").text();
    let plan = crate::plan(&beside);
    assert_eq!(plan.commands[0].placements.len(), 2, "{}", render(&plan));
}

#[test]
fn a_node_with_a_terminating_pod_of_a_stateful_set_is_not_empty() {
    let pool = pool("default").disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmpty, budgets: []").text();
    let text = pool.clone() + &node("n-1", "big").text() + &ending("1").text();
    let by = "n-1 stays (Underutilized): Policy NodePool/default\n";
    assert_eq!(rendered_with(&Settings::default(), &text), by);
    // A pod of another owner is not made anew under its name; its successor waits for itself.
    let other = ending("1").owner("ReplicaSet");
    let text = pool + &node("n-1", "big").text() + &other.text();
    assert_eq!(rendered_with(&Settings::default(), &text), "Empty n-1: saves 0.40\n");
}

/// A claim of `web-1` that is bound to the volume `disk`, which only nodes with this label have.
fn claim_of(key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: disk}}\nspec: {{capacity: {{storage: 1Gi}}, local: {{path: \
         /data}}, claimRef: {{name: data, namespace: shop}}, nodeAffinity: {{required: {{nodeSelectorTerms: \
         [{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}]}}}}}}\n---\napiVersion: v1\nkind: \
         PersistentVolumeClaim\nmetadata: {{name: data, namespace: shop, annotations: {{pv.kubernetes.io/bind-completed: \
         \"yes\"}}}}\nspec: {{volumeName: disk}}\n---\n"
    )
}

#[test]
fn a_volume_on_the_disk_of_the_node_blocks() {
    let with_claim = || web().spec("volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]");
    let text = two_nodes(&first(), &with_claim()) + &claim_of("kubernetes.io/hostname", "n-1");
    assert_held(&text, "LocalVolume PersistentVolume/disk");
    let drifted = two_nodes(&first().drifted("2026-01-01T11:00:00Z"), &with_claim());
    let by = held(&(drifted + &claim_of("kubernetes.io/hostname", "n-1")));
    assert_eq!(by, ["n-1 stays (Drifted): LocalVolume PersistentVolume/disk"]);
}

/// A claim of `web-1` for the volume `disk` in `lab-b`.
fn claim_in_zone(metadata: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: disk}}\nspec: {{capacity: {{storage: 1Gi}}, csi: {{driver: \
         lab.csi, volumeHandle: disk}}, claimRef: {{name: data, namespace: shop}}, nodeAffinity: {{required: \
         {{nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, values: \
         [lab-b]}}]}}]}}}}}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: \
         shop{metadata}}}\nspec: {{volumeName: disk}}\nstatus: {{{status}}}\n---\n"
    )
}

#[test]
fn a_node_is_replaced_in_the_zone_of_the_disk_of_its_pod() {
    let with = |claim: &str| {
        let web = web().spec("volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]");
        crate::plan(&(first().zone("lab-b").text() + &web.text() + claim))
    };
    for claim in [
        claim_in_zone(", annotations: {pv.kubernetes.io/bind-completed: \"yes\"}", ""),
        claim_in_zone("", "phase: Bound"),
    ] {
        let plan = with(&claim);
        let expected = "Underutilized n-1: saves 0.20\n  launch default-1: box on-demand\n  web-1 to default-1\n";
        assert_eq!(render(&plan), expected);
        let zones: Vec<&str> = plan.plan.nodes[0].zones.iter().map(|zone| zone.as_ref()).collect();
        assert_eq!(zones, ["lab-b"]);
    }
    // No plan places the pod, so that its node stays.
    let plan = with(&claim_in_zone("", "phase: Pending"));
    assert_eq!(render(&plan), "n-1 stays (Underutilized): NoCapacity Pod/shop/web-1\n");
}
