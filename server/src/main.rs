//! The one binary: everything it does is a subcommand of [`fleetwright::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetwright::cli::main()
}
