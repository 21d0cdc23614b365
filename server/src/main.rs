//! The `fleetwright` binary; every function is a subcommand of [`fleetwright::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetwright::cli::main()
}
