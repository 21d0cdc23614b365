//! Command line: one module per subcommand, here or in [`server::cli`], and one exit status for all.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use server::cli::exit::{Failure, Status};
use server::cli::why::kubectl::Plugin;
use server::cli::{
    accounts_file, audit, catalogue, clusters, convert, crds, ec2, explain, fleet, forget, freeze, freezes, history,
    hold, output, plan, quarantine, quote, removals, replay, serve, thaw, top, trust_file, validate, why,
};

use crate::{capture, completion, demo, man, simulate, simulated_agent, simulated_cloud};

/// Central autoscaler for the nodes of many Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "fleetwright", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Capture(capture::CaptureFlags),
    Plan(Box<plan::PlanFlags>),
    Convert(convert::ConvertFlags),
    Explain(explain::ExplainFlags),
    Validate(validate::ValidateFlags),
    Crds(crds::CrdsFlags),
    #[command(subcommand, visible_alias = "catalog")]
    Catalogue(catalogue::CatalogueCommand),
    Demo(demo::DemoFlags),
    #[command(subcommand)]
    Ec2(ec2::Ec2Command),
    Serve(serve::ServeFlags),
    Quote(quote::QuoteFlags),
    Hold(hold::HoldFlags),
    Commit(hold::CommitFlags),
    Release(hold::ReleaseFlags),
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    Top(top::TopFlags),
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    Freeze(freeze::FreezeFlags),
    Forget(forget::ForgetFlags),
    Thaw(thaw::ThawFlags),
    Freezes(freezes::FreezesFlags),
    Audit(audit::AuditFlags),
    History(history::HistoryFlags),
    Replay(replay::ReplayFlags),
    #[command(subcommand)]
    Quarantine(quarantine::QuarantineCommand),
    #[command(subcommand)]
    Clusters(clusters::ClustersCommand),
    Removals(removals::RemovalsFlags),
    #[command(subcommand)]
    Why(why::WhyCommand),
    #[command(subcommand)]
    Trust(trust_file::TrustCommand),
    #[command(subcommand)]
    Accounts(accounts_file::AccountsCommand),
    Completion(completion::CompletionFlags),
    Man(man::ManFlags),
    /// Print the version
    Version,
    #[command(hide = true)]
    SimulatedAgent(simulated_agent::SimulatedAgentFlags),
    #[command(hide = true)]
    SimulatedCloud(simulated_cloud::SimulatedCloudFlags),
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
    let result = if words.first().is_some_and(|program| Plugin::is_run_as(program)) {
        Plugin::try_parse_from(words).unwrap_or_else(|error| error.exit()).run()
    } else if completion::answer(&words, Cli::command).unwrap_or_else(|error| error.exit()) {
        Ok(Status::Done)
    } else {
        run(Cli::try_parse_from(words).unwrap_or_else(|error| with_new_name(error).exit()).command)
    };
    result.unwrap_or_else(Failure::report).into()
}

/// An unknown flag that is the old name of a configuration key is reported with the new name.
fn with_new_name(error: clap::Error) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.trim_start_matches('-').to_owned(),
        _ => return error,
    };
    match server::config::key_of_flag(&unknown) {
        Some(key) => Cli::command().error(
            ErrorKind::UnknownArgument,
            format!("there is no flag --{unknown} any more; its name is --{} now", key.flag),
        ),
        None => error,
    }
}

fn run(command: Command) -> Result<Status, Failure> {
    match command {
        Command::Capture(flags) => capture::run(&flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Convert(flags) => convert::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Validate(flags) => validate::run(&flags),
        Command::Crds(flags) => crds::run(&flags),
        Command::Catalogue(command) => catalogue::run(&command),
        Command::Demo(flags) => demo::run(flags),
        Command::Ec2(command) => ec2::run(command),
        Command::Serve(flags) => serve::run(flags),
        Command::Quote(flags) => quote::run(&flags),
        Command::Hold(flags) => hold::run(&flags),
        Command::Commit(flags) => hold::commit(&flags),
        Command::Release(flags) => hold::release(&flags),
        Command::Fleet(command) => fleet::run(command),
        Command::Top(flags) => top::run(&flags),
        Command::Simulate(command) => simulate::run(command),
        Command::Freeze(flags) => freeze::run(flags),
        Command::Forget(flags) => forget::run(flags),
        Command::Thaw(flags) => thaw::run(flags),
        Command::Freezes(flags) => freezes::run(&flags),
        Command::Audit(flags) => audit::run(&flags),
        Command::History(flags) => history::run(&flags),
        Command::Replay(flags) => replay::run(&flags),
        Command::Quarantine(command) => quarantine::run(command),
        Command::Clusters(command) => clusters::run(command),
        Command::Removals(flags) => removals::run(flags),
        Command::Why(command) => why::run(command),
        Command::Trust(command) => trust_file::run(command),
        Command::Accounts(command) => accounts_file::run(command),
        Command::Completion(flags) => completion::run(&flags, &Cli::command()),
        Command::Man(flags) => man::run(&flags, Cli::command()),
        Command::Version => version(),
        Command::SimulatedAgent(flags) => simulated_agent::run(flags),
        Command::SimulatedCloud(flags) => simulated_cloud::run(flags),
    }
}

fn version() -> Result<Status, Failure> {
    output::print_text(concat!("fleetwright ", env!("CARGO_PKG_VERSION"), "\n"))?;
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_under_its_old_name_is_an_error_that_names_the_new_one() {
        let message = |flag: &str| {
            let error = Cli::try_parse_from(["fleetwright", "serve", flag, "x"]).expect_err("the flag is unknown");
            with_new_name(error).to_string()
        };
        let renamed = message("--rails-mode");
        assert!(renamed.contains("no flag --rails-mode any more; its name is --guardrails-mode now"), "{renamed}");
        assert!(message("--rails-nonsense").contains("unexpected argument '--rails-nonsense'"));
    }
}
