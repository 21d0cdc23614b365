//! The file of accounts and regions, `cloud.accounts-file`: which account and region each cluster's instances are
//! launched in, and by which roles.
//!
//! It is read when the server starts. A cluster that no entry names belongs to no account: nothing is decided for it.

mod cluster_rules;
mod entry;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::keys::find;
use super::layers::Layers;
pub use cluster_rules::{ClusterRules, UnassignedCluster};
use entry::EntryFields;
pub use entry::{AccountEntry, AccountRoles};
use settings::ConfigError;

/// Name of the setting.
pub(super) const KEY: &str = "cloud.accounts-file";

/// Settings that each entry of the file has its own value of.
const OF_ENTRIES: [&str; 4] = ["cloud.account", "cloud.region", "cloud.api-limit-percent", "interruption.queue"];

/// Reads the file that the settings name, if they name one.
///
/// # Errors
/// Settings that exclude it, or what is wrong with the file.
pub(super) fn resolve(layers: &Layers) -> Result<Option<Accounts>, ConfigError> {
    let Some(path) = layers.optional(KEY) else { return Ok(None) };
    let is_set = |key: &&str| find(key).is_some_and(|known| layers.get(key).0 != known.default);
    let set: Vec<&str> = OF_ENTRIES.iter().filter(|key| is_set(key)).copied().collect();
    if !set.is_empty() {
        return Err(ConfigError::Conflict(format!(
            "{KEY} is set, and so are {}; remove these, and write their values into the [[account]] entries of the file",
            set.join(", ")
        )));
    }
    Accounts::read(Path::new(&path)).map(Some).map_err(|error| ConfigError::Other(error.to_string()))
}

/// Content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountsFile {
    #[serde(default)]
    account: Vec<Spanned<EntryFields>>,
}

/// Accounts and regions, and which clusters belong to each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounts {
    path: PathBuf,
    entries: Vec<AccountEntry>,
    rules: ClusterRules,
    /// The text, which replicas compare.
    text: String,
}

/// An error of the file, with its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    line: usize,
    message: String,
}

/// All errors of a file, at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.messages().join("\n"))]
pub struct AccountsError {
    path: PathBuf,
    problems: Vec<Problem>,
}

impl AccountsError {
    /// The text of each error.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let path = self.path.display();
        let text = |problem: &Problem| match problem {
            Problem { line: 0, message } => format!("accounts file {path}: {message}"),
            Problem { line, message } => format!("accounts file {path}:{line}: {message}"),
        };
        self.problems.iter().map(text).collect()
    }
}

impl Accounts {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file is unreadable or invalid: all its errors, or the first one if it is no TOML or has a field of another type
    /// or name.
    pub fn read(path: &Path) -> Result<Self, AccountsError> {
        let refused = |problems| AccountsError { path: path.to_owned(), problems };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| refused(vec![Problem { line: 0, message: error.to_string() }]))?;
        Self::parse(path, text).map_err(refused)
    }

    fn parse(path: &Path, text: String) -> Result<Self, Vec<Problem>> {
        let file: AccountsFile = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            vec![Problem { line: line_at(&text, at), message: error.message().to_owned() }]
        })?;
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        let mut rules = ClusterRules::of_file(path);
        let mut scopes = BTreeMap::new();
        for (number, fields) in file.account.into_iter().enumerate() {
            let line = line_at(&text, fields.span().start);
            let fields = fields.into_inner();
            let title = fields.title(number + 1);
            let mut found = fields.check();
            for pattern in &fields.clusters {
                found.extend(rules.add(pattern, number, &title).err());
            }
            if let Some(other) = scopes.insert((fields.name.clone(), fields.region.clone()), title.clone()) {
                found
                    .push(format!("{other} is the same account and region; write the clusters of both into one entry"));
            }
            problems.extend(found.into_iter().map(|why| Problem { line, message: format!("{title}: {why}") }));
            entries.push(fields.into_entry());
        }
        if entries.is_empty() && problems.is_empty() {
            let message =
                "it has no [[account]], so every cluster would be refused; add one entry for each account and region";
            problems.push(Problem { line: 1, message: message.to_owned() });
        }
        if problems.is_empty() { Ok(Self { path: path.to_owned(), entries, rules, text }) } else { Err(problems) }
    }

    /// The accounts and regions, in the order of the file; at least one, and no two equal ones.
    #[must_use]
    pub fn entries(&self) -> &[AccountEntry] {
        &self.entries
    }

    /// Which entry each cluster belongs to.
    #[must_use]
    pub fn rules(&self) -> &ClusterRules {
        &self.rules
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Text of the file.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Line of the byte at `offset`, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
