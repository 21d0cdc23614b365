//! What this replica depends on, and whether each of it works: since when it does not, why, and what follows.
//!
//! Those who call a dependency report how each call ended ([`Conditions::report`]). Problems, notices, metrics, readiness and log
//! lines are all read from here, so that they never differ. Time is an argument.

mod dependency;
mod metrics;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Millis, Timestamp};
use tracing::{error, info, warn};

pub use self::metrics::scope_labels;
pub(crate) use dependency::Severity;
pub use dependency::{CloudAction, Dependency};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// It gave no answer, or reported a fault of its own.
    NoAnswer,
    /// It refused the credentials, or the right to the call.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// The error, for operators.
    pub reason: String,
}

impl Failure {
    /// A dependency that gave no answer.
    pub fn no_answer(reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::NoAnswer, reason: reason.into() }
    }

    /// A dependency that refused the call.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Refused, reason: reason.into() }
    }
}

/// A dependency that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What does not work.
    pub dependency: Dependency,
    /// When it worked last, or failed first if it never worked.
    pub since: Timestamp,
    /// How it failed first.
    pub failure: Failure,
}

/// What is known of a dependency.
#[derive(Debug, Clone, Default)]
struct State {
    /// When it worked last.
    worked_at: Option<Timestamp>,
    /// The age of the last success above which it does not work, and since when that is expected.
    max_age: Option<(Millis, Timestamp)>,
    /// The first failure since it worked, and when.
    failure: Option<(Failure, Timestamp)>,
    /// Whether the log has said that it does not work.
    is_logged: bool,
}

impl State {
    /// Since when it does not work at `now`, and why.
    fn failing(&self, dependency: &Dependency, now: Timestamp) -> Option<(Timestamp, Failure)> {
        let failed = self.failure.as_ref().filter(|(_, first)| now.duration_since(*first) >= dependency.patience());
        if let Some((failure, first)) = failed {
            return Some((self.worked_at.unwrap_or(*first), failure.clone()));
        }
        let (max_age, expected_since) = self.max_age?;
        let last = self.worked_at.unwrap_or(expected_since);
        let is_old = now.duration_since(last) > max_age;
        is_old.then(|| (last, Failure::no_answer(format!("not read for more than {} s", max_age.as_secs()))))
    }

    /// What the log is to say at `now`, if it does not work and the log has not said so.
    fn newly_failing(&mut self, dependency: &Dependency, now: Timestamp) -> Option<Change> {
        let (since, failure) = self.failing(dependency, now).filter(|_| !self.is_logged)?;
        self.is_logged = true;
        Some(Change::Fails(since, failure))
    }
}

#[derive(Debug, Default)]
pub struct Conditions(Mutex<BTreeMap<Dependency, State>>);

impl Conditions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Dependency, State>> {
        // Every critical section changes one entry or reads, so a poisoned lock guards a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From `now` on the dependency is to succeed at least once in `max_age`.
    pub fn expect(&self, dependency: Dependency, max_age: Millis, now: Timestamp) {
        self.lock().entry(dependency).or_default().max_age = Some((max_age, now));
    }

    /// A call of the dependency ended at `now`. The log has one line when it does not work any more, and one when it works again.
    pub fn report(&self, dependency: &Dependency, result: Result<(), Failure>, now: Timestamp) {
        let mut changes = Vec::new();
        {
            let mut states = self.lock();
            let state = states.entry(dependency.clone()).or_default();
            // It may have ceased to work since its last call.
            changes.extend(state.newly_failing(dependency, now));
            match result {
                Ok(()) => {
                    let since = state.worked_at;
                    state.worked_at = state.worked_at.max(Some(now));
                    let first = state.failure.take().map(|(_, first)| first);
                    let was_logged = std::mem::take(&mut state.is_logged);
                    changes.extend(was_logged.then(|| Change::Works(since.or(first).unwrap_or(now))));
                }
                Err(failure) => {
                    state.failure.get_or_insert((failure, now));
                    changes.extend(state.newly_failing(dependency, now));
                }
            }
        }
        for change in changes {
            change.log(dependency, now);
        }
    }

    /// Logs what has ceased to work by `now`. What fails is called less and less often, so that its next call may be late.
    pub fn log_failing(&self, now: Timestamp) {
        for (dependency, change) in self.newly_failing(now) {
            change.log(&dependency, now);
        }
    }

    /// What has ceased to work by `now` and the log does not say yet.
    fn newly_failing(&self, now: Timestamp) -> Vec<(Dependency, Change)> {
        let mut states = self.lock();
        let newly = states.iter_mut().filter_map(|(dependency, state)| {
            let change = state.newly_failing(dependency, now)?;
            Some((dependency.clone(), change))
        });
        newly.collect()
    }

    /// The dependency does not exist any more.
    pub fn forget(&self, dependency: &Dependency) {
        self.lock().remove(dependency);
    }

    /// Whether the dependency works at `now`, as far as is known.
    #[must_use]
    pub fn works(&self, dependency: &Dependency, now: Timestamp) -> bool {
        self.lock().get(dependency).is_none_or(|state| state.failing(dependency, now).is_none())
    }

    /// When the dependency worked last.
    #[must_use]
    pub fn worked_at(&self, dependency: &Dependency) -> Option<Timestamp> {
        self.lock().get(dependency)?.worked_at
    }

    /// Whether this replica can decide at `now`: the store takes its writes.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.works(&Dependency::Store, now) && self.works(&Dependency::Leases, now)
    }

    /// What does not work at `now`, causes before what may follow from them.
    #[must_use]
    pub fn failing(&self, now: Timestamp) -> Vec<Condition> {
        let states = self.lock();
        let condition = |(dependency, state): (&Dependency, &State)| {
            let (since, failure) = state.failing(dependency, now)?;
            Some(Condition { dependency: dependency.clone(), since, failure })
        };
        states.iter().filter_map(condition).collect()
    }
}

enum Change {
    Fails(Timestamp, Failure),
    Works(Timestamp),
}

impl Change {
    fn log(self, dependency: &Dependency, now: Timestamp) {
        match self {
            Self::Fails(since, Failure { reason, .. }) => {
                let unavailable_s = now.duration_since(since).as_secs();
                if dependency.severity() == Severity::Critical {
                    error!(%dependency, reason, unavailable_s, "dependency unavailable; retrying");
                } else {
                    warn!(%dependency, reason, unavailable_s, "dependency unavailable; retrying");
                }
            }
            Self::Works(since) => {
                info!(%dependency, unavailable_s = now.duration_since(since).as_secs(), "dependency available again");
            }
        }
    }
}

#[cfg(test)]
mod tests;
