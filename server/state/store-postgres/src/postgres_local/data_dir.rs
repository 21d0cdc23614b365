//! Data directory of a local PostgreSQL; never a directory with unknown contents.
//!
//! `store.data-dir` keeps its owner and permissions. The files of PostgreSQL are in a subdirectory,
//! beside a marker file.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::error::{LocalPostgresError, io_error};

/// Marker file of a Fleetwright data directory.
const MARKER: &str = "fleetwright-data";
const MARKER_TEXT: &str = "Fleetwright keeps the PostgreSQL of a server in the folder `postgres` beside this file.\n";
const POSTGRES_DIR: &str = "postgres";

/// PostgreSQL's subdirectory of `store.data-dir`.
pub(super) fn postgres_dir(folder: &Path) -> PathBuf {
    folder.join(POSTGRES_DIR)
}

/// Prepares and returns PostgreSQL's subdirectory of `folder`. Creates both when they are missing.
///
/// # Errors
/// [`LocalPostgresError::UnknownContents`] when the directory is not empty and has no marker.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf, LocalPostgresError> {
    // Mode 0711: the user of PostgreSQL must traverse the directory, and no other user needs to
    // list it.
    let mut make = DirBuilder::new();
    make.recursive(true).mode(0o711).create(folder).map_err(io_error("create the folder", folder))?;
    let folder = folder.canonicalize().map_err(io_error("find the folder", folder))?;
    let marker = folder.join(MARKER);
    if !marker.is_file() {
        let entries = fs::read_dir(&folder).map_err(io_error("read the folder", &folder))?;
        // A new volume contains `lost+found`.
        if entries.flatten().any(|entry| entry.file_name() != "lost+found") {
            return Err(LocalPostgresError::UnknownContents { folder });
        }
        fs::write(&marker, MARKER_TEXT).map_err(io_error("write", &marker))?;
    }
    let home = postgres_dir(&folder);
    match DirBuilder::new().mode(0o700).create(&home) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error("create the folder", &home)(error)),
        _ => Ok(home),
    }
}

/// Creates a directory for a temporary server, with an unguessable name and mode 0700 from the
/// start.
pub(super) fn create_temporary(beside: &Path) -> Result<PathBuf, LocalPostgresError> {
    let folder =
        beside.join(format!("fleetwright-{}", random_suffix().map_err(io_error("read", Path::new(RANDOM_SOURCE)))?));
    DirBuilder::new().mode(0o700).create(&folder).map_err(io_error("create the folder", &folder))?;
    folder.canonicalize().map_err(io_error("find the folder", &folder))
}

const RANDOM_SOURCE: &str = "/dev/urandom";

pub(super) fn random_suffix() -> io::Result<String> {
    let mut bytes = [0; 8];
    fs::File::open(RANDOM_SOURCE)?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}
