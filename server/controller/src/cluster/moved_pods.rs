//! Which pods of a cluster consolidation has moved, by its recent drains.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::recent_moves::{DecidedMoves, Drain};
use super::record::{NodeRecord, PodRecord};
use super::state::ClusterState;
use super::unannounced_deletion::DISRUPTED;
use model::{ClaimName, Millis, NodeName, Text, Timestamp};

/// Longest drain that is assumed where its end is unknown, because the cluster had no owner then.
const MAX_RESTORED_DRAIN: Millis = Millis::from_hours(1);

impl ClusterState {
    /// Restores what earlier owners of the cluster decided; the next snapshot shows what became of it.
    pub fn restore_moves(&mut self, moves: Vec<DecidedMoves>) {
        self.recent_moves_mut().restored = moves;
    }

    /// Judges restored decisions by the snapshot: the drain goes on, or ended with the machine, or has not begun.
    pub(super) fn settle_restored_moves(&mut self, now: Timestamp) {
        for DecidedMoves { claim, owners, since, load } in std::mem::take(&mut self.recent_moves_mut().restored) {
            let until = match self.claim(&claim) {
                None => Some((since + MAX_RESTORED_DRAIN).min(now)),
                Some(_) if self.is_being_drained(&claim) => None,
                Some(_) => continue,
            };
            self.recent_moves_mut().insert(&claim, Drain { owners, since, until, load });
        }
    }

    fn is_being_drained(&self, claim: &ClaimName) -> bool {
        let is_tainted = |node: &NodeRecord| node.taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED);
        self.node_of_claim(claim).is_none_or(|node| is_tainted(node) || self.is_node_terminating(&node.name))
    }

    /// What a drain of the machine that is decided now moves.
    #[must_use]
    pub fn moves_of(&self, claim: &ClaimName, now: Timestamp) -> DecidedMoves {
        let node = self.node_of_claim(claim).into_iter();
        let moved = node.flat_map(|node| self.pods_on(&node.name)).filter(|pod| pod.is_reschedulable());
        let owners = moved.map(|pod| (pod.key.namespace.clone(), pod.workload.clone())).collect();
        // While another machine is drained, some pods have no successors yet.
        let load = self.recent_moves().open_drain().map_or_else(|| Some(self.load_digest()), |drain| drain.load);
        DecidedMoves { claim: claim.clone(), owners, since: now, load }
    }

    /// Records that consolidation drains a machine. Drains that ended more than `interval` before `now` are removed.
    pub fn record_moves(&mut self, moves: DecidedMoves, interval: Millis, now: Timestamp) {
        let DecidedMoves { claim, owners, since, load } = moves;
        self.mark_changed();
        let moves = self.recent_moves_mut();
        moves.prune(now - interval);
        moves.insert(&claim, Drain { owners, since, until: None, load });
    }

    /// Compares the load with that of each recent drain, unless a machine is being drained.
    pub fn note_load(&mut self) {
        let moves = self.recent_moves();
        if !moves.open.is_empty() || moves.drains.values().all(|drain| drain.load.is_none()) {
            return;
        }
        let load = self.load_digest();
        for drain in self.recent_moves_mut().drains.values_mut() {
            drain.load = drain.load.filter(|known| *known == load);
        }
    }

    /// Digest of the number of pods of each owner.
    fn load_digest(&self) -> u64 {
        let mut pods: FxHashMap<(&Text, &Text), u32> = FxHashMap::default();
        for pod in self.pods().filter(|pod| pod.is_reschedulable()) {
            *pods.entry((&pod.key.namespace, &pod.workload)).or_default() += 1;
        }
        // The order of a hash table does not matter to a sum.
        let digest = |one: (&(&Text, &Text), &u32)| {
            let mut hasher = FxHasher::default();
            one.hash(&mut hasher);
            hasher.finish()
        };
        pods.iter().map(digest).fold(0, u64::wrapping_add)
    }

    /// The pods on `node` that consolidation has moved within `interval` and does not move again yet, and when it may.
    pub fn moved_pods_on(
        &self,
        node: &NodeName,
        interval: Millis,
        now: Timestamp,
    ) -> impl Iterator<Item = (&PodRecord, Timestamp)> {
        let moves = self.recent_moves();
        let is_draining = !moves.open.is_empty();
        let pods = (!moves.drains.is_empty()).then(|| self.pods_on(node)).into_iter().flatten();
        pods.filter_map(move |pod| {
            let created = pod.created.filter(|created| *created + interval > now && pod.is_reschedulable())?;
            moves.is_settled(pod, created, is_draining).then_some((pod, created + interval))
        })
    }
}

#[cfg(test)]
mod tests;
