//! What of a cluster cannot be read, or cannot be seen: told instead of keeping the rest of the cluster from being seen.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::{Key, Object, Observation, ProblemRecord};
use engine::model::Text;
use tracing::warn;

/// Problems of one cluster that are told at most, by name. More than these are one fault in many objects, such as a resource
/// that every kubelet reports wrongly.
const MOST_TOLD: usize = 200;

/// Longest reason, in characters: an agent may say anything.
const MOST_CHARS: usize = 500;

/// What cannot be read or seen, by what it is about.
#[derive(Debug, Default)]
pub(super) struct Problems {
    known: BTreeMap<Text, Text>,
    /// What `known` has of it is not told yet.
    changed: BTreeSet<Text>,
}

impl Problems {
    /// What is known of `about` now: why it cannot be read, or that it can.
    pub(super) fn judge(&mut self, about: impl FnOnce() -> String, reason: Option<String>) {
        if self.known.is_empty() && reason.is_none() {
            return;
        }
        let about = Text::from(about());
        let shown = |reason: String| reason.chars().take(MOST_CHARS).collect::<String>();
        let Some(reason) = reason.map(|reason| Text::from(shown(reason))) else {
            if self.known.remove(&about).is_some() {
                self.changed.insert(about);
            }
            return;
        };
        let is_new = !self.known.contains_key(&about);
        if self.known.get(&about) == Some(&reason) || is_new && self.known.len() >= MOST_TOLD {
            return;
        }
        warn!(object = %about, reason = %reason, "of this cluster something cannot be read");
        self.known.insert(about.clone(), reason);
        self.changed.insert(about);
    }

    /// What has changed since the last answer.
    pub(super) fn changed(&mut self) -> Vec<Observation> {
        let known = &self.known;
        let observation = |about: Text| match known.get(&about) {
            Some(reason) => Observation::upsert(Object::Problem(ProblemRecord { reason: reason.clone(), about })),
            None => Observation::Delete(Key::Problem(about)),
        };
        std::mem::take(&mut self.changed).into_iter().map(observation).collect()
    }

    /// All that is known, of which nothing is left to tell then.
    pub(super) fn all(&mut self) -> Vec<ProblemRecord> {
        self.changed.clear();
        let record = |(about, reason): (&Text, &Text)| ProblemRecord { about: about.clone(), reason: reason.clone() };
        self.known.iter().map(record).collect()
    }
}

/// The first of an object's fields that cannot be read; the object is taken without it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    problem: Option<String>,
}

impl Reading {
    /// A reading of an object of which its sender says this; empty when it could read all of it.
    pub(super) fn of(said: &str) -> Self {
        Self { problem: (!said.is_empty()).then(|| said.to_owned()) }
    }

    /// What was read, or nothing, with the reason noted.
    pub(super) fn take<T>(&mut self, read: Result<T, String>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(reason) => {
                self.problem.get_or_insert(reason);
                None
            }
        }
    }

    /// Why the object cannot be read, if it cannot.
    pub(super) fn problem(self) -> Option<String> {
        self.problem
    }

    /// Whether everything could be read so far.
    pub(super) fn is_whole(&self) -> bool {
        self.problem.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(problems: &mut Problems, name: &str, reason: Option<&str>) {
        problems.judge(|| name.to_owned(), reason.map(str::to_owned));
    }

    #[test]
    fn a_problem_is_told_once_and_so_is_its_end() {
        let mut problems = Problems::default();
        judge(&mut problems, "node a", Some("why"));
        judge(&mut problems, "node b", None);
        let record = ProblemRecord { about: "node a".into(), reason: "why".into() };
        assert_eq!(problems.changed(), [Observation::upsert(Object::Problem(record))]);
        judge(&mut problems, "node a", Some("why"));
        assert_eq!(problems.changed(), []);
        judge(&mut problems, "node a", None);
        assert_eq!(problems.changed(), [Observation::Delete(Key::Problem("node a".into()))]);
    }

    #[test]
    fn a_fault_in_every_object_is_told_of_some() {
        let mut problems = Problems::default();
        (0..5_000).for_each(|number| judge(&mut problems, &format!("node {number}"), Some("why")));
        assert_eq!(problems.all().len(), MOST_TOLD);
    }
}
