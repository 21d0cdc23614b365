//! Incidents of other autoscalers, replayed: each names what happened and what must not follow.

use crate::deterministic::Simulation;
use crate::deterministic::fault::{Fault, ListGap, TimedFault};
use crate::deterministic::report::Report;
use crate::deterministic::setup::Setup;

const MINUTE: i64 = 60_000;

fn at(at_ms: i64, fault: Fault) -> TimedFault {
    TimedFault { at_ms, fault }
}

#[track_caller]
fn run_without_violation(seed: u64, sizes: (usize, usize), faults: Vec<TimedFault>) -> Report {
    let report = Simulation::new(Setup::sized(seed, sizes, None, faults), false).run();
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    report
}

/// The cloud has no capacity for an hour and a half, and NodeClaims pile up by the thousand
/// (kubernetes-sigs/karpenter#3198: some 2,700 NodeClaims in 90 minutes).
#[test]
fn missing_capacity_does_not_pile_up_nodeclaims() {
    for seed in 1..=5 {
        let report = run_without_violation(seed, (1, 1), vec![at(0, Fault::NoCapacity { for_ms: 90 * MINUTE })]);
        // A refused offering is tried after 0, 30, 90, 210, 450, 930 s and then each 600 s: at most 13 times. There
        // are 3 types in 2 zones for 2 capacity types. Each launch takes two instructions: create and delete the
        // NodeClaim. The rest are some 10 instances with 6 instructions each when capacity returns.
        assert!(report.instructions <= 13 * 12 * 2 + 60, "{} instructions", report.instructions);
    }
}

/// The leader dies between creating a server and recording it, and the server runs without an owner
/// (karpenter-provider-hetzner#53; aws/karpenter#549: one instance in ten leaked).
#[test]
fn a_process_that_dies_at_any_step_of_a_launch_leaks_nothing() {
    for after_steps in 0..60 {
        let kill = Fault::Kill { process: 0, after_steps, away_ms: 3_000 };
        run_without_violation(7, (1, 1), vec![at(20_000, kill)]);
    }
}

/// A controller that restarts repeatedly resets its timers, so nothing is ever removed
/// (kubernetes/autoscaler#7873).
#[test]
fn restarts_do_not_keep_empty_nodes_alive() {
    for seed in 1..=5 {
        let report = Simulation::new(Setup::restarting(seed, None), false).run();
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}

/// Launches fail for a quarter of an hour while everything else works (AWS us-east-1, 19 October
/// 2025).
#[test]
fn impaired_launches_lose_no_running_pod() {
    for seed in 1..=5 {
        run_without_violation(
            seed,
            (2, 1),
            vec![at(3 * MINUTE, Fault::CloudLost { for_ms: 15 * MINUTE, percent: 90 })],
        );
    }
}

/// One zone has no capacity for hours (AWS, 28 October 2025).
#[test]
fn an_empty_zone_sends_machines_to_the_other() {
    for zone in 0..2 {
        let report = run_without_violation(4, (1, 1), vec![at(0, Fault::ZoneEmpty { zone, for_ms: 20 * MINUTE })]);
        assert!(report.pods_ran > 0);
    }
}

/// New nodes cannot join because their role was deleted, and every pending pod launches more
/// (Stytch, 23 February 2023).
#[test]
fn instances_that_cannot_join_are_not_launched_forever() {
    let report =
        run_without_violation(5, (1, 1), vec![at(0, Fault::NodesNeverJoin { cluster: 0, for_ms: 40 * MINUTE })]);
    // An instance has 15 minutes to join: three rounds in 40 minutes, of at most five instances
    // (the pool's limit), and some 10 afterwards.
    assert!(report.launched <= 3 * 5 + 10, "{} machines", report.launched);
}

/// The central server is unreachable: nodes stay, pods run on.
#[test]
fn a_cluster_without_a_server_stays_as_it_is() {
    let kills = (0..2).map(|process| {
        let away_ms = 30 * MINUTE;
        at(4 * MINUTE, Fault::Kill { process, after_steps: 0, away_ms })
    });
    run_without_violation(2, (2, 1), kills.collect());
}

/// A watch restarts and its list lacks objects, which the agent then reports as deleted one by one;
/// and the server that observed them is restarted meanwhile.
#[test]
fn a_relist_that_lacks_objects_removes_nothing() {
    let kill = |at_ms| at(at_ms, Fault::Kill { process: 0, after_steps: 0, away_ms: 1_000 });
    for gap in [ListGap::Pods, ListGap::Workloads, ListGap::Nodes, ListGap::Claims, ListGap::Pools, ListGap::Everything]
    {
        let relist = at(6 * MINUTE, Fault::Relist { cluster: 0, gap, for_ms: 4 * MINUTE });
        for seed in 1..=3 {
            run_without_violation(seed, (1, 1), vec![relist]);
            run_without_violation(seed, (1, 1), vec![relist, kill(6 * MINUTE + 100)]);
            run_without_violation(seed, (1, 1), vec![kill(6 * MINUTE - 2_000), relist]);
        }
    }
}

/// An empty roll-up causes a cluster to be drained.
#[test]
fn an_empty_snapshot_of_a_cluster_removes_nothing() {
    for seed in 1..=5 {
        run_without_violation(
            seed,
            (1, 1),
            vec![at(4 * MINUTE, Fault::EmptySnapshot { cluster: 0, for_ms: 4 * MINUTE })],
        );
    }
}
