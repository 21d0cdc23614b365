//! What happened within a sliding window, and what it cost.

use std::collections::VecDeque;

use crate::model::{MicroUsd, Text, Timestamp};

/// One thing that happened.
#[derive(Debug, Clone)]
struct Entry {
    at: Timestamp,
    key: Text,
    price: MicroUsd,
}

/// Things that happened, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    entries: VecDeque<Entry>,
    cost: i64,
}

impl Tally {
    /// `key` happened at `at`, which may lie before what was noted last.
    pub fn note(&mut self, key: Text, price: MicroUsd, at: Timestamp) {
        let place = self.entries.partition_point(|entry| entry.at <= at);
        self.entries.insert(place, Entry { at, key, price });
        self.cost = self.cost.saturating_add(price.0);
    }

    /// `key` did not happen after all.
    pub fn forget(&mut self, key: &Text) {
        if let Some(place) = self.entries.iter().rposition(|entry| entry.key == *key)
            && let Some(entry) = self.entries.remove(place)
        {
            self.cost = self.cost.saturating_sub(entry.price.0);
        }
    }

    /// Whether `key` happened.
    #[must_use]
    pub fn has(&self, key: &Text) -> bool {
        self.entries.iter().any(|entry| entry.key == *key)
    }

    /// Forgets what happened `window_ms` before `now` or earlier.
    pub fn forget_past(&mut self, window_ms: i64, now: Timestamp) {
        while let Some(entry) = self.entries.front().filter(|entry| now.millis_since(entry.at) >= window_ms) {
            self.cost = self.cost.saturating_sub(entry.price.0);
            self.entries.pop_front();
        }
    }

    /// How many things.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What they cost per hour, together.
    #[must_use]
    pub fn cost(&self) -> MicroUsd {
        MicroUsd(self.cost)
    }

    /// When the oldest of them happened.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.entries.front().map(|entry| entry.at)
    }

    /// When each happened, and what it cost per hour.
    pub fn each(&self) -> impl Iterator<Item = (Timestamp, MicroUsd)> {
        self.entries.iter().map(|entry| (entry.at, entry.price))
    }
}
