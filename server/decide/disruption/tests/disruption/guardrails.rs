//! What guardrails leave for removals and launches: a plan stays within both, and replaces no node by a machine that one of
//! them holds back.

use disruption::Settings;
use model::MicroUsd;
use model::disruption_plan::MachineAllowance;

use crate::{node, plan_with, pod, pool, render};

const ANY_PRICE: MicroUsd = MicroUsd(i64::MAX);

fn machines(machines: u32) -> Option<MachineAllowance> {
    Some(MachineAllowance { machines, usd_per_hour: ANY_PRICE })
}

fn dollars(cents: i64) -> Option<MachineAllowance> {
    Some(MachineAllowance { machines: u32::MAX, usd_per_hour: MicroUsd(cents * 10_000) })
}

/// Three on-demand `big` of `flex`, each with a pod of six CPUs that a spot `big` runs at 0.16 instead of 0.40: nodes that
/// are removed, machines that are launched, and what holds the others.
fn replaced(removals: Option<MachineAllowance>, launches: Option<MachineAllowance>) -> (usize, usize, Vec<String>) {
    let nodes: String = (1..=3)
        .map(|at| {
            let name = format!("n-{at}");
            node(&name, "big").pool("flex").text() + &pod(&format!("web-{at}"), &name, "6").text()
        })
        .collect();
    let settings = Settings { removals, launches, ..Settings::default() };
    let plan = plan_with(&settings, &(pool("flex").text() + &nodes));
    let removed = plan.commands.iter().map(|command| command.nodes.len()).sum();
    let launched = plan.commands.iter().map(|command| command.replacements.len()).sum();
    let by =
        plan.held.iter().flat_map(|held| &held.by).map(|block| format!("{} {}", block.code.as_str(), block.object));
    assert_eq!(removed, launched, "{}", render(&plan));
    (removed, launched, by.collect())
}

#[test]
fn nodes_are_replaced_as_far_as_both_limits_allow() {
    assert_eq!(replaced(None, None), (3, 3, vec![]));
    assert_eq!(replaced(machines(3), machines(3)), (3, 3, vec![]));
    let by = |limit: &str, count: usize| vec![format!("Guardrail RateLimit/{limit}"); count];
    assert_eq!(replaced(machines(2), None), (2, 2, by("removals", 1)));
    assert_eq!(replaced(machines(0), machines(3)), (0, 0, by("removals", 3)));
    assert_eq!(replaced(None, machines(1)), (1, 1, by("launches", 2)));
    assert_eq!(replaced(machines(3), machines(0)), (0, 0, by("launches", 3)));
    // Two nodes cost 0.80, and two machines 0.32.
    assert_eq!(replaced(dollars(80), None), (2, 2, by("removals", 1)));
    assert_eq!(replaced(dollars(79), None), (1, 1, by("removals", 2)));
    assert_eq!(replaced(None, dollars(32)), (2, 2, by("launches", 1)));
    assert_eq!(replaced(None, dollars(31)), (1, 1, by("launches", 2)));
}

#[test]
fn a_removal_without_a_launch_counts_as_a_removal() {
    let text = pool("default").text()
        + &node("n-1", "box").text()
        + &node("n-2", "box").text()
        + &pod("web-1", "n-2", "1").text()
        + &node("n-3", "box").text()
        + &pod("api-1", "n-3", "1").text();
    let removed = |removals| {
        let settings = Settings { removals, launches: machines(0), ..Settings::default() };
        let plan = plan_with(&settings, &text);
        plan.commands.iter().map(|command| command.reason.to_string()).collect::<Vec<String>>()
    };
    // The empty node comes first.
    assert_eq!(removed(machines(2)), ["Empty", "Underutilized"]);
    assert_eq!(removed(machines(1)), ["Empty"]);
}
