//! Notices about instances.

use std::ops::Bound;
use std::time::Duration;

use super::super::interruptions::{INTERRUPTIONS_AT_ONCE, InterruptionRow, StoredInterruption};
use super::super::lease::Scope;
use super::tables::{StoredNotice, Tables, milliseconds};

fn key(row: &InterruptionRow) -> (String, String, i64) {
    (row.instance.clone(), row.kind.clone(), row.sent_ms)
}

impl Tables {
    pub(super) fn put_interruptions(&mut self, scope: &Scope, rows: &[InterruptionRow], now: i64) -> u64 {
        let table = self.interruptions.entry(scope.clone()).or_default();
        let mut new = 0;
        for row in rows {
            if table.keys.insert(key(row)) {
                new += 1;
                self.last_interruption += 1;
                table.by_number.insert(self.last_interruption, StoredNotice { received_ms: now, row: row.clone() });
            }
        }
        new
    }

    pub(super) fn interruptions_after(
        &self,
        scope: &Scope,
        after: u64,
        within: Duration,
        now: i64,
    ) -> Vec<StoredInterruption> {
        let since = now.saturating_sub(milliseconds(within));
        let Some(table) = self.interruptions.get(scope) else { return Vec::new() };
        let later = table.by_number.range((Bound::Excluded(after), Bound::Unbounded));
        let recent = later.filter(|(_, stored)| stored.received_ms > since);
        let read = recent.map(|(number, stored)| StoredInterruption {
            number: *number,
            age: Duration::from_millis(now.saturating_sub(stored.received_ms).unsigned_abs()),
            row: stored.row.clone(),
        });
        read.take(INTERRUPTIONS_AT_ONCE).collect()
    }

    pub(super) fn prune_interruptions(&mut self, before: i64) {
        for table in self.interruptions.values_mut() {
            let old = table.by_number.extract_if(.., |_, stored| stored.received_ms < before);
            for (_, stored) in old {
                table.keys.remove(&key(&stored.row));
            }
        }
    }
}
