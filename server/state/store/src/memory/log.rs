//! Decisions and their replay data.

use super::super::StoreResult;
use super::super::holds::RETENTION_MS;
use super::super::lease::{Lease, Scope};
use super::super::log::{Blob, DecisionFilter, Entry, LogChunk, LogSegment, Pruned, Replay, Retention, StoredDecision};
use super::tables::{Tables, milliseconds};

/// Decisions kept per scope: enough for the dashboard, bounded for a server that runs for months.
const DECISIONS_KEPT: usize = 1000;

/// Retention of counters and heartbeats: longer than any window.
const DAY_MS: i64 = 86_400_000;

impl Tables {
    pub(super) fn record_decision(&mut self, lease: &Lease, entry: &Entry, now: i64) -> StoreResult<()> {
        self.check_lease(lease)?;
        self.insert_intents(&lease.scope, &entry.intents, now)?;
        self.insert_blobs(&entry.blobs, now);
        self.insert_chunks(lease, &entry.chunks);
        self.mark_blobs_used(entry, now);
        if self.insert_decision(lease, entry) {
            self.put_replacements(&lease.scope, &entry.replacements, now);
            entry.holds.iter().for_each(|status| self.put_hold_status(&lease.scope, status, now));
        }
        Ok(())
    }

    /// Updates the last use of the blobs that a decision references.
    fn mark_blobs_used(&mut self, entry: &Entry, now: i64) {
        for hash in entry.decision.replay.iter().flat_map(Replay::hashes) {
            if let Some((_, used)) = self.blobs.get_mut(hash) {
                *used = now.max(*used);
            }
        }
    }

    /// Returns whether the decision is new.
    fn insert_decision(&mut self, lease: &Lease, entry: &Entry) -> bool {
        let kept = self.decisions.entry(lease.scope.clone()).or_default();
        if kept.iter().any(|stored| stored.decision.number == entry.decision.number) {
            return false;
        }
        kept.push(StoredDecision { scope: lease.scope.clone(), epoch: lease.epoch, decision: entry.decision.clone() });
        if kept.len() > DECISIONS_KEPT {
            kept.remove(0);
            self.forget_segments(&lease.scope);
        }
        true
    }

    /// Deletes the segments older than the oldest one that a kept decision references.
    fn forget_segments(&mut self, scope: &Scope) {
        let kept = self.decisions.get(scope).into_iter().flatten();
        let Some(first) = kept.filter_map(|stored| Some(stored.decision.replay.as_ref()?.segment)).min() else {
            return;
        };
        self.segments.retain(|(of, segment), _| of != scope || *segment >= first);
    }

    fn insert_chunks(&mut self, lease: &Lease, chunks: &[LogChunk]) {
        for chunk in chunks {
            let key = (lease.scope.clone(), chunk.segment);
            let started = || LogSegment { epoch: lease.epoch, started_ms: chunk.at_ms, chunks: Vec::new() };
            let segment = self.segments.entry(key).or_insert_with(started);
            let place = segment.chunks.binary_search_by_key(&chunk.first_sequence, |kept| kept.first_sequence);
            if let Err(place) = place {
                segment.chunks.insert(place, chunk.clone());
            }
        }
    }

    fn insert_blobs(&mut self, blobs: &[Blob], now: i64) {
        for blob in blobs {
            let (_, used) = self.blobs.entry(blob.hash).or_insert_with(|| (blob.clone(), now));
            *used = now.max(*used);
        }
    }

    pub(super) fn filtered_decisions(&self, filter: &DecisionFilter) -> Vec<StoredDecision> {
        let of = |scope: &Scope| filter.scope.as_ref().is_none_or(|wanted| wanted == scope);
        let before = |stored: &&StoredDecision| filter.before.is_none_or(|number| stored.decision.number < number);
        let kept = self.decisions.iter().filter(|(scope, _)| of(scope)).flat_map(|(_, kept)| kept);
        let mut found: Vec<&StoredDecision> = kept.filter(before).collect();
        found.sort_by_key(|stored| std::cmp::Reverse(stored.decision.number));
        found.into_iter().take(filter.limit as usize).cloned().collect()
    }

    pub(super) fn decisions_numbered(&self, number: u64) -> Vec<StoredDecision> {
        let all = self.decisions.values().flatten();
        all.filter(|stored| stored.decision.number == number).cloned().collect()
    }

    pub(super) fn recent_moves(&self, scope: &Scope, within_ms: i64, now: i64) -> Vec<String> {
        let decisions = self.decisions.get(scope).into_iter().flatten().map(|stored| &stored.decision);
        let recent = decisions.filter(|row| !row.moves.is_empty() && now - row.decided_at_ms < within_ms);
        recent.map(|row| row.moves.clone()).collect()
    }

    pub(super) fn prune(&mut self, retention: &Retention, now: i64) -> Pruned {
        let ended = now.saturating_sub(milliseconds(retention.ended));
        let log = now.saturating_sub(milliseconds(retention.log));
        let ended = self.prune_intents(ended);
        let pruned = Pruned { ended, log: self.prune_log(log), blobs: self.blobs.len() as u64, clusters: 0 };
        self.blobs.retain(|_, (_, used)| *used >= log);
        self.prune_counters(now.saturating_sub(DAY_MS));
        self.prune_replicas(now.saturating_sub(DAY_MS));
        self.prune_interruptions(now.saturating_sub(DAY_MS));
        self.prune_holds(now.saturating_sub(RETENTION_MS));
        self.prune_costs(now.saturating_sub(milliseconds(retention.costs)), now);
        self.outcomes.prune(now.saturating_sub(2 * DAY_MS));
        self.prune_offerings(now.saturating_sub(DAY_MS));
        let pruned = Pruned {
            clusters: self.forget_clusters(now.saturating_sub(milliseconds(retention.clusters)), now),
            ..pruned
        };
        Pruned { blobs: pruned.blobs - self.blobs.len() as u64, ..pruned }
    }

    fn prune_log(&mut self, before: i64) -> u64 {
        let mut pruned = 0;
        for kept in self.decisions.values_mut() {
            let count = kept.len();
            kept.retain(|stored| stored.decision.decided_at_ms >= before);
            pruned += (count - kept.len()) as u64;
        }
        let segments = self.segments.len();
        self.segments.retain(|_, segment| segment.chunks.last().is_some_and(|chunk| chunk.at_ms >= before));
        pruned + (segments - self.segments.len()) as u64
    }
}
