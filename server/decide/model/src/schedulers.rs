//! Schedulers of pods, by `spec.schedulerName`: only those of kube-scheduler have rules that this program knows.

use std::collections::BTreeSet;

use super::Text;

/// The name of kube-scheduler, which is meant where a pod names none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The schedulers whose pods are planned: kube-scheduler, and others that the operator names because they place pods by its
/// rules. Pods of others are never nominated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedSchedulers(BTreeSet<Text>);

impl PlannedSchedulers {
    /// kube-scheduler and those of these names, which are separated by commas.
    #[must_use]
    pub fn beside_default(names: &str) -> Self {
        Self(names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Text::from).collect())
    }

    /// `scheduler`, if its pods are not planned.
    #[must_use]
    pub fn other<'s>(&self, scheduler: &'s Text) -> Option<&'s Text> {
        Some(scheduler).filter(|name| name.as_ref() != DEFAULT_SCHEDULER && !self.0.contains(*name))
    }
}
