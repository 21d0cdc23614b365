//! What drift is found by that no object of the cluster shows.

use super::class_lookups::ClassLookups;
use super::listed_instances::ListedInstances;

/// What NodeClaims are compared by that no object of the cluster shows.
#[derive(Debug, Clone, Default)]
pub(super) struct DriftEvidence {
    pub(super) rules: ComparisonRules,
    pub(super) lookups: ClassLookups,
    pub(super) instances: ListedInstances,
}

/// How instances are compared with what their EC2NodeClasses select.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComparisonRules {
    /// This server resolves EC2NodeClasses. What another one resolves is in their status.
    pub is_resolver: bool,
    /// A value counts whenever it was looked up, and a status when nothing was; on in guard-off tests only.
    pub allows_outdated: bool,
    /// The status of a failed lookup counts; on in guard-off tests only.
    pub allows_failed: bool,
}
