//! What is paid before and after, and the bound.

use model::MicroUsd;

use crate::blocks::{first, web};
use crate::{node, plan, pod, pool, rendered, two_nodes};

/// In dollars: before, after.
fn costs(text: &str) -> (String, String) {
    let cost = plan(text).cost;
    assert!(cost.lower_bound <= cost.after, "{cost:?}");
    (cost.before.to_string(), cost.after.to_string())
}

fn dollars(before: &str, after: &str) -> (String, String) {
    (before.to_owned(), after.to_owned())
}

#[test]
fn the_nodes_of_the_pools_are_counted() {
    assert_eq!(costs(&two_nodes(&first(), &web())), dollars("0.60", "0.20"));
}

#[test]
fn nodes_that_leave_or_start_are_counted_before_and_after() {
    let leaving = node("n-3", "box").claim_metadata("deletionTimestamp: 2026-01-01T11:59:00Z").text();
    let starting = node("n-4", "big").without_node().text() + &node("n-5", "box").not_initialized().text();
    // 0.60 + 0.20 + 0.40 + 0.20, and 0.40 less.
    assert_eq!(costs(&(two_nodes(&first(), &web()) + &leaving + &starting)), dollars("1.40", "1.00"));
}

#[test]
fn reserved_capacity_costs_nothing_and_saves_nothing() {
    let first = first().pool("flex");
    let reserved = pool("flex").text()
        + &two_nodes(&first, &web()).replacen("capacity-type: on-demand", "capacity-type: reserved", 2);
    // Its pod would fit on `n-2`; the pod of `n-2` fits on it.
    assert_eq!(costs(&reserved), dollars("0.20", "0.00"));
    let expected = "Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): NoSavings Node/n-1\n";
    assert_eq!(rendered(&reserved), expected);
}

#[test]
fn a_node_of_unknown_price_saves_nothing_and_is_removed_when_it_is_empty() {
    // Within an hour, a type that is not in the catalogue is no drift.
    let unknown = || node("n-1", "mainframe");
    let young = |text: String| text.replacen("2026-01-01T00:00:00Z", "2026-01-01T11:30:00Z", 2);
    let expected = "Underutilized n-2: saves 0.20\n  api-1 to n-1\nn-1 stays (Underutilized): NoSavings Node/n-1\n";
    assert_eq!(rendered(&young(two_nodes(&unknown(), &web()))), expected);
    assert_eq!(rendered(&unknown().text()), "Empty n-1: saves 0.00\n");
    assert_eq!(costs(&unknown().text()), dollars("0.00", "0.00"));
}

#[test]
fn nodes_of_no_pool_are_not_counted_and_not_listed() {
    let foreign = node("a-1", "big").pool("").text();
    let expected = "Underutilized n-1: saves 0.40\n  web-1 to a-1\n";
    assert_eq!(rendered(&(first().text() + &web().text() + &foreign)), expected);
    assert_eq!(costs(&(first().text() + &web().text() + &foreign)), dollars("0.40", "0.00"));
}

#[test]
fn nodes_of_a_pool_that_is_not_in_the_input_are_not_listed() {
    let other = node("a-1", "big").pool("other").text();
    let expected = "Underutilized n-1: saves 0.40\n  web-1 to a-1\n";
    assert_eq!(rendered(&(first().text() + &web().text() + &other)), expected);
}

#[test]
fn the_bound_pays_for_what_is_held() {
    // `n-1` is held: 0.40. Without it three CPUs need a `box`, and with it nothing: the bound cannot be lower.
    let cost = plan(&two_nodes(&first().do_not_disrupt(), &web())).cost;
    assert_eq!((cost.before, cost.after, cost.lower_bound), (MicroUsd(600_000), MicroUsd(400_000), MicroUsd(400_000)));
}

#[test]
fn the_bound_of_a_cluster_that_is_packed_is_its_cost() {
    // Four CPUs in a `box`.
    let cost = plan(&(node("n-1", "box").text() + &pod("web-1", "n-1", "4").text())).cost;
    assert_eq!((cost.after, cost.lower_bound), (MicroUsd(200_000), MicroUsd(200_000)));
}

#[test]
fn replacements_are_counted() {
    let text = pool("flex").text() + &node("n-1", "box").pool("flex").text() + &pod("web-1", "n-1", "3").text();
    assert_eq!(costs(&text), dollars("0.20", "0.08"));
}
