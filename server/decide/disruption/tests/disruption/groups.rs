//! Several nodes replaced at once: a command takes no node whose removal saves nothing.

use disruption::Settings;
use model::MicroUsd;

use crate::objects::PodText;
use crate::{node, plan_with, pool, render};

fn commands(settings: &Settings, text: &str) -> String {
    let rendered = render(&plan_with(settings, text));
    rendered.lines().filter(|line| !line.contains(" stays ")).map(|line| format!("{line}\n")).collect()
}

fn pinned(name: &str, node: &str, cpu: &str) -> PodText {
    crate::pod(name, node, cpu)
        .spec("nodeSelector: {karpenter.sh/capacity-type: on-demand, node.kubernetes.io/instance-type: big}")
}

/// `n-1` is pinned to an on-demand `big`, as it is. `n-2` costs 0.40 on-demand and 0.16 spot.
#[test]
fn a_pinned_node_is_not_replaced_by_its_like_together_with_its_neighbour() {
    let text = pool("flex").text()
        + &node("n-1", "big").pool("flex").text()
        + &pinned("db-1", "n-1", "6").text()
        + &node("n-2", "big").pool("flex").text()
        + &crate::pod("web-1", "n-2", "6").text();
    let expected = "Underutilized n-2: saves 0.24\n  launch flex-1: big spot\n  web-1 to flex-1\n";
    assert_eq!(commands(&Settings::default(), &text), expected);
    // What is saved is judged by the moves of the command alone: one pod.
    let churn = |cents: i64| Settings { churn_price: MicroUsd(cents * 10_000), ..Settings::default() };
    assert_eq!(commands(&churn(23), &text), expected);
    assert_eq!(commands(&churn(24), &text), "");
}

/// Spot machines in place of `n-1` save 0.24 for eight moves, and those for `n-2` and `n-3` together as much for two.
#[test]
fn a_part_that_is_not_worth_its_moves_is_left_out_of_a_group() {
    let mut text = pool("flex").text() + &node("n-1", "big").pool("flex").text();
    for at in 0..8 {
        text += &crate::pod(&format!("api-{at}"), "n-1", "950m").text();
    }
    for at in 2..4 {
        text += &(node(&format!("n-{at}"), "box").pool("flex").text()
            + &crate::pod(&format!("web-{at}"), &format!("n-{at}"), "3900m").text());
    }
    let expected = "Underutilized n-2 n-3: saves 0.24\n  launch flex-1: box spot\n  launch flex-2: box spot\n  web-2 to \
                    flex-1\n  web-3 to flex-2\n";
    // 0.32 for the moves of `n-1`, and 0.08 for the others.
    let settings = Settings { churn_price: MicroUsd(40_000), ..Settings::default() };
    assert_eq!(commands(&settings, &text), expected);
}

/// A DaemonSet takes half a CPU of spot nodes, so that no spot `big` runs both pods of `n-2`: one goes where `n-1` has room,
/// and the other to a spot `big`. `n-1` would have to be replaced by its like for nothing.
#[test]
fn pods_move_to_a_pinned_node_instead_of_its_like() {
    let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: shop}\nspec: {selector: {matchLabels: \
                  {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {karpenter.sh/capacity-type: \
                  spot}, containers: [{name: a, resources: {requests: {cpu: 500m}}}]}}}\n---\n";
    let text = pool("flex").text()
        + daemon
        + &node("n-1", "big").pool("flex").text()
        + &pinned("db-1", "n-1", "5").text()
        + &node("n-2", "big").pool("flex").text()
        + &crate::pod("web-1", "n-2", "3").text()
        + &crate::pod("api-1", "n-2", "5").text();
    let expected = "Underutilized n-2: saves 0.24\n  launch flex-1: big spot\n  api-1 to flex-1\n  web-1 to n-1\n";
    let mut lines: Vec<String> = commands(&Settings::default(), &text).lines().map(str::to_owned).collect();
    lines[2..].sort();
    assert_eq!(lines.join("\n") + "\n", expected);
}
