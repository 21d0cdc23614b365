//! Reads the manifests that a command names: files, directories (recursively, sorted) and standard input.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::Args;
use manifests::Source;
use manifests::document::MAX_SOURCE_BYTES;

use crate::exit::Failure;

/// Extensions of files that are read from directories.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Maximum directory depth.
const MAX_DEPTH: usize = 64;

/// Files that the shell has opened: `<(…)` is one of them, and a pipe.
const OPENED: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"];

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
pub fn open_file(path: &str) -> Result<Source, Failure> {
    read(if path == "-" { Input::Stdin } else { Input::File(PathBuf::from(path)) })
}

fn read(input: Input) -> Result<Source, Failure> {
    let name = match &input {
        Input::Stdin => "-".to_owned(),
        Input::File(path) => path.display().to_string(),
    };
    let unreadable = |error: std::io::Error| Failure::refused(format!("cannot read {name}: {error}"));
    let bytes = match &input {
        Input::Stdin => read_bounded(std::io::stdin().lock()).map_err(unreadable)?,
        Input::File(path) => {
            check_regular(path, &fs::metadata(path).map_err(unreadable)?)?;
            fs::File::open(path).and_then(read_bounded).map_err(unreadable)?
        }
    };
    Ok(Source { name, bytes })
}

/// Refuses what is no regular file: to open a named pipe is to wait until somebody writes to it, and a device may never end.
fn check_regular(path: &Path, about: &fs::Metadata) -> Result<(), Failure> {
    let kind = about.file_type();
    if kind.is_file() || OPENED.iter().any(|opened| path.starts_with(opened.trim_end_matches('/'))) {
        return Ok(());
    }
    let found = if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "a device"
    };
    Err(Failure::refused(format!(
        "cannot read {}: it is {found}, and only regular files are read; pipe it: cat … | fleetwright … -f -",
        path.display()
    )))
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
            list(path, 0, &mut BTreeSet::new(), &mut files)?;
            if files.is_empty() {
                return Err(Failure::refused(format!("{argument}: the directory has no *.yaml, *.yml or *.json file")));
            }
            files.sort();
            inputs.extend(files.into_iter().map(Input::File));
        } else {
            inputs.push(Input::File(path.to_owned()));
        }
    }
    let mut seen = BTreeSet::new();
    inputs.retain(|input| seen.insert(input.clone()));
    Ok(inputs)
}

/// Adds the files of a folder, and of the folders in it. A folder that several paths lead to is read once, by a path without a
/// symbolic link if there is one: links that lead back to it would otherwise double the work at each level.
fn list(folder: &Path, depth: usize, read: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let refused = |error: std::io::Error| Failure::refused(format!("cannot list {}: {error}", folder.display()));
    if !read.insert(fs::canonicalize(folder).map_err(refused)?) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(Failure::refused(format!("{}: directories nest deeper than {MAX_DEPTH}", folder.display())));
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let (path, is_link) = (entry.path(), entry.file_type().map_err(refused)?.is_symlink());
        if path.is_dir() {
            folders.push((is_link, path));
        } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| EXTENSIONS.contains(&ending))
        {
            files.push(path);
        }
    }
    folders.sort();
    folders.iter().try_for_each(|(_, path)| list(path, depth + 1, read, files))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// An empty folder, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fleetwright-sources-{name}-{}", std::process::id()));
            let _absent = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn argument(&self) -> Vec<String> {
            vec![self.0.display().to_string()]
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.0);
        }
    }

    fn refusal(arguments: &[String]) -> String {
        open(arguments).expect_err("it is refused").messages.join("\n")
    }

    #[test]
    fn a_folder_is_read_once_however_many_links_lead_to_it() {
        let folder = Folder::new("links");
        fs::create_dir(folder.0.join("b")).expect("a folder");
        fs::write(folder.0.join("b/one.yaml"), "a: 1").expect("a file");
        fs::write(folder.0.join("two.json"), "{}").expect("a file");
        // Two links at each level are 2^64 paths of 64 levels.
        for link in ["a-link", "z-link", "b/a-link", "b/z-link"] {
            symlink(&folder.0, folder.0.join(link)).expect("a link");
        }
        symlink(folder.0.join("b"), folder.0.join("a-b")).expect("a link");
        let read = open(&folder.argument()).expect("two files");
        let names: Vec<&str> =
            read.iter().filter_map(|source| source.name.strip_prefix(&*folder.argument()[0])).collect();
        assert_eq!(names, ["/b/one.yaml", "/two.json"]);
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = Folder::new("pipe");
        let pipe = folder.0.join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let expected =
            format!("cannot read {}: it is a named pipe, and only regular files are read; pipe it:", pipe.display());
        for arguments in [folder.argument(), vec![pipe.display().to_string()]] {
            let refused = refusal(&arguments);
            assert!(refused.contains(&expected), "{refused}");
        }
        assert!(refusal(&["/dev/zero".to_owned()]).contains("it is a device"));
        fs::remove_file(&pipe).expect("it is there");
        let socket = folder.0.join("socket.yaml");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(refusal(&folder.argument()).contains("it is a socket"));
    }
}
