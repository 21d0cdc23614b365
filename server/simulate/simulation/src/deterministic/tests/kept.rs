//! Regression runs: seeds that once broke an invariant, with the faults that sufficed.

use crate::deterministic::Simulation;
use crate::deterministic::fault::{Fault, ListGap, TimedFault};
use crate::deterministic::setup::Setup;
use model::interruption::InterruptionKind;

#[track_caller]
pub(super) fn replay_holds(seed: u64, faults: &[(i64, Fault)]) {
    let faults = faults.iter().map(|(at_ms, fault)| TimedFault { at_ms: *at_ms, fault: *fault }).collect();
    let report = Simulation::new(Setup::with_faults(seed, None, faults), false).run();
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
}

#[test]
fn a_process_that_dies_between_nodeclaims_and_launches_leaves_none_hollow() {
    replay_holds(85, &[(9_132, Fault::Kill { process: 0, after_steps: 14, away_ms: 13_291 })]);
    replay_holds(93, &[(9_426, Fault::Kill { process: 0, after_steps: 30, away_ms: 16_456 })]);
    let faults = [
        (102_197, Fault::Interrupt { cluster: 0, kind: InterruptionKind::SpotInterrupted }),
        (137_533, Fault::NoCapacity { for_ms: 81_738 }),
        (281_649, Fault::Kill { process: 1, after_steps: 6, away_ms: 31_467 }),
    ];
    replay_holds(59, &faults);
}

#[test]
fn an_instance_whose_nodeclaim_was_removed_before_its_launch_was_recorded_is_drained() {
    let faults = [
        (8_363, Fault::StoreDown { for_ms: 37_147 }),
        (26_997, Fault::CloudThrottles { for_ms: 56_304 }),
        (85_343, Fault::StoreDown { for_ms: 17_905 }),
        (119_912, Fault::Freeze { for_ms: 85_713 }),
        (181_220, Fault::Kill { process: 1, after_steps: 11, away_ms: 38_190 }),
        (201_943, Fault::Kill { process: 1, after_steps: 34, away_ms: 1_585 }),
        (266_205, Fault::CloudLost { for_ms: 1_209, percent: 49 }),
        (287_312, Fault::NodesNeverJoin { cluster: 0, for_ms: 1_116 }),
        (326_049, Fault::SetClock { process: 1, by_ms: 1_099 }),
        (334_760, Fault::CloudLost { for_ms: 1_164, percent: 34 }),
        (412_871, Fault::Kill { process: 1, after_steps: 33, away_ms: 1_071 }),
        (413_137, Fault::Pause { process: 1, after_steps: 22, for_ms: 1_497 }),
        (430_701, Fault::PartialLists { for_ms: 1_894 }),
        (438_195, Fault::ClaimRemoved { cluster: 0 }),
        (450_357, Fault::Pause { process: 1, after_steps: 7, for_ms: 1_001 }),
        (452_784, Fault::Pause { process: 0, after_steps: 29, for_ms: 21_653 }),
    ];
    replay_holds(6_058, &faults);
}

#[test]
fn a_lease_acquired_twice_for_one_agent_leaves_no_orphan() {
    let faults = [
        (292_942, Fault::Pause { process: 0, after_steps: 39, for_ms: 16_654 }),
        (312_111, Fault::Kill { process: 0, after_steps: 10, away_ms: 29_771 }),
        (362_698, Fault::ClaimRemoved { cluster: 0 }),
        (413_486, Fault::Pause { process: 0, after_steps: 30, for_ms: 22_560 }),
        (428_350, Fault::StoreSlow { for_ms: 49_953, by_ms: 3_137 }),
        (437_719, Fault::NoCapacity { for_ms: 1_558 }),
    ];
    replay_holds(3_572, &faults);
}

/// The replacement never joins, which takes a quarter of an hour to detect, and a
/// PodDisruptionBudget keeps a pod in place until another one runs.
#[test]
fn a_drain_outlasts_replacements_that_do_not_join() {
    let faults = [
        (86_376, Fault::NodesNeverJoin { cluster: 0, for_ms: 86_644 }),
        (118_694, Fault::ClaimRemoved { cluster: 0 }),
        (242_555, Fault::Kill { process: 1, after_steps: 8, away_ms: 30_720 }),
        (275_069, Fault::PartialLists { for_ms: 1_637 }),
        (335_541, Fault::Kill { process: 0, after_steps: 26, away_ms: 2_393 }),
        (339_700, Fault::SetAgentClock { cluster: 0, by_ms: -1_630 }),
        (348_256, Fault::StoreAmbiguous { for_ms: 1_187, percent: 28 }),
        (375_112, Fault::StoreSlow { for_ms: 1_682, by_ms: 2_659 }),
    ];
    replay_holds(1_642, &faults);
}

