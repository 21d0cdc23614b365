//! Removals that nothing blocks: of unhealthy and of expired nodes.

use disruption::Settings;

use crate::blocks::{FREE, first, web};
use crate::objects::{NodeText, pod_budget};
use crate::{node, plan, pod, pool, rendered, rendered_with, two_nodes};

const REPAIR: Settings = Settings {
    min_savings: model::MicroUsd(0),
    churn_price: model::MicroUsd(0),
    spot_to_spot: false,
    node_repair: true,
    removals: None,
    launches: None,
};

const UNHEALTHY: &str = "Unhealthy n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
const EXPIRED: &str = "Expired n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): NoSavings Node/n-2\n";

fn repaired(text: &str) -> String {
    rendered_with(&REPAIR, &(pool("default").text() + text))
}

/// A node with the condition that the cloud provider reports of it, and with `Ready` True.
fn with_condition(kind: &str, status: &str, since: &str) -> NodeText {
    first().node_conditions(&format!(
        "{{type: Ready, status: \"True\"}}, {{type: {kind}, status: \"{status}\", lastTransitionTime: \
         2026-01-01T{since}Z}}"
    ))
}

#[test]
fn a_node_is_repaired_when_the_toleration_of_its_condition_ends() {
    let not_ready = |status: &str, since: &str| {
        repaired(&two_nodes(&first().ready(status, &format!("2026-01-01T{since}Z")), &web()))
    };
    // Thirty minutes before 12:00.
    assert_eq!(not_ready("False", "11:30:00"), UNHEALTHY);
    assert_eq!(not_ready("False", "11:30:01"), FREE);
    assert_eq!(not_ready("Unknown", "11:30:00"), UNHEALTHY);
    assert_eq!(not_ready("Unknown", "11:30:01"), FREE);
    assert_eq!(not_ready("True", "09:00:00"), FREE);
    let with = |kind, status, since| repaired(&two_nodes(&with_condition(kind, status, since), &web()));
    assert_eq!(with("AcceleratedHardwareReady", "False", "11:50:00"), UNHEALTHY);
    assert_eq!(with("AcceleratedHardwareReady", "False", "11:50:01"), FREE);
    for kind in ["StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"] {
        assert_eq!(with(kind, "False", "11:30:00"), UNHEALTHY, "{kind}");
        assert_eq!(with(kind, "False", "11:30:01"), FREE, "{kind}");
        assert_eq!(with(kind, "Unknown", "09:00:00"), FREE, "{kind}");
    }
    assert_eq!(with("MemoryPressure", "True", "09:00:00"), FREE);
}

fn unhealthy(name: &str) -> NodeText {
    node(name, "big").ready("False", "2026-01-01T11:00:00Z")
}

#[test]
fn nodes_are_repaired_only_with_the_feature_gate() {
    assert_eq!(rendered(&two_nodes(&unhealthy("n-1"), &web())), FREE);
}

#[test]
fn a_repair_is_held_neither_by_budgets_nor_by_what_protects_pods_and_node() {
    let closed = pool("default").budgets("{nodes: \"0\"}").text();
    let text = closed
        + &two_nodes(&unhealthy("n-1").do_not_disrupt(), &web())
        + &pod("db-1", "n-1", "1").do_not_disrupt("true").text();
    let expected = "Unhealthy n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): Budget NodePool/default\n";
    assert_eq!(rendered_with(&REPAIR, &text), expected);
}

#[test]
fn do_not_repair_blocks_a_repair_and_nothing_else() {
    let kept = unhealthy("n-1").annotation("karpenter.sh/do-not-repair: \"true\"");
    let others = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
    let stays = "n-2 stays (Underutilized): DoNotDisrupt Node/n-2\n";
    let protected = web().do_not_disrupt("true").text();
    let text = kept.text() + &protected + &others;
    assert_eq!(repaired(&text), format!("n-1 stays (Unhealthy): DoNotDisrupt Node/n-1\n{stays}"));
    let text = kept.text() + &web().text() + &others;
    assert_eq!(repaired(&text), format!("Underutilized n-1: saves 0.40\n  web-1 to n-2\n{stays}"));
}

/// `unhealthy` of `nodes` empty nodes with do-not-disrupt, and further NodeClaims without a Node.
fn breaker(unhealthy: usize, nodes: usize, starting: usize) -> usize {
    let healthy = |name: &str| node(name, "big");
    let objects = (0..nodes).map(|at| {
        let name = format!("n-{at:02}");
        if at < unhealthy { self::unhealthy(&name) } else { healthy(&name) }
    });
    let starting = (0..starting).map(|at| node(&format!("s-{at}"), "big").without_node());
    let text: String = objects.map(NodeText::do_not_disrupt).chain(starting).map(|node| node.text()).collect();
    let plan = crate::plan_with(&REPAIR, &(pool("default").text() + &text));
    let is_blocked = |held: &&disruption::HeldNode| {
        held.reason == model::removal::RemovalReason::Unhealthy
            && held.by.iter().all(|by| by.code == disruption::BlockCode::Policy && by.object == "NodePool/default")
    };
    let removed = plan.commands.iter().map(|command| command.nodes.len()).sum();
    assert_eq!(removed + plan.held.iter().filter(is_blocked).count(), unhealthy);
    removed
}

