//! `fleetwright explain`: documentation of object fields and configuration keys, like `kubectl
//! explain`.

use clap::Args;
use manifests::fields;

use super::exit::{Failure, Status};
use super::output;
use crate::config;

/// Explain a field of NodePool, NodeClaim, NodeOverlay, EC2NodeClass, or of the configuration
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Such as nodepool, nodepool.spec.disruption or config.listen
    path: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &ExplainFlags) -> Result<Status, Failure> {
    let text = match config::explain(&flags.path) {
        Some(text) => text,
        None => fields::render(&fields::lookup(fields::TABLES, &flags.path).map_err(Failure::refused)?),
    };
    output::print_text(&text)?;
    Ok(Status::Done)
}
