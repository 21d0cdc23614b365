//! `fleetwright-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_kubernetes::entrypoint::main()
}
