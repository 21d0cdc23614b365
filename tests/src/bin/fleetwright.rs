//! The program under test: the same one line as `fleetwright` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetwright::main()
}
