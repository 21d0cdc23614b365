//! One binary for all end-to-end tests: what a user would type, and what they would see.

mod attack;
mod bad_input;
mod crashes;
mod cut_off;
mod demo;
mod deploy;
mod freeze;
mod hostile;
mod impostor;
mod incidents;
mod load;
mod own_database;
mod plan;
mod relists;
mod removals;
mod replay;
mod replicas;
mod serve;
mod traces;
mod trust;

use std::time::Duration;

use e2e::{Ended, Program};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fleetwright-e2e");

/// Far longer than anything here takes, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `fleetwright` with these arguments.
fn fleetwright(arguments: &[&str]) -> Ended {
    Program::new(PROGRAM, arguments).run(PATIENCE)
}
