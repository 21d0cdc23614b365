//! `fleetwright explain`: documentation of object fields and configuration keys, like `kubectl
//! explain`.

mod topics;

use clap::Args;
use manifests::fields;

use command::exit::{Failure, Status};
use command::output;

/// Explain a field of NodePool, NodeClaim, NodeOverlay, EC2NodeClass, or of the configuration
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Such as nodepool, nodepool.spec.disruption or config.listen; all topics when absent
    path: Option<String>,
    /// Print the names and types of all fields below
    #[arg(long)]
    recursive: bool,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &ExplainFlags) -> Result<Status, Failure> {
    let text = match flags.path.as_deref().map(str::trim) {
        None | Some("") => topics::all(),
        Some(path) => explain(path, flags.recursive).map_err(Failure::refused)?,
    };
    // The text is part of this program, and its tabs are meant.
    output::print_document(&text)?;
    Ok(Status::Done)
}

fn explain(path: &str, recursive: bool) -> Result<String, String> {
    if let Some(text) = server_settings::explain(path) {
        return Ok(text);
    }
    if let Some(near) = topics::nearest_key(path) {
        return Err(near);
    }
    match fields::lookup(&fields::TABLES, path) {
        Ok(found) if recursive => Ok(fields::render_recursive(&found)),
        Ok(found) => Ok(fields::render(&found)),
        Err(unknown) if unknown.nearest.is_empty() => Err(topics::elsewhere(path)),
        Err(unknown) => Err(unknown.to_string()),
    }
}
