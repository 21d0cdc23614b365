//! Synchronization of launch and removal counters between replicas, without I/O. The circuit
//! breaker and the fleet-wide rate limits count what all replicas did.
//!
//! Every [`INTERVAL`] a replica writes the time buckets whose counters changed since the store last
//! acknowledged them, and reads the buckets of the others, summed up by the store. That is one or
//! two rows, and one answer with as many rows as the window has buckets, independent of the number
//! of clusters and replicas. The replica that observed an event counts it for the whole window, so
//! nothing is transferred when a cluster changes its owner. When a process dies, the others lose
//! what it observed since its last write: a few seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use controller::RegionEvent;
use controller::guardrails::fleet_counters::{self, BUCKET_LENGTH, CounterSnapshot, LocalCounters, MachineTotals};
use model::{MicroUsd, Millis, Timestamp};
use tracing::warn;

use crate::call::{Call, CounterUpdate};
use store::counters::{CounterRow, CounterValues, RemoteCounters};
use store::{StoreError, clock};

/// Interval between two synchronizations. Decisions within it are invisible to the other replicas.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// A replica without changes rewrites its machine count after this long. The store counts it for
/// three times as long.
const MACHINES_REFRESH: Millis = Millis::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct CounterSync {
    /// Bucket values that the store has acknowledged.
    acknowledged: BTreeMap<i64, CounterValues>,
    acknowledged_at: Option<Timestamp>,
    in_flight: bool,
}

impl CounterSync {
    /// Begins a synchronization unless one is in flight.
    pub(crate) fn begin_sync(&mut self, generation: u64, local: &CounterSnapshot, now: Timestamp) -> Option<Call> {
        let in_flight = std::mem::replace(&mut self.in_flight, true);
        let within = clock::duration(local.window);
        (!in_flight).then(|| Call::SyncCounters { generation, update: self.next_update(local, now), within })
    }

    /// The last update of a process that shuts down and thus has no machines.
    pub(crate) fn final_update(&mut self, local: &CounterSnapshot, now: Timestamp) -> Option<CounterUpdate> {
        self.acknowledged_at = None;
        self.next_update(&CounterSnapshot { machines: 0, ..local.clone() }, now)
    }

    /// The changed buckets and the current one; `None` if nothing changed and no refresh is due.
    fn next_update(&mut self, local: &CounterSnapshot, now: Timestamp) -> Option<CounterUpdate> {
        let running = fleet_counters::bucket_of(now);
        let oldest = fleet_counters::bucket_of(now - local.window);
        self.acknowledged.retain(|bucket, _| *bucket >= oldest);
        let seen = |bucket: i64| local.buckets.get(&bucket).map(seen).unwrap_or_default();
        let known = local.buckets.keys().chain(self.acknowledged.keys()).copied();
        let mut parts: Vec<i64> = known.filter(|bucket| *bucket >= oldest).collect();
        parts.retain(|bucket| seen(*bucket) != self.acknowledged.get(bucket).copied().unwrap_or_default());
        let refresh_due = self.acknowledged_at.is_none_or(|at| now.duration_since(at) >= MACHINES_REFRESH);
        if parts.is_empty() && !refresh_due {
            return None;
        }
        parts.push(running);
        parts.sort_unstable();
        parts.dedup();
        let row = |bucket: i64| {
            let ended = Timestamp::default() + BUCKET_LENGTH * bucket.saturating_add(1) - Millis::new(1);
            CounterRow { bucket, ago_ms: now.duration_since(ended).get(), seen: seen(bucket) }
        };
        let machines = i64::try_from(local.machines).unwrap_or(i64::MAX);
        Some(CounterUpdate { at: now, machines, rows: parts.into_iter().map(row).collect() })
    }

    /// Handles the end of a synchronization: what the store acknowledged, and the counters of other
    /// replicas.
    pub(crate) fn finish_sync(
        &mut self,
        acknowledged: Option<&CounterUpdate>,
        answer: Result<RemoteCounters, StoreError>,
        now: Timestamp,
    ) -> Option<RegionEvent> {
        self.in_flight = false;
        if let Some(update) = acknowledged {
            self.acknowledged_at = Some(update.at);
            self.acknowledged.extend(update.rows.iter().map(|row| (row.bucket, row.seen)));
        }
        match answer {
            Ok(remote) => Some(to_event(remote, now)),
            Err(error) => {
                warn!(%error, "cannot read remote counters; retrying");
                None
            }
        }
    }
}

fn seen(share: &LocalCounters) -> CounterValues {
    let column = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let LocalCounters { joined, failed, launched, removed } = *share;
    CounterValues {
        joined: column(joined),
        failed: column(failed),
        launched: column(launched.count),
        launched_cost: launched.cost.0,
        removed: column(removed.count),
        removed_cost: removed.cost.0,
    }
}

fn to_event(remote: RemoteCounters, now: Timestamp) -> RegionEvent {
    let count = |column: i64| usize::try_from(column).unwrap_or(0);
    let share = |seen: CounterValues| LocalCounters {
        joined: count(seen.joined),
        failed: count(seen.failed),
        launched: MachineTotals { count: count(seen.launched), cost: MicroUsd(seen.launched_cost) },
        removed: MachineTotals { count: count(seen.removed), cost: MicroUsd(seen.removed_cost) },
    };
    let parts = remote.buckets.into_iter();
    let parts = parts.map(|(ago, seen)| (now - Millis::new(ago), share(seen))).collect();
    RegionEvent::RemoteCounters { machines: count(remote.machines), parts }
}

#[cfg(test)]
mod tests;
