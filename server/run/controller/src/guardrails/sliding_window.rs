//! Count and cost of events within a sliding window.

use std::collections::VecDeque;

use model::{MicroUsd, Millis, Timestamp};

#[derive(Debug, Clone)]
struct Entry<K> {
    at: Timestamp,
    key: K,
    price: MicroUsd,
}

/// Events within the window, each with a key, oldest first.
#[derive(Debug, Clone, Default)]
pub struct SlidingWindow<K> {
    entries: VecDeque<Entry<K>>,
    cost: i64,
}

impl<K: PartialEq> SlidingWindow<K> {
    /// Records the event `key` at `at`, which may precede the last recorded event.
    pub fn record(&mut self, key: K, price: MicroUsd, at: Timestamp) {
        let place = self.entries.partition_point(|entry| entry.at <= at);
        self.entries.insert(place, Entry { at, key, price });
        self.cost = self.cost.saturating_add(price.0);
    }

    /// Removes the event `key`.
    pub fn remove(&mut self, key: &K) {
        if let Some(place) = self.entries.iter().rposition(|entry| entry.key == *key)
            && let Some(entry) = self.entries.remove(place)
        {
            self.cost = self.cost.saturating_sub(entry.price.0);
        }
    }

    /// Whether the event `key` is recorded.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.iter().any(|entry| entry.key == *key)
    }

    /// Drops events that are `window` old or older.
    pub fn expire(&mut self, window: Millis, now: Timestamp) {
        while let Some(entry) = self.entries.front().filter(|entry| now.duration_since(entry.at) >= window) {
            self.cost = self.cost.saturating_sub(entry.price.0);
            self.entries.pop_front();
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sum of the prices per hour.
    #[must_use]
    pub fn cost(&self) -> MicroUsd {
        MicroUsd(self.cost)
    }

    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.entries.front().map(|entry| entry.at)
    }

    /// Time and price per hour of each event.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, MicroUsd)> {
        self.entries.iter().map(|entry| (entry.at, entry.price))
    }
}
