//! Attacks on a local test server; see [`e2e::attack`].

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::attack::main()
}
