//! Annotations of NodePools that removals keep.

use model::removal::{OptInNode, OptInPool};

use super::*;

/// A node of the pool with 4 CPUs and one pod, of the capacity type in the zone.
fn opt_in_node(capacity_type: &str, zone: &str) -> OptInNode {
    OptInNode {
        capacity_type: text(capacity_type),
        zone: text(zone),
        millicores: 4_000,
        pods_apart: 1,
        is_bound_to_zones: false,
    }
}

/// The removals of the fixture, whose nodes are on demand in zone a, beside a spot node in zone b; the rules of their pool
/// are those of `rules`.
fn with_opt_in(rules: OptInPool) -> Removals {
    let mut removals = Removals::new();
    let removed = ["empty", "old", "big"].map(|claim| (ClaimName::from(claim), opt_in_node("on-demand", "a")));
    removals.input.opt_in = vec![OptInPool {
        name: PoolName::from("p"),
        staying: vec![opt_in_node("spot", "b")],
        removed: removed.into(),
        ..rules
    }];
    removals
}

#[test]
fn on_demand_nodes_are_kept_while_they_are_used() {
    let rules = |least| OptInPool { on_demand_min_nodes: Some(least), ..OptInPool::default() };
    // Of three, the first two in the order of precedence may go: empty and drifted.
    with_opt_in(rules(1)).assert_breaks(RemovalRule::OptIn, "big");
    let mut removals = with_opt_in(rules(1));
    removals.input.opt_in[0].staying.push(opt_in_node("on-demand", "a"));
    removals.assert_clean();
    // A pool without spot keeps them for its pods, and without pods for nobody.
    let mut removals = with_opt_in(rules(1));
    removals.input.opt_in[0].staying.clear();
    removals.assert_breaks(RemovalRule::OptIn, "big");
    removals.input.opt_in[0].removed.values_mut().for_each(|node| node.pods_apart = 0);
    removals.assert_clean();
    // Two is broken by the second and the third.
    let broken: Vec<String> =
        with_opt_in(rules(2)).violations().iter().map(|violation| violation.claim.to_string()).collect();
    assert_eq!(broken, ["old", "big"]);
}

#[test]
fn the_share_of_spot_does_not_grow_above_its_limit() {
    let rules = |percent| OptInPool { spot_max_percent: Some(percent), ..OptInPool::default() };
    // 4 of 16 CPUs are spot, then 4 of 12, 4 of 8 and 4 of 4.
    with_opt_in(rules(100)).assert_clean();
    with_opt_in(rules(50)).assert_breaks(RemovalRule::OptIn, "big");
    // A spot node that goes breaks nothing, although its share is above the limit before and after.
    let mut removals = with_opt_in(rules(10));
    removals.input.opt_in[0].staying = vec![opt_in_node("spot", "b"), opt_in_node("on-demand", "a")];
    removals.input.opt_in[0].removed = BTreeMap::from([(ClaimName::from("big"), opt_in_node("spot", "b"))]);
    removals.assert_clean();
}

#[test]
fn as_many_nodes_are_kept_as_their_pods_may_use() {
    let rules = |least| OptInPool { min_nodes: Some(least), ..OptInPool::default() };
    with_opt_in(rules(1)).assert_clean();
    let mut removals = with_opt_in(rules(2));
    for node in removals.input.opt_in[0].removed.values_mut() {
        node.pods_apart = 2;
    }
    removals.assert_breaks(RemovalRule::OptIn, "big");
    // Two pods need two nodes, although three are asked for.
    let mut removals = with_opt_in(rules(3));
    for (claim, node) in &mut removals.input.opt_in[0].removed {
        node.pods_apart = usize::from(claim.as_ref() == "big");
    }
    removals.assert_breaks(RemovalRule::OptIn, "big");
    // Without pods nothing needs the nodes.
    let mut removals = with_opt_in(rules(2));
    removals.input.opt_in[0].removed.values_mut().for_each(|node| node.pods_apart = 0);
    removals.assert_clean();
}

#[test]
fn zones_stay_balanced() {
    let balanced = OptInPool { zone_balance: true, ..OptInPool::default() };
    // Three nodes in a and two in b; then 2, 1, 0 in a: two less than b at the last.
    let mut removals = with_opt_in(balanced.clone());
    removals.input.opt_in[0].staying.push(opt_in_node("spot", "b"));
    removals.assert_breaks(RemovalRule::OptIn, "big");
    // Pods that may not run in a leave nothing to balance.
    removals.input.opt_in[0].staying.iter_mut().for_each(|node| node.is_bound_to_zones = true);
    removals.assert_clean();
    // A node of b that is launched goes with its predecessor: three are there only until then.
    let mut removals = with_opt_in(balanced.clone());
    let pool = &mut removals.input.opt_in[0];
    pool.removed.retain(|claim, _| claim.as_ref() != "big");
    pool.removed.insert(ClaimName::from("big"), opt_in_node("spot", "b"));
    pool.staying.push(opt_in_node("spot", "a"));
    pool.launched.push(opt_in_node("spot", "b"));
    removals.assert_clean();
    // Four nodes in b were too many before.
    let mut removals = with_opt_in(balanced);
    removals.input.opt_in[0].staying = vec![opt_in_node("spot", "b"); 5];
    removals.assert_clean();
}

#[test]
fn what_did_not_hold_before_the_launches_need_not_hold_after_the_removals() {
    // The only on-demand node of two that are asked for is replaced by another one; without that, none would be left.
    let rules = OptInPool { on_demand_min_nodes: Some(2), ..OptInPool::default() };
    let mut removals = with_opt_in(rules);
    removals.input.opt_in[0].removed.retain(|claim, _| claim.as_ref() == "big");
    removals.input.opt_in[0].launched.push(opt_in_node("on-demand", "a"));
    removals.assert_clean();
    removals.input.opt_in[0].launched.clear();
    removals.assert_breaks(RemovalRule::OptIn, "big");
    // One in a and three in b as before.
    let balanced = OptInPool { zone_balance: true, ..OptInPool::default() };
    let mut removals = with_opt_in(balanced);
    removals.input.opt_in[0].removed.retain(|claim, _| claim.as_ref() == "big");
    removals.input.opt_in[0].staying = vec![opt_in_node("spot", "b"); 3];
    removals.input.opt_in[0].launched.push(opt_in_node("on-demand", "a"));
    removals.assert_clean();
}

#[test]
fn forced_removals_count_and_keep_no_annotation() {
    let mut removals = with_opt_in(OptInPool { on_demand_min_nodes: Some(1), ..OptInPool::default() });
    removals.set_reason("big", RemovalReason::Expired, None);
    // The expired node goes first, then the empty and the drifted one: the last leaves none.
    removals.assert_breaks(RemovalRule::OptIn, "old");
    // If it was the only one on demand, the others leave as few behind as they find.
    for claim in ["empty", "old"] {
        removals.input.opt_in[0].removed.insert(ClaimName::from(claim), opt_in_node("spot", "a"));
    }
    removals.assert_clean();
}