#[test]
fn a_drain_waiting_for_capacity_terminates_nothing_while_snapshots_are_empty() {
    let faults =
        [(220_072, Fault::ClaimRemoved { cluster: 1 }), (301_162, Fault::EmptySnapshot { cluster: 1, for_ms: 60_711 })];
    replay_holds(4_776, &faults);
}

#[test]
fn a_hidden_nodeclaim_is_kept_when_its_instance_terminates() {
    let faults = [
        (14_274, Fault::Cut { cluster: 0, for_ms: 16_583 }),
        (40_634, Fault::EmptySnapshot { cluster: 0, for_ms: 159_552 }),
        (143_989, Fault::StoreAmbiguous { for_ms: 1_823, percent: 13 }),
        (149_717, Fault::InstanceDies { cluster: 0 }),
        (164_891, Fault::Cut { cluster: 0, for_ms: 35_807 }),
        (181_737, Fault::NoCapacity { for_ms: 1_384 }),
        (182_990, Fault::CloudThrottles { for_ms: 1_343 }),
        (193_131, Fault::StoreDown { for_ms: 60_753 }),
        (236_570, Fault::Stall { cluster: 0, for_ms: 1_028 }),
        (247_103, Fault::Cut { cluster: 0, for_ms: 17_380 }),
        (248_984, Fault::EmptySnapshot { cluster: 0, for_ms: 258_957 }),
        (396_528, Fault::Kill { process: 0, after_steps: 11, away_ms: 1_367 }),
    ];
    replay_holds(5_788, &faults);
}

#[test]
fn a_refused_repetition_of_a_launch_keeps_its_nodeclaim() {
    let faults = [
        (159_539, Fault::Freeze { for_ms: 88_771 }),
        (225_704, Fault::CloudLost { for_ms: 48_936, percent: 42 }),
        (251_218, Fault::LaunchesRefused { for_ms: 1_086 }),
    ];
    replay_holds(70, &faults);
}

#[test]
fn losing_half_of_all_pods_is_suspicious_if_the_rest_are_daemon_sets() {
    let faults = [
        (427_593, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 128_898 }),
        (475_914, Fault::Pause { process: 1, after_steps: 33, for_ms: 28_674 }),
    ];
    replay_holds(261, &faults);
}

#[test]
fn missing_pods_are_noticed_on_unready_nodes_too() {
    let faults = [
        (262_288, Fault::Partition { cluster: 0, for_ms: 184_938 }),
        (383_467, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 93_199 }),
    ];
    replay_holds(289, &faults);
}

/// Three of fifteen pods are bound and twelve wait: the list lacks one fifth of all pods, but all
/// bound ones.
#[test]
fn pending_pods_do_not_hide_missing_bound_pods() {
    replay_holds(
        6_547,
        &[
            (184_036, Fault::NodesNeverJoin { cluster: 0, for_ms: 72_555 }),
            (456_320, Fault::Relist { cluster: 0, gap: ListGap::Pods, for_ms: 114_202 }),
        ],
    );
    replay_holds(9_799, &[(464_964, Fault::Relist { cluster: 0, gap: ListGap::Pods, for_ms: 92_674 })]);
    replay_holds(
        1_312,
        &[
            (106_509, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 225_246 }),
            (123_531, Fault::Relist { cluster: 0, gap: ListGap::Nodes, for_ms: 185_343 }),
            (158_986, Fault::Kill { process: 0, after_steps: 28, away_ms: 1_749 }),
        ],
    );
}

/// Pods that are bound after a list began to lack them are never observed.
#[test]
fn a_node_with_unobserved_pods_is_not_drained_as_empty() {
    replay_holds(
        1_465,
        &[
            (7_899, Fault::Kill { process: 0, after_steps: 27, away_ms: 1_937 }),
            (32_131, Fault::StoreDown { for_ms: 79_176 }),
            (123_250, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 260_124 }),
            (177_056, Fault::Relist { cluster: 0, gap: ListGap::Claims, for_ms: 184_356 }),
        ],
    );
    replay_holds(
        7_111,
        &[
            (39_263, Fault::SetClock { process: 0, by_ms: -119_160 }),
            (117_585, Fault::Relist { cluster: 0, gap: ListGap::Nodes, for_ms: 249_921 }),
            (181_552, Fault::Kill { process: 0, after_steps: 0, away_ms: 1_146 }),
            (347_969, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 66_105 }),
        ],
    );
}

