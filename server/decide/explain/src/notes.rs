//! Notes about surprising results of a plan: one sentence per kind, listing the affected workloads
//! or pools.

mod placed_workloads;
mod pools;
mod preferences;
mod workloads;

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::plan::Plan;

use super::snapshot::PlanSnapshot;
use placed_workloads::by_workload;

/// Notes of a plan: workloads in a single zone, pods without an architecture constraint on arm64,
/// pools that can never launch, violated preferences, required labels that nothing defines, and
/// DaemonSets without capacity. Sorted and unique; the number of notes does not grow with the
/// number of pods.
#[must_use]
pub fn notes(input: &PlanningInput, plan: &Plan) -> Vec<String> {
    let mut notes = BTreeSet::new();
    pools::add_notes(input, &mut notes);
    preferences::add_preference_limit_note(input, &mut notes);
    let workloads = by_workload(input, plan);
    workloads::add_notes(input, plan, &workloads, &mut notes);
    if preferences::any_stated(input, &workloads) || !input.daemons.is_empty() {
        let snapshot = PlanSnapshot::new(input, plan);
        preferences::add_notes(&snapshot, &workloads, &mut notes);
        pools::add_daemon_notes(&snapshot, &mut notes);
    }
    notes.into_iter().collect()
}

/// Number of preferences of placed pods that `plan` violates; 0 where they are ignored.
#[must_use]
pub fn violated_preferences(input: &PlanningInput, plan: &Plan) -> usize {
    let workloads = by_workload(input, plan);
    if !preferences::any_stated(input, &workloads) {
        return 0;
    }
    preferences::count_violations(&PlanSnapshot::new(input, plan), &workloads)
}
