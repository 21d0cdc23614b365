//! Why the local PostgreSQL cannot run.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum length of the socket directory: 107 bytes on Linux, minus the socket file name.
pub(super) const SOCKET_FOLDER_MAX: usize = 90;

/// Why the local PostgreSQL cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LocalPostgresError {
    #[error("{} is in use by another server on this machine; give each server its own store.data-dir", folder.display())]
    InUse { folder: PathBuf },
    /// The data was created by a PostgreSQL version that is not installed.
    #[error(
        "the data in {} was made by PostgreSQL {made_by}, but only {installed} is installed: install PostgreSQL {made_by}, or move the \
         data with pg_dump", folder.display()
    )]
    Version { folder: PathBuf, made_by: String, installed: String },
    /// The directory is not empty and has no Fleetwright marker.
    #[error(
        "{} is not empty and was not created by Fleetwright: choose a folder that is empty or does not \
         exist. If an earlier release made it, move what it holds into {}/postgres and make a file {}/fleetwright-data",
        folder.display(), folder.display(), folder.display()
    )]
    UnknownContents { folder: PathBuf },
    /// This process runs as root, and the user `postgres` does not exist.
    #[error(
        "PostgreSQL does not run as root, and this machine has no user `postgres` to run it as: create one, or start Fleetwright as \
         another user"
    )]
    NoUser,
    /// The path is too long for a Unix socket.
    #[error("{} is too long a path for a Unix socket: at most {SOCKET_FOLDER_MAX} bytes; choose a shorter store.data-dir", folder.display())]
    TooLong { folder: PathBuf },
    /// A file operation or a program start failed.
    #[error("could not {what} {}: {source}", path.display())]
    System {
        /// Operation, as a verb phrase for the error text.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A PostgreSQL program exited with an error.
    #[error("{program} failed: {output}")]
    Failed { program: String, output: String },
}

/// The error of a failed file operation or program start. `what` is a verb phrase for its text.
pub(super) fn io_error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> LocalPostgresError {
    let path = path.to_owned();
    move |source| LocalPostgresError::System { what, path: path.clone(), source }
}
