//! Incidents that others have had, as scripts: each names what happened, and what must not follow.

use crate::simulation::Simulation;
use crate::simulation::fault::{Fault, Lacks, Timed};
use crate::simulation::report::Report;
use crate::simulation::setup::Setup;

const MINUTE: i64 = 60_000;

fn at(at_ms: i64, fault: Fault) -> Timed {
    Timed { at_ms, fault }
}

#[track_caller]
fn withstood(seed: u64, sizes: (usize, usize), faults: Vec<Timed>) -> Report {
    let report = Simulation::new(Setup::sized(seed, sizes, None, faults), false).run();
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    report
}

/// The cloud has nothing to sell for an hour and a half, and claims pile up by the thousand (kubernetes-sigs/karpenter#3198:
/// some 2,700 NodeClaims in 90 minutes).
#[test]
fn a_cloud_without_capacity_does_not_make_claims_pile_up() {
    for seed in 1..=5 {
        let report = withstood(seed, (1, 1), vec![at(0, Fault::NoCapacity { for_ms: 90 * MINUTE })]);
        // A refused offering is left alone for 3 minutes, so there are at most 30 rounds; a round asks for at most one machine
        // a workload and capacity type (5), and each takes two instructions: NodeClaim made, NodeClaim removed. What follows
        // when capacity is back, some 10 machines with 6 instructions each, is the rest.
        assert!(report.instructions <= 30 * 5 * 2 + 60, "{} instructions", report.instructions);
    }
}

/// The leader is lost between creating a server and writing it down, and the server runs unowned
/// (karpenter-provider-hetzner#53; aws/karpenter#549: one instance in ten leaked).
#[test]
fn a_process_that_dies_at_any_step_of_a_launch_leaks_nothing() {
    for after_steps in 0..60 {
        let kill = Fault::Kill { process: 0, after_steps, away_ms: 3_000 };
        withstood(7, (1, 1), vec![at(20_000, kill)]);
    }
}

/// A controller that is restarted again and again begins its timers anew, so nothing is ever removed
/// (kubernetes/autoscaler#7873).
#[test]
fn restarts_do_not_keep_empty_nodes_alive() {
    for seed in 1..=5 {
        let report = Simulation::new(Setup::restarting(seed, None), false).run();
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}

/// Launches are impaired for a quarter of an hour while everything else works (AWS us-east-1, 19 October 2025).
#[test]
fn impaired_launches_lose_no_pod_that_runs() {
    for seed in 1..=5 {
        withstood(seed, (2, 1), vec![at(3 * MINUTE, Fault::CloudLost { for_ms: 15 * MINUTE, percent: 90 })]);
    }
}

/// One zone has nothing to sell for hours (AWS, 28 October 2025).
#[test]
fn an_empty_zone_sends_machines_to_the_other() {
    for zone in 0..2 {
        let report = withstood(4, (1, 1), vec![at(0, Fault::ZoneEmpty { zone, for_ms: 20 * MINUTE })]);
        assert!(report.pods_ran > 0);
    }
}

/// New nodes cannot join, because somebody has deleted their role, and every pending pod buys more of them (Stytch,
/// 23 February 2023).
#[test]
fn machines_that_cannot_join_are_not_bought_for_ever() {
    let report = withstood(5, (1, 1), vec![at(0, Fault::NobodyJoins { cluster: 0, for_ms: 40 * MINUTE })]);
    // A machine is given 15 minutes to join: three rounds in 40 minutes, of at most five machines (the pool's limit), and
    // some 10 when it is over.
    assert!(report.sold <= 3 * 5 + 10, "{} machines", report.sold);
}

/// The central brain cannot be reached: nodes stay, pods go on running.
#[test]
fn a_cluster_without_a_server_stays_as_it_is() {
    let kills = (0..2).map(|process| {
        let away_ms = 30 * MINUTE;
        at(4 * MINUTE, Fault::Kill { process, after_steps: 0, away_ms })
    });
    withstood(2, (2, 1), kills.collect());
}

/// A watch begins anew and its list lacks objects, which the agent then takes back one by one; and the server that saw them
/// before is restarted meanwhile.
#[test]
fn a_relist_that_lacks_objects_removes_nothing() {
    let kill = |at_ms| at(at_ms, Fault::Kill { process: 0, after_steps: 0, away_ms: 1_000 });
    for lacks in [Lacks::Pods, Lacks::Workloads, Lacks::Nodes, Lacks::Claims, Lacks::Pools, Lacks::Everything] {
        let relist = at(6 * MINUTE, Fault::Relist { cluster: 0, lacks, for_ms: 4 * MINUTE });
        for seed in 1..=3 {
            withstood(seed, (1, 1), vec![relist]);
            withstood(seed, (1, 1), vec![relist, kill(6 * MINUTE + 100)]);
            withstood(seed, (1, 1), vec![kill(6 * MINUTE - 2_000), relist]);
        }
    }
}

/// A roll-up comes in empty, and a cluster is drained for it.
#[test]
fn an_empty_picture_of_a_cluster_removes_nothing() {
    for seed in 1..=5 {
        withstood(seed, (1, 1), vec![at(4 * MINUTE, Fault::EmptyPicture { cluster: 0, for_ms: 4 * MINUTE })]);
    }
}
