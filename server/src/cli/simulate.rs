//! `fleetwright simulate`: long runs against invariants, each ending with figures.

mod crashes;
mod faults;
mod load;

use clap::Subcommand;

use super::exit::{Failure, Status};

/// Run the system against faults or load, and say whether anything happened that must never happen
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    Faults(faults::FaultsFlags),
    Crashes(crashes::CrashesFlags),
    Load(load::LoadFlags),
}

pub(crate) fn run(command: SimulateCommand) -> Result<Status, Failure> {
    match command {
        SimulateCommand::Faults(flags) => faults::run(&flags),
        SimulateCommand::Crashes(flags) => crashes::run(flags),
        SimulateCommand::Load(flags) => load::run(flags),
    }
}
