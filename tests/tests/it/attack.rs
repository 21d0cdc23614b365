//! A short run of `attack connections`: one hundred hostile connections of each kind cost little
//! memory and no honest agent its stream. Latency bounds are for the long run, on an idle machine.

use std::time::Duration;

use e2e::Program;
use e2e::attack::planning::{Settings, run};

use crate::PROGRAM;

/// Five seconds for each of five kinds, and a start; generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(600);

#[test]
fn a_hundred_hostile_connections_of_each_kind_disturb_no_honest_agent() {
    let arguments = ["connections", "--seconds", "5", "--connections", "100", "--without-timing"];
    let program = Program::new(env!("CARGO_BIN_EXE_attack"), &arguments);
    let ended = program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for kind in ["quiet", "streams", "flood", "slow-head", "silent", "tokens"] {
        assert!(ended.stdout.lines().any(|line| line.starts_with(kind)), "{kind} is missing in:\n{}", ended.stdout);
    }
}

/// The latency bounds are for an idle machine; here only service to the other cluster during the
/// planning of the expensive pods, and unbroken leases, are verified.
#[test]
fn three_hundred_expensive_pods_delay_no_instance_of_another_cluster() {
    let outcome = run(PROGRAM, &[], &Settings { pods: 300, terms: 50, seconds: 10 });
    let has_figure = |what: &str| outcome.figures.iter().any(|line| line.contains(what));
    assert!(has_figure("leases lapsed: 0"), "{outcome}");
    assert!(!outcome.figures.iter().any(|line| line.contains("at worst 120s")), "an order that never came:\n{outcome}");
}
