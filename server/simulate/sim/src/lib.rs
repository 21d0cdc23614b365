//! The `fleetwright-sim` program: the demo, simulations, and the processes that they are made of.

mod demo;
mod serve;
mod simulate;
mod simulated_agent;
mod simulated_cloud;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use command::completion;
use command::exit::{Failure, Status};

/// Simulator of Fleetwright: servers, clouds and clusters that buy nothing.
#[derive(Debug, Parser)]
#[command(name = "fleetwright-sim", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(simulation::demo::Plan),
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Run a server on a simulated cloud, with the settings of `fleetwright serve`
    Serve(Box<serve::SimulatedServeFlags>),
    SimulatedCloud(simulated_cloud::SimulatedCloudFlags),
    SimulatedAgent(simulated_agent::SimulatedAgentFlags),
    Completion(completion::CompletionFlags),
}

/// Parses the command line, runs the subcommand and returns its exit status.
#[must_use]
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// As [`main`], with a given command line, which starts with the program name.
#[must_use]
pub fn main_with(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let result = if completion::answer(&words, Cli::command).unwrap_or_else(|error| error.exit()) {
        Ok(Status::Done)
    } else {
        run(Cli::parse_from(words).command)
    };
    result.unwrap_or_else(Failure::report).into()
}

fn run(command: Command) -> Result<Status, Failure> {
    match command {
        Command::Demo(flags) => demo::run(flags),
        Command::Simulate(command) => simulate::run(command),
        Command::Serve(flags) => serve::run(*flags),
        Command::SimulatedCloud(flags) => simulated_cloud::run(flags),
        Command::SimulatedAgent(flags) => simulated_agent::run(flags),
        Command::Completion(flags) => completion::run(&flags, &Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_command_with_its_own_words() {
        let help = Cli::command().render_help().to_string();
        for line in ["demo  ", "simulate  ", "serve  ", "simulated-cloud  ", "simulated-agent  ", "completion  "] {
            assert_eq!(help.matches(&format!("\n  {line}")).count(), 1, "{line}: {help}");
        }
        assert!(help.contains("Run a server on a simulated cloud"), "{help}");
    }

    #[test]
    fn a_server_has_the_settings_of_the_product_and_those_of_its_cloud() {
        let words = ["fleetwright-sim", "serve", "--dev", "--log-filter", "warn", "--cloud-boot", "9s"];
        assert!(Cli::try_parse_from(words).is_ok());
        let both = ["fleetwright-sim", "serve", "--cloud-address", "http://127.0.0.1:1", "--cloud-boot", "9s"];
        assert!(Cli::try_parse_from(both).is_err(), "another process has the cloud");
    }
}
