//! `fleetwright man`: manual pages.

use std::path::PathBuf;

use clap::{Args, Command};
use command::exit::{Failure, Status};
use command::output;

/// Write the manual pages of all commands: fleetwright.1, fleetwright-fleet.1, and so on
#[derive(Debug, Args)]
pub(crate) struct ManFlags {
    /// The folder, which is created, such as /usr/local/share/man/man1
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages of `command` and of its subcommands.
pub(crate) fn run(flags: &ManFlags, command: Command) -> Result<Status, Failure> {
    let folder = flags.folder.display();
    std::fs::create_dir_all(&flags.folder)
        .and_then(|()| clap_mangen::generate_to(command, &flags.folder))
        .map_err(|error| Failure::refused(format!("cannot write manual pages into {folder}: {error}")))?;
    output::print_text(&format!("manual pages are in {folder}; read one by: man {folder}/fleetwright.1\n"))?;
    Ok(Status::Done)
}
