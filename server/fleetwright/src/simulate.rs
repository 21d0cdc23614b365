//! `fleetwright simulate`: long runs that check invariants and print measurements.

mod crashes;
mod faults;
mod load;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;

use server::cli::exit::{Failure, Status};
use server::cli::output;

/// Run the system under faults or load and check invariants
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    Faults(faults::FaultsFlags),
    Crashes(crashes::CrashesFlags),
    Load(load::LoadFlags),
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Json,
}

impl Form {
    fn print(self, table: impl FnOnce() -> String, document: impl FnOnce() -> Value) -> Result<(), Failure> {
        match self {
            Self::Table => output::print_text(&table()),
            Self::Json => output::print_document(&format!("{:#}\n", document())),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: SimulateCommand) -> Result<Status, Failure> {
    match command {
        SimulateCommand::Faults(flags) => faults::run(&flags),
        SimulateCommand::Crashes(flags) => crashes::run(flags),
        SimulateCommand::Load(flags) => load::run(flags),
    }
}
