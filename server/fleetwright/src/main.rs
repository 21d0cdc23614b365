//! The `fleetwright` program; every function is a subcommand of its library.

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetwright::main()
}
