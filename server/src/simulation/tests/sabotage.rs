//! Each guard switched off is noticed, by the invariant that it keeps, and by nothing else than its absence: with the guard,
//! the same runs break nothing.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::simulation::Simulation;
use crate::simulation::guard::Guard;
use crate::simulation::report::Report;
use crate::simulation::setup::Setup;

/// The room's table: invariant, guard.
fn rows() -> Vec<(&'static str, &'static str)> {
    let cells = |line: &'static str| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>();
    let table = include_str!("../README.md").lines().filter(|line| line.starts_with("| `")).map(cells);
    table.map(|cells| (cells[1], cells[3])).collect()
}

fn run(guard: Guard, seed: u64, with: bool) -> Report {
    Simulation::new(Setup::showing(guard, seed, with), false).run()
}

/// Without the guard that the table names, one of so many seeds breaks the invariant; with it, the same seed and the next
/// ones break none.
#[track_caller]
fn is_noticed(invariant: &str, seeds: u64) {
    let (_, name) = rows().into_iter().find(|(of, _)| *of == invariant).expect("the table has a row for it");
    is_noticed_without(name, invariant, seeds);
}

/// The same, for one of several guards that keep an invariant.
#[track_caller]
fn is_noticed_without(name: &str, invariant: &str, seeds: u64) {
    assert!(rows().contains(&(invariant, name)), "the table has a row for it");
    let guard = Guard::from_str(name, false).expect("the table names a guard");
    let caught = (0..seeds).find(|seed| run(guard, *seed, false).shows(invariant));
    let caught = caught.unwrap_or_else(|| panic!("{name} is switched off, and {seeds} seeds do not break {invariant}"));
    for seed in caught..caught + 3 {
        let report = run(guard, seed, true);
        assert!(report.violations.is_empty(), "seed {seed}, with {name}: {:?}", report.violations);
    }
}

/// The names of an enum's variants, read from its source.
fn variants(source: &'static str, of: &str) -> BTreeSet<&'static str> {
    let body = source.split(&format!("enum {of} {{\n")).nth(1).and_then(|rest| rest.split("\n}\n").next());
    let names = body.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(char::is_uppercase));
    names.filter_map(|line| line.split([' ', ',']).next()).collect()
}

#[test]
fn every_invariant_and_every_guard_has_a_row_in_the_table() {
    let invariants: BTreeSet<&str> = rows().into_iter().map(|(invariant, _)| invariant).collect();
    assert_eq!(invariants, variants(include_str!("../invariants.rs"), "Violation"));
    let named: BTreeSet<String> = rows().into_iter().map(|(_, guard)| guard.to_owned()).collect();
    let guards = Guard::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    assert_eq!(named, guards.map(|guard| guard.get_name().to_owned()).collect());
}

#[test]
fn every_row_of_the_table_is_run_here() {
    let here = include_str!("sabotage.rs");
    for (invariant, guard) in rows() {
        let alone = rows().iter().filter(|(of, _)| *of == invariant).count() == 1;
        let both = format!("is_noticed_without(\"{guard}\", \"{invariant}\"");
        let named = if alone { format!("is_noticed(\"{invariant}\"") } else { both };
        assert!(here.contains(&named), "{invariant} has no test with {guard}");
    }
}

#[test]
fn an_agent_that_answers_before_it_has_made_a_claim_is_given_machines_for_none() {
    is_noticed("LaunchBeforeClaim", 2);
}

#[test]
fn without_tokens_machines_are_sold_twice() {
    is_noticed("LaunchedTwice", 160);
}

#[test]
fn without_collection_machines_run_on_whose_claims_were_taken_away() {
    is_noticed("Unclaimed", 6);
}

#[test]
fn without_collection_such_machines_are_left() {
    is_noticed("Leaked", 6);
}

#[test]
fn who_believes_half_a_listing_removes_claims_of_machines_that_run() {
    is_noticed("Orphaned", 6);
}

#[test]
fn who_asks_nobody_about_machines_that_a_listing_lacks_removes_claims_under_running_pods() {
    is_noticed("RemovedInUse", 6);
}

#[test]
fn launches_that_nobody_takes_up_leave_hollow_claims() {
    is_noticed("Hollow", 60);
}

#[test]
fn without_a_local_fence_a_process_that_wakes_up_calls_the_cloud() {
    is_noticed("FencedCall", 160);
}

#[test]
fn without_a_fenced_store_old_owners_write() {
    is_noticed("LateWrite", 160);
}

#[test]
fn an_agent_that_forgets_epochs_obeys_old_ones() {
    is_noticed("OldEpoch", 120);
}

#[test]
fn an_agent_that_forgets_epochs_hears_two_owners_in_one() {
    is_noticed("TwoOwners", 6);
}

#[test]
fn who_believes_an_empty_picture_gives_machines_back_that_are_in_use() {
    is_noticed("GivenBackInUse", 10);
}

#[test]
fn who_does_not_count_losses_drains_nodes_whose_pods_a_list_lacked() {
    is_noticed_without("losses", "DrainedInUse", 10);
}

#[test]
fn who_remembers_no_extent_drains_them_after_a_restart() {
    is_noticed_without("extents", "DrainedInUse", 10);
}

#[test]
fn who_takes_an_agent_for_its_own_witness_drains_them_a_minute_later() {
    is_noticed_without("witness", "DrainedInUse", 10);
}

#[test]
fn who_does_not_ask_whether_a_node_is_empty_drains_one_whose_pods_were_never_shown() {
    is_noticed_without("empty-check", "DrainedInUse", 10);
}

#[test]
fn who_does_not_hear_of_freezes_decides_on() {
    is_noticed("DecidedFrozen", 4);
}

#[test]
fn without_caps_machines_come_and_go_too_fast() {
    is_noticed("OverCap", 10);
}

#[test]
fn without_the_brake_machines_go_while_none_can_be_had() {
    is_noticed("RemovedWhileFailing", 20);
}

#[test]
fn who_does_not_hear_of_the_others_lets_machines_go_while_their_launches_fail() {
    is_noticed("RemovedWhileOthersFail", 40);
}

#[test]
fn without_limits_pools_grow_beyond_them() {
    is_noticed("OverLimit", 10);
}

#[test]
fn without_budgets_too_many_nodes_leave_at_one_time() {
    is_noticed("OverBudget", 40);
}

#[test]
fn without_pod_disruption_budgets_too_many_pods_are_evicted() {
    is_noticed("PodBudgetBroken", 30);
}

#[test]
fn without_planning_pods_never_run() {
    is_noticed("NeverRan", 2);
}

#[test]
fn without_removal_empty_nodes_stay() {
    is_noticed("StillEmpty", 4);
}

#[test]
fn without_the_moments_of_pod_events_restarts_keep_empty_nodes() {
    is_noticed("EmptyTooLong", 4);
}

#[test]
fn without_answers_instructions_wait_for_ever() {
    is_noticed("Unanswered", 2);
}

#[test]
fn an_agent_that_never_comes_back_leaves_its_cluster_to_nobody() {
    is_noticed("Unowned", 2);
}

#[test]
fn an_agent_that_does_not_wait_stops_time() {
    is_noticed("Stuck", 2);
}
