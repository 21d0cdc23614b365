//! `attack connections` in small: one hundred hostile connections of each kind cost little memory, and no honest agent its
//! stream. How late decisions are is for the long run, on a machine that does nothing else.

use std::time::Duration;

use e2e::Program;

/// Five seconds for each of five kinds, and a start; a busy machine takes several times that.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn a_hundred_hostile_connections_of_each_kind_disturb_no_honest_agent() {
    let arguments = ["connections", "--seconds", "5", "--connections", "100", "--without-timing"];
    let program = Program::new(env!("CARGO_BIN_EXE_attack"), &arguments);
    let ended = program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(PATIENCE);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for kind in ["quiet", "streams", "flood", "slow-head", "silent", "tokens"] {
        assert!(ended.stdout.lines().any(|line| line.starts_with(kind)), "{kind} is missing in:\n{}", ended.stdout);
    }
}