#[test]
fn too_many_unhealthy_nodes_of_a_pool_are_not_repaired() {
    // A fifth, rounded up: of 5 one, of 6 two.
    assert_eq!(breaker(1, 5, 0), 1);
    assert_eq!(breaker(2, 5, 0), 0);
    assert_eq!(breaker(2, 6, 0), 2);
    assert_eq!(breaker(3, 6, 0), 0);
    // A NodeClaim without a Node is no node of the pool.
    assert_eq!(breaker(2, 5, 1), 0);
}

#[test]
fn nodes_within_their_toleration_count_as_unhealthy() {
    // `n-3` is not ready for a minute; one of five would be repaired.
    let young = node("n-3", "box").ready("False", "2026-01-01T11:59:00Z").do_not_disrupt();
    let healthy: String = (4..6).map(|at| node(&format!("n-{at}"), "box").do_not_disrupt().text()).collect();
    let text = |third: &NodeText| {
        let protected = web().do_not_disrupt("true");
        let second = node("n-2", "box").do_not_disrupt().text() + &pod("api-1", "n-2", "3").text();
        repaired(&(unhealthy("n-1").text() + &protected.text() + &second + &third.text() + &healthy))
    };
    assert!(text(&young).starts_with("n-1 stays (Unhealthy): Policy NodePool/default\n"), "{}", text(&young));
    let ready = node("n-3", "box").do_not_disrupt();
    assert!(text(&ready).starts_with("Unhealthy n-1: saves 0.40\n"), "{}", text(&ready));
}

#[test]
fn a_node_expires_at_its_age() {
    // Created twelve hours ago.
    let aged = |after: &str| rendered(&two_nodes(&first().expires_after(after), &web()));
    assert_eq!(aged("12h"), EXPIRED);
    assert_eq!(aged("12h1s"), FREE);
    assert_eq!(aged("Never"), FREE);
}

fn expired(name: &str, machine: &str) -> NodeText {
    node(name, machine).expires_after("12h")
}

#[test]
fn an_expired_node_goes_whatever_budgets_and_annotations_say() {
    let closed = pool("default").budgets("{nodes: \"0\"}").text();
    let text = closed + &two_nodes(&expired("n-1", "big").do_not_disrupt(), &web());
    let expected = "Expired n-1: saves 0.40\n  web-1 to n-2\nn-2 stays (Underutilized): Budget NodePool/default\n";
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

#[test]
fn pods_that_are_held_from_eviction_need_no_place() {
    let gone = "Expired n-1: saves 0.40\nn-2 stays (Underutilized): NoSavings Node/n-2\n";
    let first = || expired("n-1", "big");
    assert_eq!(rendered(&two_nodes(&first(), &web().do_not_disrupt("true"))), gone);
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &pod_budget("web", 0))), gone);
    assert_eq!(rendered(&(two_nodes(&first(), &web()) + &pod_budget("web", 1))), EXPIRED);
}

#[test]
fn a_forceful_removal_uses_up_the_budget() {
    let with = |count: u32| {
        let text = pool("default").budgets(&format!("{{nodes: \"{count}\"}}")).text()
            + &two_nodes(&expired("n-1", "big"), &web())
            + &node("n-3", "box").text();
        let rendered = rendered_with(&Settings::default(), &text);
        rendered.lines().filter(|line| line.contains("n-3")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(with(1), ["n-3 stays (Empty): Budget NodePool/default"]);
    assert_eq!(with(2), ["Empty n-3: saves 0.20"]);
}

#[test]
fn a_machine_is_launched_for_pods_of_an_expired_node_that_fit_nowhere() {
    // Two CPUs do not fit on `n-2`. A `box` saves 0.40 − 0.20.
    let text = two_nodes(&expired("n-1", "big").zone("lab-b"), &pod("web-1", "n-1", "2"));
    let expected = "Expired n-1: saves 0.20\n  launch default-1: box on-demand\n  web-1 to default-1\nn-2 stays \
                    (Underutilized): NoSavings Node/n-2\n";
    let plan = plan(&text);
    // Every `box` and `big` may be launched where its price does not matter.
    assert_eq!(crate::render(&plan).replace("box,big", "box"), expected);
}

#[test]
fn a_replacement_of_an_expired_node_may_cost_more() {
    // The pod needs six CPUs. `n-1` is spot, and the pool launches on-demand machines only: 0.16 − 0.40.
    let text = two_nodes(&expired("n-1", "big").spot(), &pod("web-1", "n-1", "6"));
    let expected = "Expired n-1: saves -0.24\n  launch default-1: big on-demand\n  web-1 to default-1\nn-2 stays \
                    (Underutilized): NoSavings Node/n-2\n";
    assert_eq!(rendered(&text), expected);
}

#[test]
fn an_expired_node_goes_though_a_pod_has_no_place_and_a_note_names_the_pod() {
    let plan = plan(&two_nodes(&expired("n-1", "big").label("disk: fast"), &web().spec("nodeSelector: {disk: fast}")));
    assert_eq!(crate::render(&plan), "Expired n-1: saves 0.40\nn-2 stays (Underutilized): NoSavings Node/n-2\n");
    let head = "pod shop/web-1 has no place after the removal of its node, which nothing holds: ";
    assert!(plan.notes.len() == 1 && plan.notes[0].starts_with(head), "{:?}", plan.notes);
}

#[test]
fn an_expired_node_that_is_being_deleted_goes_no_second_time() {
    let leaving = expired("n-1", "big").claim_metadata("deletionTimestamp: 2026-01-01T11:59:00Z");
    assert_eq!(rendered(&leaving.text()), "n-1 stays (Expired): Deleting Node/n-1\n");
}
