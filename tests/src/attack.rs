//! Attacks on a local test server over loopback, for a bounded time, with bounds on the effect on
//! other clients.
//!
//! `cargo run --release -p e2e --bin attack -- connections` prints a line for each kind of attacker
//! and exits with 1 when a bound is exceeded. Attackers are separate processes at low priority: on
//! one machine they would otherwise take the server's CPU time, which a remote attacker cannot.

mod agent;
mod arguments;
pub mod connections;
mod health;
mod hostile;
mod metrics;
pub mod planning;
pub mod plans;
mod test_bed;

use std::process::ExitCode;

const USAGE: &str = "Attacks on a test server of its own on loopback, for a bounded time. Nothing else is attacked.

attack connections [--seconds 60] [--connections 1000] [--only KIND] [--nice 10] [--without-timing]
attack plans [--seconds 60] [--clients 20] [--node-pools 1500] [--pods 312]
attack planning [--pods 3000] [--terms 50] [--seconds 60]";

/// Runs the subcommand in the program's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Whoever asks what it does wants no attack yet. What the server under attack is asked is its own.
    if words.first() != Some(&"fleetwright-sim") && words.iter().any(|word| ["--help", "-h", "help"].contains(word)) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = arguments::unknown_flag(&words) {
        eprintln!("there is no flag {unknown}\n{USAGE}");
        return ExitCode::from(2);
    }
    match words.as_slice() {
        // The server under attack is this program too, so that one build makes all of it.
        ["fleetwright-sim", ..] => fleetwright_sim::main_with(std::env::args_os().skip(1)),
        ["hostile", rest @ ..] => hostile::main(rest),
        ["connections", rest @ ..] => connections::main(rest),
        ["plans", rest @ ..] => plans::main(rest),
        ["planning", rest @ ..] => planning::main(rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
