//! The plans of manifests, compared with expectations that are worked out by hand.
//!
//! A scenario is a pair of files, `cases/GROUP/NAME.yaml` and `NAME.expect`; `README.md` describes
//! their syntax. Nothing in an expectation is recorded from the program: its comments have the
//! arithmetic, or the rule that it follows from.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own files has failed")]

mod case;
mod compare;
mod expectation;
mod facts;
mod pods;

use std::collections::BTreeSet;
use std::path::PathBuf;

use case::Case;

/// Where the scenarios of `group` are.
fn folder(group: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/cases").join(group)
}

/// Plans every scenario in `folder` and fails with the differences.
fn check_scenarios(folder: &std::path::Path, catalogue: &str, prelude: &str) {
    let cases = case::discover(folder, catalogue, prelude);
    assert!(!cases.is_empty(), "no scenario in {}", folder.display());
    let failed: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "\n{}\n{} of {} scenarios differ", failed.join("\n"), failed.len(), cases.len());
}

fn failure(case: &Case) -> Option<String> {
    let outcome = facts::plan(case);
    let differences = compare::differences(&case.expected, &outcome);
    if differences.is_empty() {
        return None;
    }
    Some(format!("{}:\n{}\nThe plan:\n{outcome}", case.name, differences.join("\n")))
}

/// One test for each folder of scenarios.
macro_rules! groups {
    ($($test:ident: $group:literal,)*) => {
        const GROUPS: &[&str] = &[$($group),*];
        $(#[test] fn $test() { check_scenarios(&folder($group), "box", "default"); })*
    };
}

groups! {
    affinity_and_anti_affinity_between_pods_hold: "between_pods",
    capacity_types_and_reservations_hold: "capacity_types",
    daemon_sets_take_their_room: "daemons",
    existing_nodes_come_before_new_ones: "existing",
    host_ports_are_taken_once: "host_ports",
    labels_of_nodes_are_respected: "node_affinity",
    limits_are_exact: "limits",
    mistakes_are_named_with_what_to_write: "mistakes",
    opt_in_rules_hold: "opt_in",
    overlays_change_what_is_sold: "overlays",
    pairs_of_constraints_hold_together: "pairs",
    pools_are_chosen_by_weight_and_price: "pools",
    priorities_decide_when_something_is_short: "priority",
    requirements_intersect_as_documented: "requirements",
    resources_are_added_up_as_kubernetes_does: "resources",
    spread_constraints_hold: "spread",
    static_pools_are_filled: "static",
    taints_bar_those_who_do_not_tolerate_them: "taints",
    pods_that_must_stand_together_go_where_all_fit: "together",
    volumes_bind_their_pods: "volumes",
}

#[test]
fn every_group_of_scenarios_is_planned() {
    let found = std::fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let known = GROUPS.iter().map(|group| (*group).to_owned());
    assert_eq!(found.collect::<BTreeSet<String>>(), known.collect::<BTreeSet<String>>());
}

#[test]
fn manifests_in_the_style_of_tutorials_are_planned_as_worked_out() {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures");
    check_scenarios(&fixtures, "built-in", "none");
}
