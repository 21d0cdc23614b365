//! Budgets of NodePools.

use disruption::Settings;
use model::removal::RemovalReason;

use crate::objects::{NodeText, PoolText};
use crate::{CATALOGUE, NOW, node, plan_of, pod, pool, read_at, rendered_with, two_nodes};

/// How many of the nodes go as empty at `now`.
fn removed_at(now: i64, pool: &PoolText, nodes: &[NodeText]) -> usize {
    let text: String = nodes.iter().map(NodeText::text).collect();
    let plan = plan_of(&read_at(now, CATALOGUE, &(pool.text() + &text)), &Settings::default());
    let stay = |held: &&disruption::HeldNode| held.by.iter().all(|block| block.object == "NodePool/default");
    let removed = plan.commands.iter().map(|command| command.nodes.len()).sum();
    assert_eq!(removed + plan.held.len(), nodes.len());
    assert_eq!(plan.held.iter().filter(stay).count(), plan.held.len(), "only the budget holds");
    assert!(plan.commands.iter().all(|command| command.reason == RemovalReason::Empty));
    removed
}

fn removed(pool: &PoolText, nodes: &[NodeText]) -> usize {
    removed_at(NOW, pool, nodes)
}

/// Nodes without pods.
fn empty(count: usize) -> Vec<NodeText> {
    (0..count).map(|at| node(&format!("n-{at:02}"), "box")).collect()
}

#[test]
fn percentages_are_rounded_up() {
    let tenth = pool("default").budgets("{nodes: 10%}");
    assert_eq!(removed(&tenth, &empty(1)), 1);
    assert_eq!(removed(&tenth, &empty(10)), 1);
    assert_eq!(removed(&tenth, &empty(11)), 2);
    assert_eq!(removed(&pool("default").budgets("{nodes: 0%}"), &empty(3)), 0);
}

#[test]
fn the_lowest_of_several_budgets_counts() {
    // 20 % of 10 is 2.
    assert_eq!(removed(&pool("default").budgets("{nodes: \"5\"}, {nodes: 20%}"), &empty(10)), 2);
}

#[test]
fn without_budgets_a_tenth_may_go_and_with_an_empty_list_all() {
    assert_eq!(removed(&pool("default").disruption("consolidateAfter: 0s"), &empty(11)), 2);
    assert_eq!(removed(&pool("default").disruption("consolidateAfter: 0s, budgets: []"), &empty(11)), 11);
}

#[test]
fn a_budget_applies_to_its_reasons() {
    let of_drift = pool("default").budgets("{nodes: \"0\", reasons: [Drifted]}");
    assert_eq!(removed(&of_drift, &empty(3)), 3);
    assert_eq!(removed(&pool("default").budgets("{nodes: \"0\", reasons: [Empty]}"), &empty(3)), 0);
    assert_eq!(removed(&pool("default").budgets("{nodes: \"0\", reasons: []}"), &empty(3)), 3);
}

#[test]
fn a_scheduled_budget_blocks_from_its_time_for_its_duration() {
    let closed = pool("default").budgets("{nodes: \"0\", schedule: \"0 9 * * *\", duration: 8h}");
    let at =
        |hours: i64, seconds: i64| removed_at(NOW + (hours - 12) * 3_600_000 + seconds * 1_000, &closed, &empty(2));
    assert_eq!(at(9, -1), 2);
    assert_eq!(at(9, 0), 0);
    assert_eq!(at(17, -1), 0);
    assert_eq!(at(17, 0), 2);
}

#[test]
fn a_schedule_that_cannot_be_read_is_refused() {
    let text = pool("default").budgets("{nodes: \"1\", schedule: \"61 9 * * *\", duration: 8h}").text();
    let source = manifests::Source { name: "in.yaml".into(), bytes: text.into_bytes() };
    let options = planning_input::Options {
        disrupt: true,
        catalogue: Some(manifests::Source { name: "catalogue.json".into(), bytes: CATALOGUE.into() }),
        ..planning_input::Options::default()
    };
    let errors = planning_input::read([&source], &options).expect_err("a schedule with a minute of 61");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path, "spec.disruption.budgets[0].schedule");
}

