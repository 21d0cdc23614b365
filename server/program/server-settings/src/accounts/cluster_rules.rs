//! Which entry of the file of accounts a cluster belongs to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_session::state::check_cluster_name;

/// Names and prefixes of clusters, and the entry of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRules {
    /// The file; `None` if all clusters belong to one account and region.
    file: Option<PathBuf>,
    names: BTreeMap<String, usize>,
    /// Entries by the part before the `*`.
    prefixes: BTreeMap<String, usize>,
    /// The entry that each pattern was found in first.
    owners: BTreeMap<String, String>,
}

/// A cluster that no entry names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no [[account]] in {} names cluster {cluster}, so no account and region is known to launch its machines in; add \
     \"{cluster}\", or a prefix such as \"{}*\", to the clusters of its [[account]] and restart the server",
    file.display(), prefix_of(cluster)
)]
pub struct UnassignedCluster {
    cluster: String,
    file: PathBuf,
}

/// The part of a name before its last hyphen, with the hyphen; the name if it has none.
fn prefix_of(cluster: &str) -> &str {
    cluster.rfind('-').map_or(cluster, |at| &cluster[..=at])
}

impl ClusterRules {
    /// All clusters belong to entry 0.
    #[must_use]
    pub fn all_in_one() -> Self {
        Self {
            file: None,
            names: BTreeMap::new(),
            prefixes: BTreeMap::from([(String::new(), 0)]),
            owners: BTreeMap::new(),
        }
    }

    /// No rules yet, for the file at `path`.
    pub(super) fn of_file(path: &Path) -> Self {
        Self { file: Some(path.to_owned()), prefixes: BTreeMap::new(), ..Self::all_in_one() }
    }

    /// Adds a pattern of the entry with this number, called `title`.
    ///
    /// # Errors
    /// The pattern is no name and no prefix, or an entry has it already.
    pub(super) fn add(&mut self, pattern: &str, entry: usize, title: &str) -> Result<(), String> {
        let prefix = pattern.strip_suffix('*');
        let is_valid = match prefix {
            Some(prefix) => prefix.is_empty() || check_cluster_name(prefix).is_ok(),
            None => check_cluster_name(pattern).is_ok(),
        };
        if !is_valid {
            return Err(format!(
                "clusters: {pattern:?} is neither the name of a cluster (letters, digits, '-', '_' and '.') nor such a \
                 prefix with one '*' at its end"
            ));
        }
        if let Some(other) = self.owners.insert(pattern.to_owned(), title.to_owned()) {
            return Err(format!(
                "clusters: {pattern:?} is in {other} already; each name and prefix belongs to one entry"
            ));
        }
        match prefix {
            Some(prefix) => self.prefixes.insert(prefix.to_owned(), entry),
            None => self.names.insert(pattern.to_owned(), entry),
        };
        Ok(())
    }

    /// Number of the entry that a cluster belongs to: by its name, or else by the longest prefix.
    ///
    /// # Errors
    /// No entry names the cluster.
    pub fn entry_of(&self, cluster: &str) -> Result<usize, UnassignedCluster> {
        let of_prefix = || {
            let matching = self.prefixes.iter().filter(|(prefix, _)| cluster.starts_with(prefix.as_str()));
            matching.max_by_key(|(prefix, _)| prefix.len()).map(|(_, entry)| entry)
        };
        let entry = self.names.get(cluster).or_else(of_prefix).copied();
        entry.ok_or_else(|| UnassignedCluster {
            cluster: cluster.to_owned(),
            file: self.file.clone().unwrap_or_default(),
        })
    }
}
