//! PodDisruptionBudgets: of one node, of several pods, and of several nodes together.

use crate::blocks::{FREE, first, web};
use crate::objects::{PodText, pod_budget, pod_budget_with};
use crate::{node, pod, rendered, two_nodes};

fn assert_held(text: &str, by: &str) {
    let expected = format!("Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): {by}\n");
    assert_eq!(rendered(text), expected);
}

const BY_WEB: &str = "PodDisruptionBudget PodDisruptionBudget/shop/web";

#[test]
fn a_budget_that_allows_no_eviction_blocks() {
    assert_held(&(two_nodes(&first(), &web()) + &pod_budget("web", 0)), BY_WEB);
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &pod_budget("web", 1))), FREE);
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &pod_budget("other", 0))), FREE);
}

#[test]
fn a_pod_with_several_budgets_is_never_evicted() {
    let budget = |name: &str| pod_budget_with(name, "web", "maxUnavailable: 1", "status: {disruptionsAllowed: 1}");
    let by = "PodDisruptionBudget PodDisruptionBudget/shop/a, PodDisruptionBudget PodDisruptionBudget/shop/b";
    assert_held(&(two_nodes(&first(), &web()) + &budget("a") + &budget("b")), by);
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &budget("a"))), FREE);
}

#[test]
fn a_budget_that_always_evicts_unhealthy_pods_does_not_block_those() {
    let budget = |policy: &str| {
        let spec = format!("maxUnavailable: 1, unhealthyPodEvictionPolicy: {policy}");
        pod_budget_with("web", "web", &spec, "status: {disruptionsAllowed: 0}")
    };
    assert_eq!(rendered(&(two_nodes(&first(), &web().not_ready()) + &budget("AlwaysAllow"))), FREE);
    assert_held(&(two_nodes(&first(), &web().not_ready()) + &budget("IfHealthyBudget")), BY_WEB);
    assert_held(&(two_nodes(&first(), &web()) + &budget("AlwaysAllow")), BY_WEB);
}

#[test]
fn pods_that_a_drain_does_not_evict_are_held_by_no_budget() {
    let tolerant = web().spec("tolerations: [{key: karpenter.sh/disrupted, operator: Exists}]");
    assert_eq!(rendered(&(two_nodes(&first(), &tolerant) + &pod_budget("web", 0))), FREE);
    let tolerant = daemon().spec("tolerations: [{operator: Exists}]").text();
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &tolerant + &pod_budget("agent", 0))), FREE);
    let mirror = daemon().owner("Node").annotation("kubernetes.io/config.mirror: x").text();
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &mirror + &pod_budget("agent", 0))), FREE);
}

/// A pod of a DaemonSet, which ends with its node.
fn daemon() -> PodText {
    pod("agent-1", "n-1", "100m").owner("DaemonSet")
}

/// The drain evicts it, and would wait for ever.
#[test]
fn a_budget_of_a_daemon_set_s_pods_blocks_the_nodes_that_a_drain_evicts_them_from() {
    let with = |allowed| two_nodes(&first(), &web()) + &daemon().text() + &pod_budget("agent", allowed);
    assert_held(&with(0), "PodDisruptionBudget PodDisruptionBudget/shop/agent");
    assert_eq!(rendered(&with(1)), FREE);
    // The same without a status: `minAvailable` of its only pod lets none go.
    let stated = |least: u32| pod_budget_with("agent", "agent", &format!("minAvailable: {least}"), "");
    let text = two_nodes(&first(), &web()) + &daemon().text();
    assert_held(&(text.clone() + &stated(1)), "PodDisruptionBudget PodDisruptionBudget/shop/agent");
    assert_eq!(rendered(&(text + &stated(0))), FREE);
    // An empty node is drained as well.
    let text = node("n-1", "box").text() + &daemon().text() + &pod_budget("agent", 0);
    assert_eq!(rendered(&text), "n-1 stays (Empty): PodDisruptionBudget PodDisruptionBudget/shop/agent\n");
}

/// `n-1` with one pod and `n-3` with two, of which the `web` pods are two: three CPUs are free on `n-2`, which stays.
/// `n-1` saves more for each moved pod, and is first.
fn three_nodes(third: &str) -> String {
    first().text()
        + &web().text()
        + &node("n-2", "box").do_not_disrupt().text()
        + &pod("api-1", "n-2", "1").text()
        + &node("n-3", "big").text()
        + &pod(third, "n-3", "1").text()
        + &pod("job-1", "n-3", "1").text()
}

#[test]
fn two_nodes_need_evictions_for_the_sum_of_their_pods() {
    let both = "Underutilized n-1: saves 0.40\n  web-1 to n-2\nUnderutilized n-3: saves 0.40\n  job-1 to n-2\n  web-2 to \
                n-2\nn-2 stays (Underutilized): DoNotDisrupt Node/n-2\n";
    assert_eq!(sorted_moves(&(three_nodes("web-2") + &pod_budget("web", 2))), both);
    let one = format!(
        "Underutilized n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): DoNotDisrupt Node/n-2\nn-3 stays \
         (Underutilized): {BY_WEB}\n"
    );
    assert_eq!(rendered(&(three_nodes("web-2") + &pod_budget("web", 1))), one);
}

/// The rendered plan with the moves of each command by the name of the pod.
fn sorted_moves(text: &str) -> String {
    let rendered = rendered(text);
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in rendered.lines() {
        match blocks.last_mut().filter(|_| line.starts_with("  ")) {
            Some(block) => block.push(line),
            None => blocks.push(vec![line]),
        }
    }
    blocks.iter_mut().for_each(|block| block[1..].sort_unstable());
    blocks.concat().join("\n") + "\n"
}

#[test]
fn one_allowed_eviction_is_enough_for_all_pods_of_one_node() {
    let text = first().text()
        + &web().text()
        + &pod("web-2", "n-1", "1").text()
        + &node("n-2", "box").do_not_disrupt().text()
        + &pod("api-1", "n-2", "1").text()
        + &pod_budget("web", 1);
    let expected = "Underutilized n-1: saves 0.40\n  web-1 to n-2\n  web-2 to n-2\nn-2 stays (Underutilized): \
                    DoNotDisrupt Node/n-2\n";
    assert_eq!(sorted_moves(&text), expected);
}

#[test]
fn a_forceful_removal_uses_up_allowed_evictions() {
    // `n-1` expired at 12:00.
    let text = three_nodes("web-2").replacen("requirements: []", "requirements: [], expireAfter: 12h", 1);
    let expected = format!(
        "Expired n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): DoNotDisrupt Node/n-2\nn-3 stays \
         (Underutilized): {BY_WEB}\n"
    );
    assert_eq!(rendered(&(text + &pod_budget("web", 1))), expected);
}

#[test]
fn a_budget_without_a_status_allows_what_its_threshold_does() {
    let with = |spec: &str| two_nodes(&first(), &web()) + &pod_budget_with("web", "web", spec, "");
    assert_held(&with("minAvailable: 1"), BY_WEB);
    assert_held(&with("maxUnavailable: 0"), BY_WEB);
    assert_eq!(rendered(&with("maxUnavailable: 1")), FREE);
}
