//! Reports objects of a cluster that are unreadable, without rejecting the rest of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Key, Object, Observation, ProblemRecord};
use model::Text;
use model::quantity::QuantityError;
use tracing::warn;

/// Maximum reported problems per cluster. More than these are one fault in many objects, such as a
/// resource that every kubelet reports incorrectly.
const MAX_PROBLEMS: usize = 200;

/// Maximum characters of a reason, which comes from the agent.
const MAX_REASON_CHARS: usize = 500;

/// Current problems of one cluster, by subject.
#[derive(Debug, Default)]
pub(super) struct ProblemTracker {
    known: BTreeMap<Text, Text>,
    /// Subjects whose change is not reported yet.
    changed: BTreeSet<Text>,
}

impl ProblemTracker {
    /// Sets or clears the problem of a subject.
    pub(super) fn record(&mut self, about: impl FnOnce() -> String, reason: Option<String>) {
        if self.known.is_empty() && reason.is_none() {
            return;
        }
        let about = Text::from(about());
        let truncated = |reason: String| reason.chars().take(MAX_REASON_CHARS).collect::<String>();
        let Some(reason) = reason.map(|reason| Text::from(truncated(reason))) else {
            if self.known.remove(&about).is_some() {
                self.changed.insert(about);
            }
            return;
        };
        let is_new = !self.known.contains_key(&about);
        if self.known.get(&about) == Some(&reason) || is_new && self.known.len() >= MAX_PROBLEMS {
            return;
        }
        warn!(object = %about, reason = %reason, "unreadable object");
        self.known.insert(about.clone(), reason);
        self.changed.insert(about);
    }

    /// Changes since the last call.
    pub(super) fn drain_changes(&mut self) -> Vec<Observation> {
        let known = &self.known;
        let observation = |about: Text| match known.get(&about) {
            Some(reason) => Observation::upsert(Object::Problem(ProblemRecord { reason: reason.clone(), about })),
            None => Observation::Delete(Key::Problem(about)),
        };
        std::mem::take(&mut self.changed).into_iter().map(observation).collect()
    }

    /// All current problems; marks them as reported.
    pub(super) fn all(&mut self) -> Vec<ProblemRecord> {
        self.changed.clear();
        let record = |(about, reason): (&Text, &Text)| ProblemRecord { about: about.clone(), reason: reason.clone() };
        self.known.iter().map(record).collect()
    }
}

/// An unreadable field of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldError {
    #[error("field {field}: {resource}: {error}")]
    Quantity { field: &'static str, resource: String, error: QuantityError },
    #[error("field {field}: {key} has the effect {effect:?}")]
    TaintEffect { field: &'static str, key: String, effect: String },
    #[error("field {field}: {key} has the operator {operator:?}")]
    Operator { field: &'static str, key: String, operator: String },
    #[error("the condition on {key} has the operator {operator:?}")]
    ConditionOperator { key: String, operator: String },
}

/// Collects the first unreadable field while an object is decoded without its unreadable fields.
#[derive(Debug, Default)]
pub(super) struct FieldReader {
    problem: Option<String>,
}

impl FieldReader {
    /// Starts with the problem that the agent reported for the object; empty when it reported none.
    pub(super) fn of(reported: &str) -> Self {
        Self { problem: (!reported.is_empty()).then(|| reported.to_owned()) }
    }

    /// Unwraps a decoded field; records the error of an unreadable one.
    pub(super) fn accept<T>(&mut self, read: Result<T, FieldError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }

    /// Reason of the first unreadable field.
    pub(super) fn problem(self) -> Option<String> {
        self.problem
    }

    /// Whether every field was readable so far.
    pub(super) fn is_whole(&self) -> bool {
        self.problem.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(problems: &mut ProblemTracker, name: &str, reason: Option<&str>) {
        problems.record(|| name.to_owned(), reason.map(str::to_owned));
    }

    #[test]
    fn a_problem_is_reported_once_and_so_is_its_end() {
        let mut problems = ProblemTracker::default();
        record(&mut problems, "node a", Some("why"));
        record(&mut problems, "node b", None);
        let expected = ProblemRecord { about: "node a".into(), reason: "why".into() };
        assert_eq!(problems.drain_changes(), [Observation::upsert(Object::Problem(expected))]);
        record(&mut problems, "node a", Some("why"));
        assert_eq!(problems.drain_changes(), []);
        record(&mut problems, "node a", None);
        assert_eq!(problems.drain_changes(), [Observation::Delete(Key::Problem("node a".into()))]);
    }

    #[test]
    fn a_fault_in_every_object_is_reported_for_a_limited_number() {
        let mut problems = ProblemTracker::default();
        (0..5_000).for_each(|number| record(&mut problems, &format!("node {number}"), Some("why")));
        assert_eq!(problems.all().len(), MAX_PROBLEMS);
    }
}
