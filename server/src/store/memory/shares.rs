//! What each process saw, for the rails of the others.

use std::collections::BTreeMap;

use super::super::shares::{CounterRow, MACHINES_LAST, PART_MS, RemoteCounters, Seen};
use super::{Tables, milliseconds};

/// A part of time as it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    at_ms: i64,
    machines: i64,
    seen: Seen,
}

impl Tables {
    pub(super) fn tell_shares(&mut self, process: &str, machines: i64, rows: &[CounterRow], now: i64) {
        for row in rows {
            let kept = self.shares.entry((process.to_owned(), row.part));
            let kept = kept.or_insert_with(|| Kept { at_ms: now - row.ago_ms, machines, seen: row.seen });
            (kept.machines, kept.seen) = (machines, row.seen);
        }
    }

    pub(super) fn shares_elsewhere(&self, process: &str, within_ms: i64, now: i64) -> RemoteCounters {
        let mut parts: BTreeMap<i64, Seen> = BTreeMap::new();
        let mut machines: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        let others = self.shares.iter().filter(|((of, _), _)| of != process);
        for ((of, part), kept) in others.filter(|(_, kept)| now - kept.at_ms < within_ms) {
            add(parts.entry((now - kept.at_ms).max(0) / PART_MS).or_default(), kept.seen);
            if now - kept.at_ms < milliseconds(MACHINES_LAST) {
                let last = machines.entry(of).or_default();
                *last = (*last).max((kept.at_ms, *part, kept.machines));
            }
        }
        let parts = parts.into_iter().rev().map(|(age, seen)| (age * PART_MS, seen)).collect();
        RemoteCounters { machines: machines.values().map(|(_, _, machines)| machines).sum(), parts }
    }

    pub(super) fn prune_shares(&mut self, before: i64) {
        self.shares.retain(|_, kept| kept.at_ms >= before);
    }
}

fn add(all: &mut Seen, one: Seen) {
    all.joined += one.joined;
    all.failed += one.failed;
    all.launched += one.launched;
    all.launched_cost += one.launched_cost;
    all.removed += one.removed;
    all.removed_cost += one.removed_cost;
}
