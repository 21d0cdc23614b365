//! The simulator: the same one line as `fleetwright-sim` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetwright_sim::main()
}
