//! `fleetwright-sim demo`: the whole system on one machine, and its own verification.

use std::time::Duration;

use e2e::Program;

use crate::{SIMULATOR, simulator};

/// The demo ends by itself within a minute; `--for` is its limit on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(400);

#[test]
fn a_demo_succeeds_by_the_ledgers_of_cloud_and_clusters() {
    let ended = Program::new(SIMULATOR, &["demo", "--for", "5m", "--seed", "1", "--clusters", "2"]).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("every pod ran and every empty node was removed"), "{}", ended.stdout);
}

#[test]
fn a_demo_without_capacity_ends_with_1_and_names_the_pods_that_never_ran() {
    let ended = simulator(&["demo", "--for", "15s", "--clusters", "1", "--no-capacity"]);
    assert_eq!(ended.status, 1, "{}\n{}", ended.stdout, ended.stderr);
    let cause = "It did not go well: the simulated cloud has no capacity (--no-capacity): it refused all ";
    assert!(ended.stdout.contains(cause), "{}", ended.stdout);
    assert!(ended.stdout.contains("pods that never ran"), "{}", ended.stdout);
    assert!(ended.stdout.contains("shop/web-0"), "{}", ended.stdout);
}

/// Three rounds of a cluster remove about 18 nodes in a minute and a half: more than the defaults allow a cluster of this size in
/// ten minutes.
#[test]
fn no_guardrail_holds_a_demo_without_an_end() {
    let demo = Program::new(SIMULATOR, &["demo", "--clusters", "1"]).start_with_stdout();
    let mut rounds = 0;
    while rounds < 4 {
        rounds += usize::from(demo.next_stdout_line(TIMEOUT).contains(": a burst of pods "));
    }
    assert_eq!(demo.stop(TIMEOUT), 0);
}
