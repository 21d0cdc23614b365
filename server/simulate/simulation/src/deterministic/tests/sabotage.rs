//! Guard-off tests: without a guard, its invariant breaks; with it, the same runs break none.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::deterministic::Simulation;
use crate::deterministic::guard::Guard;
use crate::deterministic::report::Report;
use crate::deterministic::setup::Setup;

/// Rows of the README's table: invariant, guard.
fn rows() -> Vec<(&'static str, &'static str)> {
    let cells = |line: &'static str| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>();
    let table = include_str!("../README.md").lines().filter(|line| line.starts_with("| `")).map(cells);
    table.map(|cells| (cells[1], cells[3])).collect()
}

fn run(guard: Guard, seed: u64, with: bool) -> Report {
    Simulation::new(Setup::for_guard(guard, seed, with), false).run()
}

/// Without the invariant's guard one of the seeds breaks it; with the guard that seed and the next
/// ones break nothing.
#[track_caller]
fn violates_without_guard(invariant: &str, seeds: u64) {
    let (_, name) = rows().into_iter().find(|(of, _)| *of == invariant).expect("the table has a row for it");
    violates_without(name, invariant, seeds);
}

/// The same, for one of several guards of an invariant.
#[track_caller]
fn violates_without(name: &str, invariant: &str, seeds: u64) {
    assert!(rows().contains(&(invariant, name)), "the table has a row for it");
    let guard = Guard::from_str(name, false).expect("the table names a guard");
    let caught = (0..seeds).find(|seed| run(guard, *seed, false).violates(invariant));
    let caught = caught.unwrap_or_else(|| panic!("{name} is switched off, and {seeds} seeds do not break {invariant}"));
    for seed in caught..caught + 3 {
        let report = run(guard, seed, true);
        assert!(report.violations.is_empty(), "seed {seed}, with {name}: {:?}", report.violations);
    }
}

/// Names of an enum's variants, read from its source.
fn variants(source: &'static str, of: &str) -> BTreeSet<&'static str> {
    let body = source.split(&format!("enum {of} {{\n")).nth(1).and_then(|rest| rest.split("\n}\n").next());
    let names = body.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(char::is_uppercase));
    names.filter_map(|line| line.split([' ', ',']).next()).collect()
}

#[test]
fn every_invariant_and_every_guard_has_a_row_in_the_table() {
    let invariants: BTreeSet<&str> = rows().into_iter().map(|(invariant, _)| invariant).collect();
    assert_eq!(invariants, variants(include_str!("../violation.rs"), "Violation"));
    let named: BTreeSet<String> = rows().into_iter().map(|(_, guard)| guard.to_owned()).collect();
    let guards = Guard::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    assert_eq!(named, guards.map(|guard| guard.get_name().to_owned()).collect());
}

#[test]
fn every_row_of_the_table_is_run_here() {
    let here = include_str!("sabotage.rs");
    for (invariant, guard) in rows() {
        let alone = rows().iter().filter(|(of, _)| *of == invariant).count() == 1;
        let both = format!("violates_without(\"{guard}\", \"{invariant}\"");
        let named = if alone { format!("violates_without_guard(\"{invariant}\"") } else { both };
        assert!(here.contains(&named), "{invariant} has no test with {guard}");
    }
}

#[test]
fn an_early_acknowledgement_launches_instances_without_nodeclaims() {
    violates_without_guard("LaunchBeforeClaim", 2);
}

#[test]
fn consolidation_that_forgets_spread_leaves_a_workload_in_one_zone() {
    violates_without_guard("SpreadLost", 8);
}

#[test]
fn without_tokens_instances_are_launched_twice() {
    violates_without_guard("LaunchedTwice", 160);
}

#[test]
fn without_collection_instances_of_removed_nodeclaims_run_on() {
    violates_without_guard("Unclaimed", 6);
}

#[test]
fn without_collection_orphaned_instances_are_left() {
    violates_without_guard("Leaked", 6);
}

#[test]
fn accepting_a_partial_listing_removes_nodeclaims_of_running_instances() {
    violates_without_guard("Orphaned", 6);
}

#[test]
fn without_inspection_a_listing_gap_removes_nodeclaims_under_running_pods() {
    violates_without_guard("RemovedInUse", 6);
}

