//! The cloud's own book: every machine that was ever sold, and what became of it. Summaries and invariants read this, not
//! what a server believes.

use std::collections::BTreeMap;

use engine::model::{MicroUsd, Text, Timestamp};

use crate::provider::Instance;

/// One machine that was sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The machine as it was sold.
    pub instance: Instance,
    /// The token that it was sold under.
    pub token: Text,
    /// Price per hour; `None` without a catalogue.
    pub price: Option<MicroUsd>,
    /// When its end was announced, if it was taken back.
    pub interrupted: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// Everything that was sold, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    entries: BTreeMap<Text, LedgerEntry>,
    /// Launches that found no capacity.
    pub refused: u64,
    /// Calls that came too often.
    pub throttled: u64,
    /// Launches whose answer got lost.
    pub answers_lost: u64,
    /// Listings that failed.
    pub lists_failed: u64,
}

impl Ledger {
    pub(super) fn enter(&mut self, instance: &Instance, token: Text, price: Option<MicroUsd>) {
        let entry = LedgerEntry { instance: instance.clone(), token, price, interrupted: None, ended: None };
        self.entries.insert(instance.id.clone(), entry);
    }

    pub(super) fn interrupt(&mut self, id: &Text, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.interrupted = Some(at);
        }
    }

    pub(super) fn end(&mut self, id: &Text, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.ended = Some(at);
        }
    }

    /// Machines by instance id.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values()
    }

    /// Machines that have not ended.
    pub fn alive(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries().filter(|entry| entry.ended.is_none())
    }

    /// How many machines were ever sold.
    #[must_use]
    pub fn sold(&self) -> usize {
        self.entries.len()
    }

    /// How many machines were taken back.
    #[must_use]
    pub fn interrupted(&self) -> usize {
        self.entries().filter(|entry| entry.interrupted.is_some()).count()
    }

    /// What the machines that have not ended cost per hour.
    #[must_use]
    pub fn hourly_cost(&self) -> MicroUsd {
        MicroUsd(self.alive().filter_map(|entry| entry.price).map(|price| price.0).sum())
    }

    /// What all machines have cost until `now`, by the millisecond, rounded down per machine.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> MicroUsd {
        let cost = |entry: &LedgerEntry| {
            let millis = entry.ended.unwrap_or(now).millis_since(entry.instance.launched);
            let whole = i128::from(entry.price.map_or(0, |price| price.0)) * i128::from(millis) / 3_600_000;
            i64::try_from(whole).unwrap_or(i64::MAX)
        };
        MicroUsd(self.entries().map(cost).sum())
    }

    /// NodeClaims (cluster, claim) for which more than one machine was sold.
    #[must_use]
    pub fn doubles(&self) -> Vec<(Text, Text)> {
        let mut counts: BTreeMap<(Text, Text), usize> = BTreeMap::new();
        for entry in self.entries() {
            *counts.entry((entry.instance.cluster.clone(), entry.instance.claim.clone())).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(claim, _)| claim).collect()
    }
}