/// To the server, hidden NodeClaims look deleted by the operator, so they are drained; visible
/// again after a restart, their drain continues.
#[test]
fn a_drain_of_a_hidden_nodeclaim_continues_when_it_is_visible_again() {
    replay_holds(
        7_908,
        &[
            (43_739, Fault::Relist { cluster: 1, gap: ListGap::Claims, for_ms: 236_427 }),
            (57_773, Fault::NoCapacity { for_ms: 8_749 }),
            (265_721, Fault::EmptySnapshot { cluster: 1, for_ms: 231_039 }),
            (360_672, Fault::StoreAmbiguous { for_ms: 17_124, percent: 60 }),
            (375_852, Fault::Pause { process: 0, after_steps: 11, for_ms: 24_818 }),
            (429_512, Fault::RestartAgent { cluster: 1, away_ms: 13_502 }),
        ],
    );
}

/// After the agent's restart another replica owns the cluster; it has observed neither the
/// NodeClaim nor the Node, and later no pod.
#[test]
fn an_instance_with_hidden_nodeclaim_and_node_is_not_terminated_under_its_pods() {
    let faults = [
        (112_969, Fault::ClaimRemoved { cluster: 0 }),
        (134_355, Fault::Partition { cluster: 0, for_ms: 36_910 }),
        (155_261, Fault::Relist { cluster: 0, gap: ListGap::Nodes, for_ms: 236_052 }),
        (198_821, Fault::RestartAgent { cluster: 0, away_ms: 1_988 }),
        (380_793, Fault::Relist { cluster: 0, gap: ListGap::Pods, for_ms: 12_768 }),
    ];
    replay_holds(3_582, &faults[..4]);
    replay_holds(3_582, &faults);
}

/// The launch is refused while the agent is cut off. When the agent is back, the deletion of the NodeClaim is under way.
#[test]
fn pods_of_a_refused_launch_are_planned_again_when_the_agent_is_back() {
    let faults = [
        (97_485, Fault::StaleLists { for_ms: 1_769, by_ms: 12_198 }),
        (243_154, Fault::RestartAgent { cluster: 0, away_ms: 25_372 }),
        (277_174, Fault::TemplateChanged { cluster: 0 }),
        (394_734, Fault::ReplacementDies { cluster: 0 }),
        (451_047, Fault::CutAtLaunch { cluster: 0, for_ms: 15_412 }),
        (469_818, Fault::NodesNeverJoin { cluster: 0, for_ms: 1_353 }),
        (503_424, Fault::LaunchesRefused { for_ms: 294_637 }),
        (649_598, Fault::NodesNeverJoin { cluster: 0, for_ms: 1_012 }),
    ];
    replay_holds(4_911, &faults);
}

/// The launch is answered to a server that took the cluster over while the agent's list lacked the NodePool.
#[test]
fn a_nodeclaim_without_capacity_gets_it_when_its_pool_is_observed_again() {
    let faults = [
        (17_881, Fault::Freeze { for_ms: 69_225 }),
        (31_230, Fault::CloudLost { for_ms: 82_864, percent: 59 }),
        (43_315, Fault::SetClock { process: 0, by_ms: -45_763 }),
        (103_988, Fault::Partition { cluster: 0, for_ms: 61_552 }),
        (163_645, Fault::ClaimRemoved { cluster: 0 }),
        (168_700, Fault::Interrupt { cluster: 0, kind: InterruptionKind::SpotInterrupted }),
        (177_188, Fault::SlowPlans { cluster: 0, for_ms: 116, by_ms: 932 }),
        (193_817, Fault::Kill { process: 0, after_steps: 29, away_ms: 56_241 }),
        (213_113, Fault::CloudLost { for_ms: 88_262, percent: 42 }),
        (219_738, Fault::StoreDown { for_ms: 1_640 }),
        (253_819, Fault::Kill { process: 0, after_steps: 31, away_ms: 1_558 }),
        (267_168, Fault::Relist { cluster: 0, gap: ListGap::Pools, for_ms: 67_091 }),
        (288_193, Fault::Kill { process: 1, after_steps: 35, away_ms: 1_495 }),
        (346_506, Fault::Relist { cluster: 0, gap: ListGap::Everything, for_ms: 1_290 }),
        (404_289, Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 1_413 }),
        (410_621, Fault::LaunchesRefused { for_ms: 1_648 }),
        (434_742, Fault::Kill { process: 0, after_steps: 17, away_ms: 1_355 }),
    ];
    replay_holds(40, &faults);
}

/// The gap ends half a second before the instructions to drain them are sent: those under way are carried out.
#[test]
fn machines_whose_nodeclaims_are_listed_again_before_their_drain_begins_stay() {
    replay_holds(8_240, &[(3_062, Fault::Relist { cluster: 1, gap: ListGap::Claims, for_ms: 87_872 })]);
}

/// The gap ends 20 ms after they are sent: no server can call them back.
#[test]
fn instructions_that_are_sent_in_a_gap_may_begin_after_it() {
    replay_holds(8_240, &[(3_062, Fault::Relist { cluster: 1, gap: ListGap::Claims, for_ms: 88_392 })]);
}
