//! `fleetwright-agent`: reads its settings and starts the agent of the cluster that it runs in.

use std::process::ExitCode;

use agent::config::{Arguments, Config};
use clap::Parser;

/// Exit code for input that cannot be used.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleetwright-agent: {error:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::resolve(arguments)?;
    if arguments.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    config.start_log();
    tracing::info!(cluster = config.cluster_name, server = config.server, "settings are valid");
    anyhow::bail!(
        "cannot speak for cluster {:?}: this version of the agent has no way to reach a Kubernetes API server. The settings are \
         valid (--print-config shows them). To see agents at work on simulated clusters, run `fleetwright demo`",
        config.cluster_name
    )
}
