//! The catalogue of an account and region as it was read from the cloud last, and when each cluster takes it over.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use cloud::catalogue::Snapshot;
use model::ClusterName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Clusters take a catalogue over within this part of the shortest refresh interval.
const WINDOW_PART: u32 = 5;

/// Longest time within which clusters take a catalogue over.
const LONGEST_WINDOW: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    /// Grows with each change; 0 before the first.
    pub(crate) version: u64,
    /// `None` before the first change.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

/// The catalogue of an account and region, which its refreshes replace. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PublishedCatalogue {
    current: watch::Sender<Published>,
    window: Duration,
    /// One cluster compiles at a time, so that a new catalogue takes no more than one thread from sessions and decisions.
    turns: Arc<Semaphore>,
}

impl PublishedCatalogue {
    /// Nothing is published. `interval` is the shortest interval of its refreshes.
    pub(crate) fn new(interval: Duration) -> Self {
        let window = (interval / WINDOW_PART).min(LONGEST_WINDOW);
        Self { current: watch::Sender::default(), window, turns: Arc::new(Semaphore::new(1)) }
    }

    #[cfg(any(feature = "ec2", test))]
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        self.current.send_modify(|published| {
            *published = Published { version: published.version + 1, snapshot: Some(Arc::new(snapshot)) };
        });
    }

    pub(crate) fn current(&self) -> Published {
        self.current.borrow().clone()
    }

    /// When the NodePools of a cluster are parsed again.
    pub(crate) fn rereads_of(&self, cluster: &ClusterName) -> Rereads {
        // Each process has keys of its own, so that replicas take a catalogue over in another order.
        let place = (RandomState::new().hash_one(cluster) >> 32) as u32;
        let delay = self.window.mul_f64(f64::from(place) / f64::from(u32::MAX));
        Rereads { changes: self.current.subscribe(), delay, due: None, turns: Arc::clone(&self.turns) }
    }
}

/// When the NodePools of a cluster are parsed again: a while after a change of the catalogue, which differs by cluster.
/// Changes in this while are taken over together.
#[derive(Debug)]
pub(crate) struct Rereads {
    changes: watch::Receiver<Published>,
    delay: Duration,
    due: Option<Instant>,
    turns: Arc<Semaphore>,
}

impl Rereads {
    /// The turn to parse, which ends when it is dropped. A call that was dropped before loses nothing.
    pub(crate) async fn turn(&mut self) -> OwnedSemaphorePermit {
        let due = match self.due {
            Some(due) => due,
            None => {
                if self.changes.changed().await.is_err() {
                    return std::future::pending().await;
                }
                *self.due.insert(Instant::now() + self.delay)
            }
        };
        tokio::time::sleep_until(due).await;
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return std::future::pending().await;
        };
        self.changes.mark_unchanged();
        self.due = None;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> PublishedCatalogue {
        PublishedCatalogue::new(Duration::from_mins(5))
    }

    fn publish(catalogue: &PublishedCatalogue) {
        catalogue.publish(Snapshot::builtin().expect("the built-in catalogue is valid").clone());
    }

    #[tokio::test(start_paused = true)]
    async fn clusters_take_a_catalogue_over_one_after_the_other_within_a_minute() {
        let catalogue = catalogue();
        let begin = Instant::now();
        let mut all = tokio::task::JoinSet::new();
        for number in 0..200 {
            let mut rereads = catalogue.rereads_of(&format!("cluster-{number}").as_str().into());
            all.spawn(async move {
                drop(rereads.turn().await);
                (begin.elapsed(), rereads.delay)
            });
        }
        publish(&catalogue);
        let mut quarters = [0; 4];
        while let Some(ended) = all.join_next().await {
            let (waited, delay) = ended.expect("it does not panic");
            let longest = delay + Duration::from_millis(10);
            assert!((delay..=longest).contains(&waited) && delay <= Duration::from_mins(1), "{waited:?} {delay:?}");
            quarters[(delay.as_secs() / 15).min(3) as usize] += 1;
        }
        // Fifty of 200 by chance; fewer than ten happen once in 10^12 runs.
        assert!(quarters.iter().all(|count| *count >= 10), "{quarters:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_turn_for_each_change_and_none_before() {
        let catalogue = catalogue();
        let mut rereads = catalogue.rereads_of(&"blue".into());
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, rereads.turn()).await.is_err(), "nothing was published");
        publish(&catalogue);
        // A select drops calls.
        assert!(tokio::time::timeout(Duration::ZERO, rereads.turn()).await.is_err() || rereads.delay.is_zero());
        publish(&catalogue);
        drop(rereads.turn().await);
        assert!(tokio::time::timeout(hour, rereads.turn()).await.is_err(), "both changes are taken over");
        assert_eq!(catalogue.current().version, 2);
        publish(&catalogue);
        drop(rereads.turn().await);
    }

    #[tokio::test(start_paused = true)]
    async fn one_cluster_has_the_turn_at_a_time() {
        let catalogue = catalogue();
        let (mut blue, mut green) = (catalogue.rereads_of(&"blue".into()), catalogue.rereads_of(&"green".into()));
        publish(&catalogue);
        let turn = blue.turn().await;
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, green.turn()).await.is_err());
        drop(turn);
        drop(green.turn().await);
    }

    #[test]
    fn catalogues_that_are_read_often_are_taken_over_soon() {
        assert_eq!(PublishedCatalogue::new(Duration::from_secs(1)).window, Duration::from_millis(200));
        assert_eq!(PublishedCatalogue::new(Duration::from_hours(12)).window, Duration::from_mins(1));
    }
}
