//! `fleetwright-sim simulate`: long runs that check invariants and print measurements.

mod crashes;
mod disruption;
mod faults;
mod form;
mod holds;
mod interruptions;
mod load;

use clap::Subcommand;

use server::cli::exit::{Failure, Status};

/// Run the system under faults or load and check invariants
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    Faults(faults::FaultsFlags),
    Disruption(disruption::DisruptionFlags),
    Crashes(crashes::CrashesFlags),
    Interruptions(interruptions::InterruptionsFlags),
    Holds(holds::HoldsFlags),
    Load(load::LoadFlags),
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: SimulateCommand) -> Result<Status, Failure> {
    match command {
        SimulateCommand::Faults(flags) => faults::run(&flags),
        SimulateCommand::Disruption(flags) => disruption::run(&flags),
        SimulateCommand::Crashes(flags) => crashes::run(flags),
        SimulateCommand::Interruptions(flags) => interruptions::run(flags),
        SimulateCommand::Holds(flags) => holds::run(flags),
        SimulateCommand::Load(flags) => load::run(flags),
    }
}
