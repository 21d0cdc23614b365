//! The folder that a PostgreSQL of our own lives in: never one that holds anything of somebody else.
//!
//! `store.data-dir` itself keeps its owner and its permissions. What is PostgreSQL's lies in a subfolder of it, beside a file
//! that says whose the folder is.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{OwnError, system};

/// The file that marks a folder as ours.
const MARKER: &str = "fleetwright-data";
/// What it says.
const MARK: &str = "Fleetwright keeps the PostgreSQL of a server in the folder `postgres` beside this file.\n";
/// What is PostgreSQL's.
const HOME: &str = "postgres";

/// Where PostgreSQL's own files are below `store.data-dir`.
pub(super) fn below(folder: &Path) -> PathBuf {
    folder.join(HOME)
}

/// The subfolder of `folder` that is PostgreSQL's. Both are made when they are missing.
///
/// # Errors
/// [`OwnError::NotOurs`] when the folder holds something and has no marker.
pub(super) fn claim(folder: &Path) -> Result<PathBuf, OwnError> {
    // Whoever PostgreSQL runs as must be able to pass through, and nobody needs to see what else there is.
    let mut make = DirBuilder::new();
    make.recursive(true).mode(0o711).create(folder).map_err(system("create the folder", folder))?;
    let folder = folder.canonicalize().map_err(system("find the folder", folder))?;
    let marker = folder.join(MARKER);
    if !marker.is_file() {
        let entries = fs::read_dir(&folder).map_err(system("read the folder", &folder))?;
        // A volume that was just made has a folder of its file system's.
        if entries.flatten().any(|entry| entry.file_name() != "lost+found") {
            return Err(OwnError::NotOurs { folder });
        }
        fs::write(&marker, MARK).map_err(system("write", &marker))?;
    }
    let home = below(&folder);
    match DirBuilder::new().mode(0o700).create(&home) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(system("create the folder", &home)(error)),
        _ => Ok(home),
    }
}

/// A fresh folder for a throw-away server: its name cannot be guessed, and only this user may enter it from the first moment.
pub(super) fn fresh(beside: &Path) -> Result<PathBuf, OwnError> {
    let folder = beside.join(format!("fleetwright-{}", unguessable().map_err(system("read", Path::new(CHANCE)))?));
    DirBuilder::new().mode(0o700).create(&folder).map_err(system("create the folder", &folder))?;
    folder.canonicalize().map_err(system("find the folder", &folder))
}

const CHANCE: &str = "/dev/urandom";

/// Sixteen hexadecimal digits of the system's source of chance.
pub(super) fn unguessable() -> io::Result<String> {
    let mut bytes = [0; 8];
    fs::File::open(CHANCE)?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}
