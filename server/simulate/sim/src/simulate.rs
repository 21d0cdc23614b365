//! `fleetwright-sim simulate`: long runs that check invariants and print measurements.

mod crashes;
mod disruption;
mod faults;
mod form;
mod holds;
mod interruptions;
mod load;

use clap::Subcommand;

use command::exit::{Failure, Status};
use form::RunFlags;

/// Run the system under faults or load and check invariants
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    Faults(faults::FaultsFlags),
    Disruption(disruption::DisruptionFlags),
    Crashes(RunFlags<simulation::crashes::Plan>),
    Interruptions(RunFlags<simulation::interruptions::Plan>),
    Holds(RunFlags<simulation::holds::Plan>),
    Load(RunFlags<simulation::load::Plan>),
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: SimulateCommand) -> Result<Status, Failure> {
    match command {
        SimulateCommand::Faults(flags) => faults::run(&flags),
        SimulateCommand::Disruption(flags) => disruption::run(&flags),
        SimulateCommand::Crashes(flags) => flags.run(&flags.plan.options.log, simulation::crashes::run),
        SimulateCommand::Interruptions(flags) => flags.run(&flags.plan.options.log, simulation::interruptions::run),
        SimulateCommand::Holds(flags) => flags.run(&flags.plan.options.log, simulation::holds::run),
        SimulateCommand::Load(flags) => load::run(&flags),
    }
}
