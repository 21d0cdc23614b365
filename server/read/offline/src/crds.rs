//! `fleetwright crds`: custom resource definitions.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use manifests::schema::{Definition, definitions};

use command::exit::{Failure, Status};
use command::output;

/// Print the custom resource definitions, for `kubectl apply --server-side -f -`
#[derive(Debug, Args)]
pub struct CrdsFlags {
    /// Write one file per kind into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &CrdsFlags) -> Result<Status, Failure> {
    match &flags.directory {
        Some(directory) => definitions().iter().try_for_each(|definition| write(definition, directory))?,
        None => output::print_document(&whole_stream())?,
    }
    Ok(Status::Done)
}

fn whole_stream() -> String {
    definitions().iter().map(Definition::to_yaml).collect::<Vec<_>>().join("---\n")
}

fn write(definition: &Definition, directory: &Path) -> Result<(), Failure> {
    let path = directory.join(definition.file_name());
    let failed = |why| Failure::refused(format!("cannot write {}: {why}; does the directory exist?", path.display()));
    fs::write(&path, definition.to_yaml()).map_err(failed)
}
