//! Where PostgreSQL is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
    /// The major version, as `PG_VERSION` has it: `15`.
    pub major: String,
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The newest installed version: from Debian's directories, else from the `PATH`.
#[must_use]
pub fn find() -> Option<Binaries> {
    all().into_iter().next()
}

/// The version that created the data in `folder`; the newest when there is no data, or none of that
/// version.
#[must_use]
pub fn find_for(folder: &Path) -> Option<Binaries> {
    let made_by = std::fs::read_to_string(super::data_dir::postgres_dir(folder).join("data").join("PG_VERSION"))
        .unwrap_or_default();
    let all = all();
    all.iter().find(|binaries| binaries.major == made_by.trim()).or(all.first()).cloned()
}

/// Installed major versions, for error texts.
pub(super) fn installed() -> String {
    let majors: Vec<String> = all().into_iter().map(|binaries| binaries.major).collect();
    majors.join(", ")
}

/// All installed versions, newest first. Debian installs each version in its own directory, outside
/// the `PATH`.
fn all() -> Vec<Binaries> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    found.sort();
    let debian = found.into_iter().rev().map(|(_, folder)| folder);
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian.chain(std::env::split_paths(&path)).filter_map(|folder| complete(&folder)).collect()
}

fn complete(folder: &Path) -> Option<Binaries> {
    let programs = ["initdb", "postgres", "pg_ctl", "pg_isready"];
    if !programs.iter().all(|program| folder.join(program).is_file()) {
        return None;
    }
    let version = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    let major = major(&String::from_utf8_lossy(&version.stdout))?;
    Some(Binaries { folder: folder.to_owned(), major })
}

/// Parses `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major(version: &str) -> Option<String> {
    let number = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn a_version_is_its_first_number() {
        assert_eq!(major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)").as_deref(), Some("15"));
        assert_eq!(major("postgres (PostgreSQL) 18beta1").as_deref(), Some("18"));
        assert_eq!(major("something else"), None);
    }
}
