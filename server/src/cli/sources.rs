//! Opening what `-f` names: files, folders (recursively, sorted), and standard input.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use manifests::Source;
use manifests::document::MAX_SOURCE_BYTES;

use super::exit::Failure;

/// Endings of the files that are read from folders.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// How deep folders may nest; a deeper tree is a link that leads back into itself.
const DEPTH_MAX: usize = 64;

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// The content of everything that the arguments name.
///
/// # Errors
/// [`Failure`] naming what cannot be found or read.
pub(crate) fn open(arguments: &[String]) -> Result<Vec<Source>, Failure> {
    find(arguments)?.into_iter().map(read).collect()
}

/// The content of one file.
///
/// # Errors
/// [`Failure`] naming the file when it cannot be read.
pub(crate) fn open_file(path: &str) -> Result<Source, Failure> {
    read(Place::File(PathBuf::from(path)))
}

fn read(place: Place) -> Result<Source, Failure> {
    let name = match &place {
        Place::Stdin => "-".to_owned(),
        Place::File(path) => path.display().to_string(),
    };
    let read = match &place {
        Place::Stdin => read_bounded(std::io::stdin().lock()),
        Place::File(path) => fs::File::open(path).and_then(read_bounded),
    };
    match read {
        Ok(bytes) => Ok(Source { name, bytes }),
        Err(error) => Err(Failure::refused(format!("cannot read {name}: {error}"))),
    }
}

/// Reads one byte more than is allowed at most, so that the parser sees that there was too much.
fn read_bounded(input: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Everything that the arguments name, in their order; files of a folder sorted by path. A file that is named twice is
/// read once.
///
/// # Errors
/// [`Failure`] naming a path that does not exist or cannot be listed, and a folder without any manifest.
fn find(arguments: &[String]) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::new();
    for argument in arguments {
        if argument == "-" {
            places.push(Place::Stdin);
            continue;
        }
        let path = Path::new(argument);
        let about = fs::metadata(path).map_err(|error| Failure::refused(format!("cannot read {argument}: {error}")))?;
        if about.is_dir() {
            let mut files = Vec::new();
            list(path, 0, &mut files)?;
            if files.is_empty() {
                return Err(Failure::refused(format!("{argument}: the folder holds no *.yaml, *.yml or *.json file")));
            }
            files.sort();
            places.extend(files.into_iter().map(Place::File));
        } else {
            places.push(Place::File(path.to_owned()));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    Ok(places)
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let refused = |error: std::io::Error| Failure::refused(format!("cannot list {}: {error}", folder.display()));
    if depth > DEPTH_MAX {
        return Err(Failure::refused(format!("{}: folders nest deeper than {DEPTH_MAX}", folder.display())));
    }
    for entry in fs::read_dir(folder).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        if path.is_dir() {
            list(&path, depth + 1, files)?;
        } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(path);
        }
    }
    Ok(())
}
