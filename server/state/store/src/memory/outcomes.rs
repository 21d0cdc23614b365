//! Outcomes of launches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use super::super::outcomes::{OUTCOMES_AT_ONCE, OutcomeRow, StoredOutcome};

/// Outcomes by number, with the time at which each was stored.
#[derive(Debug, Default)]
pub(super) struct OutcomeTable {
    by_number: BTreeMap<u64, (i64, OutcomeRow)>,
    /// Process and sequence of each.
    keys: BTreeSet<(String, u64)>,
    last: u64,
}

impl OutcomeTable {
    pub(super) fn put(&mut self, rows: &[OutcomeRow], now: i64) {
        for row in rows {
            if self.keys.insert((row.process.clone(), row.sequence)) {
                self.last += 1;
                self.by_number.insert(self.last, (now, row.clone()));
            }
        }
    }

    pub(super) fn after(&self, after: u64, within: Duration, now: i64) -> Vec<StoredOutcome> {
        let since = now.saturating_sub(i64::try_from(within.as_millis()).unwrap_or(i64::MAX));
        let later = self.by_number.range((Bound::Excluded(after), Bound::Unbounded));
        let recent = later.filter(|(_, (stored, _))| *stored > since);
        let read = recent.map(|(number, (stored, row))| StoredOutcome {
            number: *number,
            age: Duration::from_millis(now.saturating_sub(*stored).unsigned_abs()),
            row: row.clone(),
        });
        read.take(OUTCOMES_AT_ONCE).collect()
    }

    pub(super) fn prune(&mut self, before: i64) {
        for (_, (_, row)) in self.by_number.extract_if(.., |_, (stored, _)| *stored < before) {
            self.keys.remove(&(row.process, row.sequence));
        }
    }
}
