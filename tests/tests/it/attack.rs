//! A short run of `attack connections`: one hundred hostile connections of each kind cost little
//! memory and no honest agent its stream. Latency bounds are for the long run, on an idle machine.

use std::time::Duration;

use e2e::Program;
use e2e::attack::planning::{Settings, run};
use e2e::attack::plans;

use crate::SIMULATOR;

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
    let outcome = run(SIMULATOR, &[], &Settings { pods: 300, terms: 50, seconds: 10 });
    let has_figure = |what: &str| outcome.figures.iter().any(|line| line.contains(what));
    assert!(has_figure("leases lapsed: 0"), "{outcome}");
    assert!(!outcome.figures.iter().any(|line| line.contains("at worst 120s")), "an order that never came:\n{outcome}");
}

/// Whoever asks for help attacks nothing, and neither does a misspelt flag.
#[test]
fn help_is_no_attack() {
    for (arguments, status) in [(&["connections", "--help"][..], 0), (&["plans", "-h"], 0), (&["planning", "--pod"], 2)]
    {
        let ended = Program::new(env!("CARGO_BIN_EXE_attack"), arguments).run(Duration::from_secs(60));
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.stderr);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains("attack plans [--seconds 60]"), "{arguments:?}");
    }
}

/// The latency bounds are for an idle machine; here only that the server lives, ends every call of twenty clients with a plan, a
/// refusal for now or at its deadline, refuses what is too much, and keeps its memory within the bound.
#[test]
fn the_largest_plans_take_a_bounded_amount_of_memory() {
    let outcome = plans::run(SIMULATOR, &[], plans::Settings { seconds: 10, ..plans::Settings::default() });
    assert!(outcome.broken.is_empty(), "{outcome}");
    for figure in ["20 clients", "memory: idle", "under attack p99", "after its deadline"] {
        assert!(outcome.figures.iter().any(|line| line.contains(figure)), "{figure} is missing in:\n{outcome}");
    }
}
