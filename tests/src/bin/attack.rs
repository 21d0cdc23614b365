//! Attacks on a server of our own; see [`e2e::attack`].

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::attack::main()
}
