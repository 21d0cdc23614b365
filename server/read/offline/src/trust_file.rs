//! `fleetwright trust`: the file of agents and API clients, `auth.file`.

use std::path::PathBuf;

use auth::inspection::{Finding, inspect_file};
use clap::{Args, Subcommand};

use command::exit::{Failure, Status};
use command::output;

/// Check the trust file (setting auth.file), which maps agents to clusters and API clients to scopes
#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    Check(CheckFlags),
}

/// Print all errors of a trust file (auth.file), and the entries that admit nobody
///
/// Exit status 2: a server refuses the file.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// The trust file
    file: PathBuf,
    /// Certificate authorities of agents, as in the server's setting listen.client-ca
    #[arg(long, env = "FLEETWRIGHT_LISTEN_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// All errors of the file.
pub fn run(command: TrustCommand) -> Result<Status, Failure> {
    let TrustCommand::Check(CheckFlags { file, client_ca }) = command;
    let path = file.display();
    let found = inspect_file(&file, client_ca.is_some())
        .map_err(|error| Failure::refused(format!("cannot read the trust file {path}: {error}")))?;
    let lines = |findings: &[Finding], level: &str| -> Vec<String> {
        findings.iter().map(|finding| format!("{level}{path}:{finding}")).collect()
    };
    for warning in lines(&found.warnings, "warning: ") {
        output::print_text(&format!("{warning}\n"))?;
    }
    if !found.errors.is_empty() {
        return Err(Failure { status: Status::Refused, messages: lines(&found.errors, "") });
    }
    output::print_text(&format!(
        "{path} is valid: agents: {}, clients: {}, warnings: {}\n",
        found.agents,
        found.clients,
        found.warnings.len()
    ))?;
    Ok(Status::Done)
}
