//! The agent under test: the same one line as `fleetwright-agent` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_kubernetes::entrypoint::main()
}
