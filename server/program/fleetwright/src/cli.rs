//! Command line: one module per subcommand, here, in [`client`], [`offline`] or [`server::cli`], and one exit status for all.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use client::why::kubectl::Plugin;
use client::{audit, clusters, fleet, forget, freezes, hold, quarantine, quote, removals, top, why};
use command::exit::{Failure, Status};
use command::{completion, output};
use offline::{accounts_file, convert, crds, explain, history, plan, replay, trust_file, validate};
use server::cli::{catalogue, ec2, serve};

use crate::{capture, man};

/// Central autoscaler for the nodes of many Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(
    name = "fleetwright",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    help_template = help_template()
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// In the order of the help, which has a heading before the first command of each of [`GROUPS`].
#[derive(Debug, Subcommand)]
enum Command {
    Plan(Box<plan::PlanFlags>),
    Validate(validate::ValidateFlags),
    Explain(explain::ExplainFlags),
    Convert(convert::ConvertFlags),
    Capture(capture::CaptureFlags),
    #[command(subcommand, visible_alias = "catalog")]
    Catalogue(catalogue::CatalogueCommand),
    Crds(crds::CrdsFlags),
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    Top(top::TopFlags),
    #[command(subcommand)]
    Why(why::WhyCommand),
    History(history::HistoryFlags),
    Replay(replay::ReplayFlags),
    Audit(audit::AuditFlags),
    #[command(flatten)]
    Freezes(freezes::FreezesCommand),
    Removals(removals::RemovalsFlags),
    #[command(subcommand)]
    Quarantine(quarantine::QuarantineCommand),
    #[command(subcommand)]
    Clusters(clusters::ClustersCommand),
    Forget(forget::ForgetFlags),
    Quote(quote::QuoteFlags),
    Hold(hold::HoldFlags),
    Commit(hold::CommitFlags),
    Release(hold::ReleaseFlags),
    /// Run the server
    Serve(serve::ServeFlags),
    #[command(subcommand)]
    Trust(trust_file::TrustCommand),
    #[command(subcommand)]
    Accounts(accounts_file::AccountsCommand),
    #[command(subcommand)]
    Ec2(ec2::Ec2Command),
    Completion(completion::CompletionFlags),
    Man(man::ManFlags),
    /// Print the version
    Version,
}

/// What commands are for, each with the first of its commands.
const GROUPS: [(&str, &str); 6] = [
    ("plan", "Plan from manifests"),
    ("fleet", "Look at the fleet"),
    ("freeze", "Operate the fleet"),
    ("quote", "Get capacity for pods to come"),
    ("serve", "Run a server"),
    ("completion", "This program"),
];

/// The help of the program. clap lists all commands under one heading.
fn help_template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("fleetwright"));
    let (header, literal) = (commands.get_styles().get_header(), commands.get_styles().get_literal());
    let width = commands.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let line = |command: &clap::Command| {
        let name = command.get_name();
        let group = GROUPS.iter().find(|(first, _)| *first == name);
        let heading = group.map(|(_, title)| format!("\n{header}{title}:{header:#}\n")).unwrap_or_default();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!(" [alias: {alias}]")).collect();
        format!("{heading}  {literal}{name:width$}{literal:#}  {about}{}\n", aliases.concat())
    };
    let lines: Vec<String> = commands.get_subcommands().map(line).collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\n{header}Options:{header:#}\n{{options}}\n\n\
         `fleetwright help COMMAND` describes a command.",
        lines.concat()
    )
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
    let serves = words.get(1).is_some_and(|command| command == "serve");
    let result = if words.first().is_some_and(|program| Plugin::is_run_as(program)) {
        Plugin::try_parse_from(words).unwrap_or_else(|error| error.exit()).run()
    } else if completion::answer(&words, Cli::command).unwrap_or_else(|error| error.exit()) {
        Ok(Status::Done)
    } else {
        run(Cli::try_parse_from(words).unwrap_or_else(|error| with_name_that_exists(error, serves).exit()).command)
    };
    result.unwrap_or_else(Failure::report).into()
}

/// An unknown flag that is the old name of a configuration key is reported with the new name, and an unknown one of `serve`
/// with those that may be meant, if clap knows none.
fn with_name_that_exists(mut error: clap::Error, serves: bool) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.trim_start_matches('-').to_owned(),
        _ => return error,
    };
    match server_settings::key_of_flag(&unknown) {
        Some(key) => Cli::command().error(
            ErrorKind::UnknownArgument,
            format!("there is no flag --{unknown} any more; its name is --{} now", key.flag),
        ),
        None => {
            let similar = if serves { serve::similar_flags(&unknown) } else { Vec::new() };
            if !similar.is_empty() && error.get(ContextKind::SuggestedArg).is_none() {
                error.insert(ContextKind::SuggestedArg, ContextValue::Strings(similar));
            }
            error
        }
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
        Command::Ec2(command) => ec2::run(command),
        Command::Serve(flags) => serve::run(flags),
        Command::Quote(flags) => quote::run(&flags),
        Command::Hold(flags) => hold::run(&flags),
        Command::Commit(flags) => hold::commit(&flags),
        Command::Release(flags) => hold::release(&flags),
        Command::Fleet(command) => fleet::run(command),
        Command::Top(flags) => top::run(&flags),
        Command::Forget(flags) => forget::run(flags),
        Command::Freezes(command) => freezes::run(command),
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
            with_name_that_exists(error, true).to_string()
        };
        let renamed = message("--rails-mode");
        assert!(renamed.contains("no flag --rails-mode any more; its name is --guardrails-mode now"), "{renamed}");
        assert!(message("--rails-nonsense").contains("unexpected argument '--rails-nonsense'"));
    }

    #[test]
    fn an_unknown_flag_of_serve_is_an_error_that_names_those_that_may_be_meant() {
        let message = |command: &str, flag: &str| {
            let error = Cli::try_parse_from(["fleetwright", command, flag]).expect_err("the flag is unknown");
            with_name_that_exists(error, command == "serve").to_string()
        };
        let port = message("serve", "--port");
        assert!(port.contains("tip: some similar arguments exist: '--listen-grpc', '--listen-http'"), "{port}");
        // What clap finds stays.
        let misspelt = message("serve", "--listn-grpc");
        assert!(misspelt.contains("tip: a similar argument exists: '--listen-grpc'"), "{misspelt}");
        assert!(!message("plan", "--port").contains("--listen"));
    }

    #[test]
    fn the_help_has_every_command_below_the_heading_of_its_group() {
        let command = Cli::command();
        let help = Cli::command().render_help().to_string();
        assert!(help.starts_with("Central autoscaler for the nodes of many Kubernetes clusters"), "{help}");
        assert_eq!(command.get_subcommands().next().map(clap::Command::get_name), Some(GROUPS[0].0));
        for (first, title) in GROUPS {
            assert_eq!(help.matches(&format!("\n\n{title}:\n  {first} ")).count(), 1, "{title}: {help}");
        }
        for name in command.get_subcommands().map(clap::Command::get_name) {
            assert_eq!(help.lines().filter(|line| line.split(' ').nth(2) == Some(name)).count(), 1, "{name}: {help}");
        }
        for part in [
            "Usage: fleetwright",
            "\n  catalogue   Instance types",
            "[alias: catalog]\n",
            "\n  -h, --help",
            "\n\nOptions:\n",
        ] {
            assert!(help.contains(part), "{part}: {help}");
        }
        assert!(!help.contains('{') && !help.contains("\nCommands:"), "{help}");
    }
}
