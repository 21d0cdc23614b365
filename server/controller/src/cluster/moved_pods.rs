//! Which pods of a cluster consolidation has moved, by its recent drains.

use super::recent_moves::{DecidedMoves, Drain};
use super::record::{NodeRecord, PodRecord};
use super::state::ClusterState;
use super::unannounced_deletion::DISRUPTED;
use model::running::RecentMove;
use model::{ClaimName, Millis, NodeName, Timestamp};

/// Longest drain that is assumed where its end is unknown, because the cluster had no owner then.
pub(crate) const MAX_RESTORED_DRAIN: Millis = Millis::from_hours(1);

impl ClusterState {
    /// Restores what earlier owners of the cluster decided; the next snapshot shows what became of it.
    pub fn restore_moves(&mut self, moves: Vec<DecidedMoves>) {
        self.recent_moves_mut().restored = moves;
    }

    /// Judges restored decisions by the snapshot: the drain goes on, or ended with the machine, or has not begun.
    pub(super) fn settle_restored_moves(&mut self, now: Timestamp) {
        for DecidedMoves { claim, owners, since } in std::mem::take(&mut self.recent_moves_mut().restored) {
            let until = match self.claim(&claim) {
                None => Some((since + MAX_RESTORED_DRAIN).min(now)),
                Some(_) if self.is_being_drained(&claim) => None,
                Some(_) => continue,
            };
            self.recent_moves_mut().insert(&claim, Drain { owners, since, until });
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
        DecidedMoves { claim: claim.clone(), owners, since: now }
    }

    /// Records that consolidation drains a machine. Drains that ended more than `interval` before `now` are removed.
    pub fn record_moves(&mut self, moves: DecidedMoves, interval: Millis, now: Timestamp) {
        let DecidedMoves { claim, owners, since } = moves;
        self.mark_changed();
        let moves = self.recent_moves_mut();
        moves.prune(now - interval);
        moves.insert(&claim, Drain { owners, since, until: None });
    }

    /// The pods on `node` that consolidation has moved within `interval`, and when it may move each again.
    pub fn moved_pods_on(
        &self,
        node: &NodeName,
        interval: Millis,
        now: Timestamp,
    ) -> impl Iterator<Item = (&PodRecord, Timestamp)> {
        let moves = self.recent_moves();
        let pods = (!moves.drains.is_empty()).then(|| self.pods_on(node)).into_iter().flatten();
        pods.filter_map(move |pod| {
            let created = pod.created.filter(|created| *created + interval > now && pod.is_reschedulable())?;
            moves.is_moved(pod, created).then_some((pod, created + interval))
        })
    }

    /// The pod on `node` that consolidation may move again last, if it has moved any within `interval`.
    pub fn recent_move_to(&self, node: &NodeName, interval: Millis, now: Timestamp) -> Option<RecentMove> {
        let (pod, until) = self.moved_pods_on(node, interval, now).max_by_key(|(_, until)| *until)?;
        Some(RecentMove { pod: pod.key.clone(), until })
    }
}

#[cfg(test)]
mod tests;
