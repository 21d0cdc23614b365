//! Launch and removal counters per process.

use std::collections::BTreeMap;

use super::super::counters::{BUCKET_MS, CounterRow, CounterValues, INSTANCE_COUNT_TTL, RemoteCounters};
use super::tables::{BucketRow, Tables, milliseconds};

impl Tables {
    pub(super) fn put_counters(&mut self, process: &str, machines: i64, rows: &[CounterRow], now: i64) {
        for row in rows {
            let kept = self.counters.entry((process.to_owned(), row.bucket));
            let kept = kept.or_insert_with(|| BucketRow { at_ms: now - row.ago_ms, machines, seen: row.seen });
            (kept.machines, kept.seen) = (machines, row.seen);
        }
    }

    pub(super) fn remote_counters(&self, process: &str, within_ms: i64, now: i64) -> RemoteCounters {
        let mut buckets: BTreeMap<i64, CounterValues> = BTreeMap::new();
        let mut machines: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        // Its own rows are most of them where one process runs for long.
        let own = [i64::MIN, i64::MAX].map(|bucket| (process.to_owned(), bucket));
        let (before, after) = (self.counters.range(..&own[0]), self.counters.range(&own[1]..));
        let others = before.chain(after).filter(|((of, _), _)| of != process);
        for ((of, bucket), kept) in others.filter(|(_, kept)| now - kept.at_ms < within_ms) {
            add(buckets.entry((now - kept.at_ms).max(0) / BUCKET_MS).or_default(), kept.seen);
            if now - kept.at_ms < milliseconds(INSTANCE_COUNT_TTL) {
                let last = machines.entry(of).or_default();
                *last = (*last).max((kept.at_ms, *bucket, kept.machines));
            }
        }
        let buckets = buckets.into_iter().rev().map(|(age, seen)| (age * BUCKET_MS, seen)).collect();
        RemoteCounters { machines: machines.values().map(|(_, _, machines)| machines).sum(), buckets }
    }

    pub(super) fn prune_counters(&mut self, before: i64) {
        self.counters.retain(|_, kept| kept.at_ms >= before);
    }
}

fn add(all: &mut CounterValues, one: CounterValues) {
    all.joined += one.joined;
    all.failed += one.failed;
    all.launched += one.launched;
    all.launched_cost += one.launched_cost;
    all.removed += one.removed;
    all.removed_cost += one.removed_cost;
}
