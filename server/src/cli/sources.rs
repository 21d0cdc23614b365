//! Reads the manifests that a command names: files, directories (recursively, sorted) and standard input.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use manifests::Source;
use manifests::document::MAX_SOURCE_BYTES;

use super::exit::Failure;

/// Extensions of files that are read from directories.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Maximum directory depth; a deeper tree is a symbolic link cycle.
const MAX_DEPTH: usize = 64;

/// The manifests of a command.
#[derive(Debug, Args)]
pub struct InputFlags {
    /// File, directory (recursively *.yaml *.yml *.json), or - for standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "PATH", required_unless_present = "paths")]
    filenames: Vec<String>,
    /// Files and directories, as with -f
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Has no effect: directories are always read recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl InputFlags {
    /// The files and directories, in the order of `-f` and then of the arguments.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.filenames.iter().chain(&self.paths).cloned().collect()
    }
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Input {
    /// `-`.
    Stdin,
    /// Path of a file.
    File(PathBuf),
}

/// Reads all inputs.
///
/// # Errors
/// [`Failure`] with the missing or unreadable input.
pub fn open(arguments: &[String]) -> Result<Vec<Source>, Failure> {
    find(arguments)?.into_iter().map(read).collect()
}

/// Reads one file, or standard input for `-`.
///
/// # Errors
/// [`Failure`] with the unreadable file.
pub(crate) fn open_file(path: &str) -> Result<Source, Failure> {
    read(if path == "-" { Input::Stdin } else { Input::File(PathBuf::from(path)) })
}

fn read(input: Input) -> Result<Source, Failure> {
    let name = match &input {
        Input::Stdin => "-".to_owned(),
        Input::File(path) => path.display().to_string(),
    };
    let read = match &input {
        Input::Stdin => read_bounded(std::io::stdin().lock()),
        Input::File(path) => fs::File::open(path).and_then(read_bounded),
    };
    match read {
        Ok(bytes) => Ok(Source { name, bytes }),
        Err(error) => Err(Failure::refused(format!("cannot read {name}: {error}"))),
    }
}

/// Reads one byte beyond the maximum, so that the parser detects an oversized input.
fn read_bounded(input: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All inputs in argument order; files of a directory are sorted by path. Duplicates are read once.
///
/// # Errors
/// [`Failure`] with a path that does not exist or cannot be listed, or a directory without
/// manifests.
fn find(arguments: &[String]) -> Result<Vec<Input>, Failure> {
    let mut inputs = Vec::new();
    for argument in arguments {
        if argument == "-" {
            inputs.push(Input::Stdin);
            continue;
        }
        if argument.contains("://") {
            return Err(Failure::refused(format!(
                "{argument}: addresses are not read; download it first, or pipe it: curl --fail --silent {argument} | fleetwright … -f -"
            )));
        }
        let path = Path::new(argument);
        let about = fs::metadata(path).map_err(|error| Failure::refused(format!("cannot read {argument}: {error}")))?;
        if about.is_dir() {
            let mut files = Vec::new();
            list(path, 0, &mut files)?;
            if files.is_empty() {
                return Err(Failure::refused(format!("{argument}: the directory has no *.yaml, *.yml or *.json file")));
            }
            files.sort();
            inputs.extend(files.into_iter().map(Input::File));
        } else {
            inputs.push(Input::File(path.to_owned()));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    inputs.retain(|input| seen.insert(input.clone()));
    Ok(inputs)
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let refused = |error: std::io::Error| Failure::refused(format!("cannot list {}: {error}", folder.display()));
    if depth > MAX_DEPTH {
        return Err(Failure::refused(format!("{}: directories nest deeper than {MAX_DEPTH}", folder.display())));
    }
    for entry in fs::read_dir(folder).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        if path.is_dir() {
            list(&path, depth + 1, files)?;
        } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| EXTENSIONS.contains(&ending))
        {
            files.push(path);
        }
    }
    Ok(())
}
