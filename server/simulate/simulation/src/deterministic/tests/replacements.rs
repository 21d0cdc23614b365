//! Regression runs: seeds in which a machine was launched for a pod that had a place, with the faults that sufficed.

use super::kept::replay_holds;
use crate::deterministic::fault::Fault;

/// The server that replaces a node is killed, or its agent is cut off, while the new machine boots.
#[test]
fn the_next_owner_launches_no_second_machine_for_a_replaced_one() {
    let faults = [
        (89_973, Fault::NodesNeverJoin { cluster: 0, for_ms: 1_749 }),
        (346_359, Fault::TemplateChanged { cluster: 0 }),
        (412_390, Fault::KillAtLaunch { process: 0, away_ms: 1_778 }),
        (459_832, Fault::CutAtLaunch { cluster: 0, for_ms: 97_741 }),
        (575_680, Fault::CutAtLaunch { cluster: 0, for_ms: 68_670 }),
        (760_393, Fault::CloudThrottles { for_ms: 36_964 }),
    ];
    replay_holds(3_919, &faults);
    let faults = [
        (283_644, Fault::TemplateChanged { cluster: 0 }),
        (492_440, Fault::Kill { process: 0, after_steps: 18, away_ms: 1_215 }),
        (680_986, Fault::TemplateChanged { cluster: 0 }),
        (681_310, Fault::Cut { cluster: 0, for_ms: 1_774 }),
        (756_137, Fault::LaunchesRefused { for_ms: 1_440 }),
        (799_840, Fault::SetClock { process: 0, by_ms: 1_284 }),
    ];
    replay_holds(4_631, &faults);
    let faults = [
        (183_154, Fault::ZoneEmpty { zone: 1, for_ms: 1_495 }),
        (318_538, Fault::TemplateChanged { cluster: 0 }),
        (325_097, Fault::KillAtLaunch { process: 1, away_ms: 1_271 }),
        (387_986, Fault::ExpiresDrifted { cluster: 0 }),
        (455_129, Fault::ReplacementDies { cluster: 0 }),
        (599_766, Fault::TemplateChanged { cluster: 0 }),
        (610_281, Fault::SlowPlans { cluster: 0, for_ms: 48_011, by_ms: 83_214 }),
        (661_733, Fault::ReplacementDies { cluster: 0 }),
        (695_688, Fault::CutAtLaunch { cluster: 0, for_ms: 59_900 }),
    ];
    replay_holds(8_535, &faults);
    let faults = [
        (421_194, Fault::TemplateChanged { cluster: 0 }),
        (445_017, Fault::ReplacementDies { cluster: 0 }),
        (764_059, Fault::Kill { process: 0, after_steps: 33, away_ms: 1_302 }),
    ];
    replay_holds(8_799, &faults);
}

/// A pod whose node was lost is bound to the new machine of a replaced node, before its own machine has joined.
#[test]
fn a_pod_of_a_replaced_node_takes_the_place_of_a_pod_that_was_bound_to_its_own() {
    let faults = [(921_234, Fault::InstanceDies { cluster: 0 }), (942_943, Fault::ExpiresDrifted { cluster: 0 })];
    replay_holds(1_407, &faults);
    let faults = [
        (269_581, Fault::NodesNeverJoin { cluster: 0, for_ms: 199_413 }),
        (601_103, Fault::TemplateChanged { cluster: 0 }),
    ];
    replay_holds(1_521, &faults);
    let faults = [(450_990, Fault::ExpiresDrifted { cluster: 0 })];
    replay_holds(7_351, &faults);
    let faults = [
        (290_700, Fault::TemplateChanged { cluster: 0 }),
        (294_082, Fault::LaunchesRefused { for_ms: 265_596 }),
        (296_699, Fault::ExpiresDrifted { cluster: 0 }),
        (303_259, Fault::CutAtLaunch { cluster: 0, for_ms: 59_371 }),
        (432_784, Fault::InstanceDies { cluster: 0 }),
        (553_474, Fault::SetClock { process: 1, by_ms: -68_350 }),
    ];
    replay_holds(7_859, &faults);
}