#[test]
fn without_recovery_interrupted_launches_leave_hollow_nodeclaims() {
    violates_without_guard("Hollow", 60);
}

#[test]
fn without_the_local_fence_a_paused_process_calls_the_cloud() {
    violates_without_guard("FencedCall", 160);
}

#[test]
fn without_store_epochs_previous_owners_write() {
    violates_without_guard("LateWrite", 160);
}

#[test]
fn without_stored_epochs_an_agent_executes_expired_instructions() {
    violates_without_guard("OldEpoch", 120);
}

#[test]
fn without_stored_epochs_two_owners_share_an_epoch() {
    violates_without_guard("TwoOwners", 6);
}

#[test]
fn accepting_an_empty_snapshot_terminates_instances_in_use() {
    violates_without_guard("GivenBackInUse", 10);
}

#[test]
fn without_counted_losses_a_list_gap_drains_nodes_in_use() {
    violates_without("losses", "DrainedInUse", 10);
}

#[test]
fn without_stored_object_counts_a_restart_drains_nodes_in_use() {
    violates_without("extents", "DrainedInUse", 10);
}

#[test]
fn without_a_second_witness_a_repeated_list_gap_drains_nodes_in_use() {
    violates_without("witness", "DrainedInUse", 10);
}

#[test]
fn without_the_empty_check_nodes_with_unobserved_pods_are_drained() {
    violates_without("empty-check", "DrainedInUse", 10);
}

#[test]
fn a_process_that_ignores_freezes_continues_to_decide() {
    violates_without_guard("DecidedFrozen", 4);
}

#[test]
fn without_rate_limits_instances_are_launched_and_removed_too_fast() {
    violates_without_guard("OverCap", 10);
}

#[test]
fn without_the_circuit_breaker_instances_are_removed_while_launches_fail() {
    violates_without_guard("RemovedWhileFailing", 20);
}

#[test]
fn without_remote_counters_instances_are_removed_while_launches_of_others_fail() {
    violates_without_guard("RemovedWhileOthersFail", 40);
}

#[test]
fn without_limits_nodepools_exceed_them() {
    violates_without_guard("OverLimit", 10);
}

#[test]
fn without_budgets_too_many_nodes_are_removed_at_one_time() {
    violates_without_guard("OverBudget", 40);
}

#[test]
fn without_windows_nodes_are_drained_at_any_time() {
    violates_without_guard("OutsideWindow", 2);
}

#[test]
fn without_the_budget_of_the_cluster_its_nodepools_drain_too_many_nodes() {
    violates_without_guard("OverClusterBudget", 4);
}

#[test]
fn without_initialization_nodes_are_drained_before_their_pods_have_room() {
    violates_without_guard("NoCapacity", 4);
}

#[test]
fn without_machines_in_flight_a_restarted_server_replaces_a_node_twice() {
    violates_without("in-flight", "TwoReplacements", 16);
}

#[test]
fn without_recorded_replacements_the_next_owner_consolidates_a_node_twice() {
    violates_without("replacements", "TwoReplacements", 16);
}

#[test]
fn without_drift_outdated_nodes_stay() {
    violates_without_guard("StillDrifted", 2);
}

#[test]
fn without_pod_disruption_budgets_too_many_pods_are_evicted() {
    violates_without_guard("PodBudgetBroken", 30);
}

#[test]
fn without_planning_pods_never_run() {
    violates_without_guard("NeverRan", 2);
}

#[test]
fn without_removal_empty_nodes_stay() {
    violates_without_guard("StillEmpty", 4);
}

#[test]
fn without_the_interval_pods_of_a_falling_load_move_again() {
    violates_without_guard("MovedAgain", 2);
}

#[test]
fn without_stored_pod_events_restarts_keep_empty_nodes() {
    violates_without_guard("EmptyTooLong", 4);
}

#[test]
fn without_drain_answers_instructions_stay_open() {
    violates_without_guard("Unanswered", 2);
}

#[test]
fn an_agent_that_never_reconnects_leaves_its_cluster_without_an_owner() {
    violates_without_guard("Unowned", 2);
}

#[test]
fn an_agent_without_backoff_stops_time() {
    violates_without_guard("Stuck", 2);
}
