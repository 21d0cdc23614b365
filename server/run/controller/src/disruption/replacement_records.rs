//! What the store has of the replacements of one cluster.

use std::collections::{BTreeMap, BTreeSet};

use cluster::replacement::{RecordedReplacement, ReplacementWait, ReplacementsRead};
use model::{ClaimName, PoolName};

/// What the store has of the replacements of one cluster.
#[derive(Debug, Default)]
pub(crate) struct ReplacementRecords {
    /// Replacements of decisions, durable or not.
    recorded: BTreeMap<ClaimName, RecordedReplacement>,
    waits: BTreeMap<PoolName, ReplacementWait>,
    /// Replacements of the previous owner, until the first accepted snapshot.
    loaded: Vec<RecordedReplacement>,
    /// Whether this controller knows what is under way: records are only what it wrote itself.
    is_resumed: bool,
}

/// Records that change when replacements end.
#[derive(Debug, Default)]
pub(super) struct EndedRecords {
    pub claims: Vec<ClaimName>,
    /// The wait of each NodePool; `None` when it waits no longer.
    pub waits: Vec<(PoolName, Option<ReplacementWait>)>,
}

impl ReplacementRecords {
    /// Keeps what the previous owner recorded; returns the waits. A controller that acquires its own lease again knows
    /// more than its records.
    pub(super) fn load(&mut self, read: ReplacementsRead) -> Vec<(PoolName, ReplacementWait)> {
        if self.is_resumed {
            return Vec::new();
        }
        self.loaded = read.replacements;
        self.waits = read.waits.iter().cloned().collect();
        read.waits
    }

    /// The replacements of the previous owner, which are to be resumed.
    pub(super) fn take_loaded(&mut self) -> Vec<RecordedReplacement> {
        self.is_resumed = true;
        let loaded = std::mem::take(&mut self.loaded);
        self.recorded.extend(loaded.iter().map(|one| (one.claim.clone(), one.clone())));
        loaded
    }

    /// Records those of `present` that are new or have changed, and returns them.
    pub(super) fn record(&mut self, present: Vec<RecordedReplacement>) -> Vec<RecordedReplacement> {
        let changed: Vec<RecordedReplacement> =
            present.into_iter().filter(|one| self.recorded.get(&one.claim) != Some(one)).collect();
        self.recorded.extend(changed.iter().map(|one| (one.claim.clone(), one.clone())));
        changed
    }

    /// Forgets what has ended, and takes over the present `waits`. Returns what changed.
    pub(super) fn end(
        &mut self,
        has_ended: impl Fn(&ClaimName) -> bool,
        waits: &BTreeMap<PoolName, ReplacementWait>,
    ) -> EndedRecords {
        let claims: Vec<ClaimName> = self.recorded.keys().filter(|claim| has_ended(claim)).cloned().collect();
        claims.iter().for_each(|claim| drop(self.recorded.remove(claim)));
        if self.waits == *waits {
            return EndedRecords { claims, waits: Vec::new() };
        }
        let pools: BTreeSet<&PoolName> = waits.keys().chain(self.waits.keys()).collect();
        let changed = pools.into_iter().filter(|pool| waits.get(*pool) != self.waits.get(*pool));
        let changed = changed.map(|pool| (pool.clone(), waits.get(pool).copied())).collect();
        self.waits.clone_from(waits);
        EndedRecords { claims, waits: changed }
    }
}
