//! Ground-truth ledger of the simulated cloud: every launched instance and its end. Reports and
//! invariants read this instead of a server's observed state.

use std::collections::BTreeMap;

use model::{ClaimName, ClusterName, MicroUsd, Text, Timestamp};

use crate::provider::Instance;

/// A launched instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The instance as launched.
    pub instance: Instance,
    /// Client token of the launch.
    pub token: Text,
    /// Price per hour; `None` without a catalogue.
    pub price: Option<MicroUsd>,
    /// When the cloud announced or reported that it ends or fails; a rebalance recommendation does not count.
    pub interrupted: Option<Timestamp>,
    /// Time of the termination; `None` while the instance exists.
    pub ended: Option<Timestamp>,
}

/// All launched instances, and counters of failed calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    entries: BTreeMap<Text, LedgerEntry>,
    /// Launches without capacity.
    pub refused: u64,
    /// Calls that the rate limit rejected.
    pub throttled: u64,
    /// Launches with a lost response.
    pub answers_lost: u64,
    /// Listings that failed.
    pub lists_failed: u64,
}

impl Ledger {
    pub(super) fn record_launch(&mut self, instance: &Instance, token: Text, price: Option<MicroUsd>) {
        let entry = LedgerEntry { instance: instance.clone(), token, price, interrupted: None, ended: None };
        self.entries.insert(instance.id.clone(), entry);
    }

    pub(super) fn record_interruption(&mut self, id: &Text, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.interrupted = Some(at);
        }
    }

    pub(super) fn record_end(&mut self, id: &Text, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.ended = Some(at);
        }
    }

    /// Entries by instance id.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values()
    }

    /// The entry of an instance.
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<&LedgerEntry> {
        self.entries.get(id)
    }

    /// Entries that are not terminated.
    pub fn active(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries().filter(|entry| entry.ended.is_none())
    }

    /// Number of launched instances.
    #[must_use]
    pub fn launched_count(&self) -> usize {
        self.entries.len()
    }

    /// Number of reclaimed instances.
    #[must_use]
    pub fn interrupted(&self) -> usize {
        self.entries().filter(|entry| entry.interrupted.is_some()).count()
    }

    /// Hourly cost of the instances that are not terminated.
    #[must_use]
    pub fn hourly_cost(&self) -> MicroUsd {
        MicroUsd(self.active().filter_map(|entry| entry.price).map(|price| price.0).sum())
    }

    /// Total cost until `now`, by the millisecond, rounded down per instance.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> MicroUsd {
        let cost = |entry: &LedgerEntry| {
            let millis = entry.ended.map_or(now, |ended| ended.min(now)).duration_since(entry.instance.launched).get();
            let whole = i128::from(entry.price.map_or(0, |price| price.0)) * i128::from(millis) / 3_600_000;
            i64::try_from(whole).unwrap_or(i64::MAX)
        };
        MicroUsd(self.entries().map(cost).sum())
    }

    /// NodeClaims (cluster, claim) with more than one launched instance.
    #[must_use]
    pub fn duplicate_launches(&self) -> Vec<(ClusterName, ClaimName)> {
        let mut counts: BTreeMap<(ClusterName, ClaimName), usize> = BTreeMap::new();
        for entry in self.entries() {
            *counts.entry((entry.instance.cluster.clone(), entry.instance.claim.clone())).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(claim, _)| claim).collect()
    }
}
