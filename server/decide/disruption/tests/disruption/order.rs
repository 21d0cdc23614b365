//! The order of commands, and which of several reasons a node goes for.

use disruption::Settings;

use crate::objects::NodeText;
use crate::{node, pod, pool, rendered, rendered_with};

const REPAIR: Settings = Settings {
    min_savings: model::MicroUsd(0),
    churn_price: model::MicroUsd(0),
    spot_to_spot: false,
    node_repair: true,
    removals: None,
    launches: None,
};

const SINCE: &str = "2026-01-01T11:00:00Z";

fn unhealthy(node: NodeText) -> NodeText {
    node.ready("False", "2026-01-01T11:00:00Z")
}

/// The lines of commands, without launches and moves.
fn commands(text: &str) -> Vec<String> {
    let rendered = rendered_with(&REPAIR, &(pool("default").text() + text));
    rendered.lines().filter(|line| !line.starts_with("  ") && !line.contains("stays")).map(str::to_owned).collect()
}

#[test]
fn commands_come_in_the_order_of_their_reasons() {
    let text = node("n-5", "big").text()
        + &pod("e-1", "n-5", "1").text()
        + &node("n-4", "big").drifted(SINCE).text()
        + &pod("d-1", "n-4", "1").text()
        + &node("n-3", "big").node_spec("taints: [{key: db, effect: NoSchedule}]").text()
        + &node("n-2", "big").expires_after("12h").text()
        + &pod("b-1", "n-2", "1").text()
        + &unhealthy(node("n-1", "big")).text()
        + &pod("a-1", "n-1", "1").text()
        + &node("n-6", "big").do_not_disrupt().text()
        + &pod("f-1", "n-6", "1").text();
    // The five pods fit on `n-6`.
    let saved = |reason: &str, node: &str| format!("{reason} {node}: saves 0.40");
    assert_eq!(
        commands(&text),
        [
            saved("Unhealthy", "n-1"),
            saved("Expired", "n-2"),
            saved("Empty", "n-3"),
            saved("Drifted", "n-4"),
            saved("Underutilized", "n-5")
        ]
    );
}

#[test]
fn a_node_goes_for_the_first_of_its_reasons() {
    let empty = |node: NodeText| commands(&node.text());
    let used = |first: NodeText| {
        let receiver = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
        commands(&(first.text() + &pod("web-1", "n-1", "1").text() + &receiver))
    };
    let big = || node("n-1", "big");
    let expired = || big().expires_after("12h");
    // The circuit breaker repairs one of one, and one of two.
    assert_eq!(empty(unhealthy(expired().drifted(SINCE))), ["Unhealthy n-1: saves 0.40"]);
    assert_eq!(empty(expired().drifted(SINCE)), ["Expired n-1: saves 0.40"]);
    assert_eq!(empty(big().drifted(SINCE)), ["Empty n-1: saves 0.40"]);
    assert_eq!(used(unhealthy(expired().drifted(SINCE))), ["Unhealthy n-1: saves 0.40"]);
    assert_eq!(used(expired().drifted(SINCE)), ["Expired n-1: saves 0.40"]);
    assert_eq!(used(big().drifted(SINCE)), ["Drifted n-1: saves 0.40"]);
    assert_eq!(used(big()), ["Underutilized n-1: saves 0.40"]);
}

#[test]
fn a_later_command_does_not_use_the_room_that_an_earlier_one_filled() {
    // One CPU is free on `n-2`, and `n-3` admits the pods of `db` only.
    let guarded = node("n-3", "big").node_spec("taints: [{key: db, effect: NoSchedule}]").text()
        + &pod("db-1", "n-3", "1").spec("tolerations: [{key: db, operator: Exists}]").text();
    let second = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
    let stays = "n-2 stays (Underutilized): DoNotDisrupt Node/n-2\n";
    let alone = format!("Underutilized n-3: saves 0.40\n  db-1 to n-2\n{stays}");
    assert_eq!(rendered(&(guarded.clone() + &second)), alone);
    let first = node("n-1", "big").drifted(SINCE).text() + &pod("web-1", "n-1", "1").text();
    let both = format!(
        "Drifted n-1: saves 0.40\n  web-1 to n-2\nUnderutilized n-3: saves 0.20\n  launch default-1: box on-demand\n  \
         db-1 to default-1\n{stays}"
    );
    assert_eq!(rendered(&(first + &guarded + &second)), both);
}

#[test]
fn an_empty_node_takes_pods_of_nodes_that_must_go_and_stays() {
    // A `box` would cost as much as `n-2`, which is there.
    let text =
        node("n-1", "big").expires_after("12h").text() + &pod("web-1", "n-1", "1").text() + &node("n-2", "box").text();
    let expected = "Expired n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&text), expected);
}

#[test]
fn an_empty_node_that_pods_could_move_to_goes_where_other_nodes_have_room() {
    // The pod fits on `n-3`, which stays in any case: 0.80 less.
    let text = node("n-1", "big").expires_after("12h").text()
        + &pod("web-1", "n-1", "1").text()
        + &node("n-2", "big").text()
        + &node("n-3", "box").do_not_disrupt().text()
        + &pod("api-1", "n-3", "1").text();
    let plan = crate::plan(&text);
    assert_eq!(plan.cost.after, model::MicroUsd(200_000), "{}", crate::render(&plan));
    assert_eq!(plan.commands[0].placements[0].1.as_ref(), "n-3");
}

#[test]
fn the_dearest_empty_nodes_go_first() {
    let text = pool("default").budgets("{nodes: \"1\"}").text()
        + &node("n-1", "box").text()
        + &node("n-2", "big").text()
        + &node("n-3", "box").text();
    let line = |name: &str| format!("{name} stays (Empty): Budget NodePool/default\n");
    let expected = "Empty n-2: saves 0.40\n".to_owned() + &line("n-1") + &line("n-3");
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

/// Two nodes of one type, each with a pod that fits onto the other; `first` and `second` are annotations of them.
fn either(first: &str, second: &str) -> String {
    let with = |name: &str, node: &str, annotation: &str| {
        let pod = pod(name, node, "1");
        if annotation.is_empty() { pod.text() } else { pod.annotation(annotation).text() }
    };
    let pods = with("web-1", "n-1", first) + &with("api-1", "n-2", second);
    rendered(&(node("n-1", "box").text() + &node("n-2", "box").text() + &pods))
}

#[test]
fn the_node_whose_pods_cost_less_to_disrupt_goes_first() {
    let goes = |node: &str, pod: &str, other: &str| {
        format!(
            "Underutilized {node}: saves 0.20\n  {pod} to {other}\n{other} stays (Underutilized): NoSavings Node/{other}\n"
        )
    };
    // 2^27 adds the cost of one pod.
    for key in ["karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost"] {
        let dear = format!("{key}: \"134217728\"");
        assert_eq!(either(&dear, ""), goes("n-2", "api-1", "n-1"), "{key}");
        assert_eq!(either("", &dear), goes("n-1", "web-1", "n-2"), "{key}");
    }
}
