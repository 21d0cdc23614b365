//! Which facts of each cluster the threads have prepared, how old they are, and which are prepared again before a quote asks
//! for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::planning_facts::FactsKey;
use model::ClusterName;
use tokio::time::Instant;

/// Oldest facts that a quote is made from.
pub(super) const MAX_AGE: Duration = Duration::from_secs(1);

/// Age from which facts are taken again in the background. The rest of [`MAX_AGE`] is for the time that this takes.
const REFRESH_AGE: Duration = Duration::from_millis(700);

/// The facts of a cluster are kept recent for this long after its last quote.
const REFRESHED_FOR: Duration = Duration::from_secs(5);

/// The facts of the clusters that are prepared.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    clusters: BTreeMap<ClusterName, Known>,
    /// Whether a task keeps them recent.
    is_refreshed: bool,
}

/// The facts of a cluster that its thread has.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    key: Arc<FactsKey>,
    /// When they were asked for, or were last known to hold.
    taken: Instant,
    /// Last quote; `None` if the facts are not taken again before the next one.
    quoted: Option<Instant>,
}

impl Known {
    pub(super) fn key(&self) -> &Arc<FactsKey> {
        &self.key
    }

    /// When they were taken, if a quote at `now` may be made from them.
    pub(super) fn recent(&self, now: Instant) -> Option<Instant> {
        (now.duration_since(self.taken) <= MAX_AGE).then_some(self.taken)
    }
}

impl KnownFacts {
    /// The facts of a cluster that is quoted now.
    pub(super) fn quoted(&self, cluster: &ClusterName, now: Instant) -> Option<Known> {
        let mut state = self.lock();
        let known = state.clusters.get_mut(cluster)?;
        known.quoted = Some(now);
        Some(known.clone())
    }

    pub(super) fn get(&self, cluster: &ClusterName) -> Option<Known> {
        self.lock().clusters.get(cluster).cloned()
    }

    /// The thread of the cluster gets the facts that were taken then. False if it has later ones: a quote may have asked for
    /// facts while earlier ones were being prepared.
    pub(super) fn set(&self, cluster: &ClusterName, key: FactsKey, taken: Instant) -> bool {
        let (mut state, key) = (self.lock(), Arc::new(key));
        let known = state.clusters.get(cluster);
        if known.is_some_and(|known| known.taken > taken) {
            return false;
        }
        let quoted = known.map_or(Some(taken), |known| known.quoted);
        state.clusters.insert(cluster.clone(), Known { key, taken, quoted });
        true
    }

    /// The facts with this key still held then. Nothing changes if the cluster has others by now.
    pub(super) fn renew(&self, cluster: &ClusterName, key: &Arc<FactsKey>, taken: Instant) {
        if let Some(known) = self.lock().clusters.get_mut(cluster).filter(|known| Arc::ptr_eq(&known.key, key)) {
            known.taken = known.taken.max(taken);
        }
    }

    /// Leaves a cluster that does not answer to its next quote.
    pub(super) fn leave(&self, cluster: &ClusterName) {
        if let Some(known) = self.lock().clusters.get_mut(cluster) {
            known.quoted = None;
        }
    }

    pub(super) fn forget(&self, cluster: &ClusterName) {
        self.lock().clusters.remove(cluster);
    }

    /// Forgets all clusters but those that `is_kept`; returns the others.
    pub(super) fn retain(&self, is_kept: impl Fn(&ClusterName) -> bool) -> Vec<ClusterName> {
        self.lock().clusters.extract_if(.., |name, _| !is_kept(name)).map(|(name, _)| name).collect()
    }

    /// Whether the caller has to start the task that keeps facts recent. It runs until [`KnownFacts::due`] is `None`.
    pub(super) fn begin_refresh(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_refreshed, true)
    }

    /// The clusters whose facts are to be taken again, oldest first; `None` if no cluster was quoted lately, so that the task
    /// ends.
    pub(super) fn due(&self, now: Instant) -> Option<Vec<ClusterName>> {
        let mut state = self.lock();
        let mut quoted: Vec<(&Instant, &ClusterName)> = (state.clusters.iter())
            .filter(|(_, known)| known.quoted.is_some_and(|quoted| now.duration_since(quoted) < REFRESHED_FOR))
            .map(|(name, known)| (&known.taken, name))
            .collect();
        if quoted.is_empty() {
            state.is_refreshed = false;
            return None;
        }
        quoted.sort_unstable();
        let due = quoted.into_iter().filter(|(taken, _)| now.duration_since(**taken) >= REFRESH_AGE);
        Some(due.map(|(_, name)| name.clone()).collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ClusterName {
        ClusterName::from(name)
    }

    /// Facts of clusters taken this many milliseconds after `begin`.
    fn known(begin: Instant, taken: &[(&str, u64)]) -> KnownFacts {
        let known = KnownFacts::default();
        for (cluster, at) in taken {
            assert!(known.set(&name(cluster), FactsKey::default(), begin + Duration::from_millis(*at)));
        }
        known
    }

    #[test]
    fn facts_are_recent_for_a_second_from_when_they_were_last_known_to_hold() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let facts = known(begin, &[("a", 0)]);
        let first = facts.quoted(&name("a"), at(1_000)).expect("it is known");
        assert_eq!((first.recent(at(1_000)), first.recent(at(1_001))), (Some(begin), None));
        facts.renew(&name("a"), first.key(), at(900));
        // A later answer of an earlier question.
        facts.renew(&name("a"), first.key(), at(400));
        assert_eq!(facts.get(&name("a")).and_then(|known| known.recent(at(1_900))), Some(at(900)));
        // Facts that were taken before those that the thread has.
        assert!(!facts.set(&name("a"), FactsKey::default(), at(899)));
        assert!(facts.get(&name("a")).is_some_and(|known| Arc::ptr_eq(known.key(), first.key())));
        // The thread has other facts since.
        assert!(facts.set(&name("a"), FactsKey::default(), at(1_000)));
        facts.renew(&name("a"), first.key(), at(5_000));
        assert_eq!(facts.get(&name("a")).and_then(|known| known.recent(at(5_000))), None);
    }

    #[test]
    fn the_oldest_facts_of_clusters_that_are_quoted_are_taken_again_until_quotes_end() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let facts = known(begin, &[("a", 300), ("b", 200), ("c", 900)]);
        assert!(facts.begin_refresh());
        assert!(!facts.begin_refresh(), "a task runs already");
        assert_eq!(facts.due(at(1_000)), Some(vec![name("b"), name("a")]));
        // Preparing a cluster again is no quote.
        assert!(facts.set(&name("b"), FactsKey::default(), at(5_000)));
        assert_eq!(facts.due(at(5_299)), Some(vec![name("a"), name("c")]));
        facts.quoted(&name("b"), at(5_300));
        assert_eq!(facts.due(at(6_000)), Some(vec![name("b")]));
        facts.quoted(&name("a"), at(6_000));
        facts.leave(&name("a"));
        assert_eq!(facts.due(at(6_000)), Some(vec![name("b")]));
        assert_eq!(facts.due(at(10_300)), None);
        assert!(facts.begin_refresh(), "the task has ended");
    }
}
