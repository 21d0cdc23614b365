//! Which clusters a client may see and act on: `clusters` of its entry in the trust file.

use std::fmt;
use std::sync::Arc;

/// Metadata key by which a replica tells another one what the client whose request it passes on may see.
pub const CLUSTERS_KEY: &str = "fleetwright-clusters";

/// Why a text confines no client to clusters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClusterPatternError(String);

/// Clusters that a client may see and act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterAccess {
    /// Names, and prefixes before a `*`; `None` for all clusters.
    patterns: Option<Arc<[String]>>,
}

impl ClusterAccess {
    /// Access to all clusters, and to what concerns the whole fleet.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Access to the clusters of these names, and of names with a prefix before a final `*`.
    ///
    /// # Errors
    /// There is none, or one is neither a name nor a prefix.
    pub fn of_patterns(patterns: &[String]) -> Result<Self, ClusterPatternError> {
        if patterns.is_empty() {
            return Err(ClusterPatternError("clusters is empty; leave it out for a client of all clusters".to_owned()));
        }
        match patterns.iter().find(|pattern| !is_pattern(pattern)) {
            Some(wrong) => Err(ClusterPatternError(format!(
                "{wrong:?} is neither the name of a cluster nor a prefix of names with a * behind it, such as \"team-*\""
            ))),
            None => Ok(Self { patterns: Some(patterns.into()) }),
        }
    }

    /// Whether it is access to one cluster.
    #[must_use]
    pub fn allows(&self, cluster: &str) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => cluster.starts_with(prefix),
            None => cluster == pattern,
        })
    }

    /// Whether it is access to all clusters.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        self.patterns.is_none()
    }

    /// The value of [`CLUSTERS_KEY`]; `None` for access to all clusters.
    #[must_use]
    pub fn to_metadata(&self) -> Option<String> {
        self.patterns.as_ref().map(|patterns| patterns.join(","))
    }

    /// Reads a value of [`CLUSTERS_KEY`].
    ///
    /// # Errors
    /// As for [`ClusterAccess::of_patterns`].
    pub fn of_metadata(value: &str) -> Result<Self, ClusterPatternError> {
        Self::of_patterns(&value.split(',').map(str::to_owned).collect::<Vec<String>>())
    }
}

impl fmt::Display for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.patterns {
            None => f.write_str("all clusters"),
            Some(patterns) => write!(f, "clusters {}", patterns.join(", ")),
        }
    }
}

/// A name of a cluster has letters, digits, `-`, `.` and `_`.
fn is_pattern(pattern: &str) -> bool {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name && !pattern.is_empty() && pattern.len() <= 253
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(patterns: &[&str]) -> Result<ClusterAccess, ClusterPatternError> {
        ClusterAccess::of_patterns(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_and_prefixes_allow_clusters_and_no_others() {
        let team = access(&["team-*", "shared"]).unwrap();
        for (cluster, is_allowed) in [
            ("team-a", true),
            ("team-", true),
            ("shared", true),
            ("shared-2", false),
            ("team", false),
            ("other-team-a", false),
            ("", false),
        ] {
            assert_eq!(team.allows(cluster), is_allowed, "{cluster}");
        }
        assert!(ClusterAccess::all().allows("other") && ClusterAccess::all().is_of_all() && !team.is_of_all());
        assert!(access(&["*"]).unwrap().allows("other"));
    }

    #[test]
    fn what_a_replica_is_told_is_read_back() {
        let team = access(&["team-*", "shared"]).unwrap();
        assert_eq!(ClusterAccess::of_metadata(&team.to_metadata().unwrap()), Ok(team));
        assert_eq!(ClusterAccess::all().to_metadata(), None);
        assert!(ClusterAccess::of_metadata("").is_err(), "nothing is not everything");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for patterns in [&[][..], &[""], &["a*b"], &["*-a"], &["a b"], &["a,b"], &["team-*", "clusters/a"]] {
            assert!(access(patterns).is_err(), "{patterns:?}");
        }
    }
}
