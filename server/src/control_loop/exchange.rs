//! What one replica tells the others of what came and went, and hears of them, without I/O: the brake and the fleet's caps look
//! at what all replicas did together.
//!
//! Every [`INTERVAL`] a replica writes the parts of time in which something has changed since the store last took them, and
//! reads what the others wrote, in parts that are summed up by the store. That is one row or two, and one answer of as many
//! rows as the window has parts, however many clusters and replicas there are. Whoever saw something counts it, for as long as
//! windows last, so nothing has to be told when a cluster changes hands. What a process saw since it last told is lost to the
//! others when it dies: some seconds of it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::control::Event;
use engine::control::guardrails::fleet_counters::{CounterSnapshot, LocalCounters, Machines, PART_MS};
use engine::model::{MicroUsd, Timestamp};
use tracing::warn;

use super::replica::Call;
use crate::store::StoreError;
use crate::store::shares::{CounterRow, RemoteCounters, Seen};

/// Between two exchanges: what is decided within that time cannot know of each other.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Whoever has nothing to tell tells its machines after this long, in milliseconds: they count for three times as long.
const MACHINES_MS: i64 = 20_000;

/// What a process tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CounterUpdate {
    /// When it was said.
    at: Timestamp,
    /// The machines of its clusters.
    pub(crate) machines: i64,
    /// Parts of time, whole.
    pub(crate) rows: Vec<CounterRow>,
}

/// Where the exchange stands.
#[derive(Debug, Default)]
pub(super) struct CounterSync {
    /// What the store has taken.
    told: BTreeMap<i64, Seen>,
    told_at: Option<Timestamp>,
    under_way: bool,
}

impl CounterSync {
    /// It is time to exchange, unless the last one is under way.
    pub(super) fn due(&mut self, life: u64, told: &CounterSnapshot, now: Timestamp) -> Option<Call> {
        let begun = std::mem::replace(&mut self.under_way, true);
        let within = Duration::from_millis(told.window_ms.max(0).unsigned_abs());
        (!begun).then(|| Call::CounterSync { life, telling: self.telling(told, now), within })
    }

    /// What is told at the end, of a process that will have no machines.
    pub(super) fn last_words(&mut self, told: &CounterSnapshot, now: Timestamp) -> Option<CounterUpdate> {
        self.told_at = None;
        self.telling(&CounterSnapshot { machines: 0, ..told.clone() }, now)
    }

    /// The parts in which something has changed, and the one that is running.
    fn telling(&mut self, told: &CounterSnapshot, now: Timestamp) -> Option<CounterUpdate> {
        let running = now.0.div_euclid(PART_MS);
        let oldest = now.0.saturating_sub(told.window_ms).div_euclid(PART_MS);
        self.told.retain(|part, _| *part >= oldest);
        let seen = |part: i64| told.parts.get(&part).map(seen).unwrap_or_default();
        let known = told.parts.keys().chain(self.told.keys()).copied();
        let mut parts: Vec<i64> = known.filter(|part| *part >= oldest).collect();
        parts.retain(|part| seen(*part) != self.told.get(part).copied().unwrap_or_default());
        let silent = self.told_at.is_none_or(|at| !(0..MACHINES_MS).contains(&now.millis_since(at)));
        if parts.is_empty() && !silent {
            return None;
        }
        parts.push(running);
        parts.sort_unstable();
        parts.dedup();
        let row = |part: i64| {
            let ended = part.saturating_add(1).saturating_mul(PART_MS).saturating_sub(1);
            CounterRow { part, ago_ms: now.0.saturating_sub(ended).max(0), seen: seen(part) }
        };
        let machines = i64::try_from(told.machines).unwrap_or(i64::MAX);
        Some(CounterUpdate { at: now, machines, rows: parts.into_iter().map(row).collect() })
    }

    /// What the store took, and what it answered.
    pub(super) fn done(
        &mut self,
        taken: Option<&CounterUpdate>,
        answer: Result<RemoteCounters, StoreError>,
        now: Timestamp,
    ) -> Option<Event> {
        self.under_way = false;
        if let Some(telling) = taken {
            self.told_at = Some(telling.at);
            self.told.extend(telling.rows.iter().map(|row| (row.part, row.seen)));
        }
        match answer {
            Ok(elsewhere) => Some(event(elsewhere, now)),
            Err(error) => {
                warn!(%error, "what came and went in clusters of other replicas is not known; asking again");
                None
            }
        }
    }
}

fn seen(share: &LocalCounters) -> Seen {
    let column = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let LocalCounters { joined, failed, launched, removed } = *share;
    Seen {
        joined: column(joined),
        failed: column(failed),
        launched: column(launched.count),
        launched_cost: launched.cost.0,
        removed: column(removed.count),
        removed_cost: removed.cost.0,
    }
}

fn event(elsewhere: RemoteCounters, now: Timestamp) -> Event {
    let count = |column: i64| usize::try_from(column).unwrap_or(0);
    let share = |seen: Seen| LocalCounters {
        joined: count(seen.joined),
        failed: count(seen.failed),
        launched: Machines { count: count(seen.launched), cost: MicroUsd(seen.launched_cost) },
        removed: Machines { count: count(seen.removed), cost: MicroUsd(seen.removed_cost) },
    };
    let parts = elsewhere.parts.into_iter();
    let parts = parts.map(|(ago, seen)| (Timestamp(now.0.saturating_sub(ago)), share(seen))).collect();
    Event::RemoteCounters { machines: count(elsewhere.machines), parts }
}

#[cfg(test)]
mod tests;