#[test]
fn nodes_that_are_not_ready_or_leave_use_a_budget_up() {
    let two = pool("default").budgets("{nodes: \"2\"}");
    let not_ready = |name: &str| node(name, "box").ready("False", "2026-01-01T11:59:00Z").do_not_disrupt();
    let stay = |text: String| rendered_with(&Settings::default(), &(two.text() + &text));
    // Two nodes are not ready: nothing is left.
    let text = not_ready("n-1").text() + &not_ready("n-2").text() + &node("n-3", "box").text();
    let line = |name: &str, by: &str| format!("{name} stays (Empty): {by}\n");
    let held = |name: &str| line(name, &format!("DoNotDisrupt Node/{name}"));
    assert_eq!(stay(text), held("n-1") + &held("n-2") + &line("n-3", "Budget NodePool/default"));
    // One is: one of two empty ones may go. `big` is dearer.
    let text = not_ready("n-1").text() + &node("n-2", "box").text() + &node("n-3", "big").text();
    let expected = "Empty n-3: saves 0.40\n".to_owned() + &held("n-1") + &line("n-2", "Budget NodePool/default");
    assert_eq!(stay(text), expected);
    // One is being deleted.
    let leaving = node("n-1", "box").claim_metadata("deletionTimestamp: 2026-01-01T11:59:00Z").text();
    let text = leaving + &node("n-2", "box").text() + &node("n-3", "big").text();
    let expected = "Empty n-3: saves 0.40\n".to_owned()
        + &line("n-1", "Deleting Node/n-1")
        + &line("n-2", "Budget NodePool/default");
    assert_eq!(stay(text), expected);
}

#[test]
fn nodes_that_are_not_initialized_are_not_counted() {
    // Half of two is one; half of four would be two.
    let text = pool("default").budgets("{nodes: 50%}").text()
        + &node("n-1", "big").text()
        + &node("n-2", "box").text()
        + &node("n-3", "box").not_initialized().text()
        + &node("n-4", "box").without_node().text();
    let expected = "Empty n-1: saves 0.40\nn-2 stays (Empty): Budget NodePool/default\nn-3 stays (Empty): NotInitialized \
                    Node/n-3\nn-4 stays (Underutilized): NotInitialized Node/n-4\n";
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

#[test]
fn each_pool_has_its_own_budgets() {
    let text = pool("default").budgets("{nodes: \"0\"}").text()
        + &pool("flex").text()
        + &node("n-1", "box").text()
        + &node("n-2", "box").pool("flex").text();
    let expected = "Empty n-2: saves 0.20\nn-1 stays (Empty): Budget NodePool/default\n";
    assert_eq!(rendered_with(&Settings::default(), &text), expected);
}

#[test]
fn a_budget_blocks_consolidation() {
    let text = pool("default").budgets("{nodes: \"0\", reasons: [Underutilized]}").text()
        + &two_nodes(&node("n-1", "big"), &pod("web-1", "n-1", "1"));
    let line = |name: &str| format!("{name} stays (Underutilized): Budget NodePool/default\n");
    assert_eq!(rendered_with(&Settings::default(), &text), line("n-1") + &line("n-2"));
}

/// `n-1` is empty, `n-2` drifted, and the pod of `n-3` fits on `n-4`. The budget allows `count` of them together.
fn three_reasons(count: u32) -> String {
    let text = pool("default").budgets(&format!("{{nodes: \"{count}\"}}")).text()
        + &node("n-1", "box").text()
        + &node("n-2", "box").drifted("2026-01-01T11:00:00Z").text()
        + &pod("db-1", "n-2", "1").text()
        + &node("n-3", "box").text()
        + &pod("web-1", "n-3", "1").text()
        + &node("n-4", "box").do_not_disrupt().text()
        + &pod("api-1", "n-4", "2").text();
    let rendered = rendered_with(&Settings::default(), &text);
    rendered.lines().filter(|line| !line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_commands_together_keep_a_budget() {
    let protected = "n-4 stays (Underutilized): DoNotDisrupt Node/n-4";
    let (empty, drifted) = ("Empty n-1: saves 0.20", "Drifted n-2: saves 0.20");
    let stays = |name: &str, reason: &str| format!("{name} stays ({reason}): Budget NodePool/default");
    assert_eq!(three_reasons(3), format!("{empty}\n{drifted}\nUnderutilized n-3: saves 0.20\n{protected}"));
    let third = stays("n-3", "Underutilized");
    assert_eq!(three_reasons(2), format!("{empty}\n{drifted}\n{third}\n{protected}"));
    let second = stays("n-2", "Drifted");
    assert_eq!(three_reasons(1), format!("{empty}\n{second}\n{third}\n{protected}"));
    let first = stays("n-1", "Empty");
    assert_eq!(three_reasons(0), format!("{first}\n{second}\n{third}\n{protected}"));
}
