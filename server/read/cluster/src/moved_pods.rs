//! Which pods of a cluster consolidation has moved, and by which decision, by recent drains.

use std::collections::{BTreeMap, BTreeSet};

use cost::{SAVINGS_WINDOW, SavingDecision};

use super::recent_moves::{DecidedMoves, Drain, MovedPart, PodOwner, owner_of};
use super::record::PodRecord;
use super::state::ClusterState;
use model::running::RecentMove;
use model::{ClaimName, Millis, NodeName, Timestamp};

/// A whole in parts per million.
const WHOLE: u32 = 1_000_000;

/// Longest drain that is assumed where its end is unknown, because the cluster had no owner then.
pub const MAX_RESTORED_DRAIN: Millis = Millis::from_hours(1);

impl ClusterState {
    /// Restores what earlier owners of the cluster decided; the next snapshot shows what became of it.
    pub fn restore_moves(&mut self, moves: Vec<DecidedMoves>) {
        self.recent_moves_mut().restored = moves;
    }

    /// Judges restored decisions by the snapshot: the drain goes on, or ended with the machine, or has not begun.
    pub(super) fn settle_restored_moves(&mut self, now: Timestamp) {
        for DecidedMoves { claim, owners, moved_by, since } in std::mem::take(&mut self.recent_moves_mut().restored) {
            let until = match self.claim(&claim) {
                None => Some((since + MAX_RESTORED_DRAIN).min(now)),
                Some(_) if self.is_being_drained(&claim) => None,
                Some(_) => continue,
            };
            self.recent_moves_mut().insert(&claim, Drain { owners, moved_by, since, until });
        }
    }

    fn is_being_drained(&self, claim: &ClaimName) -> bool {
        let node = self.node_of_claim(claim);
        node.is_none_or(|node| self.is_drain_begun(node) || self.is_node_terminating(&node.name))
    }

    /// What a drain of the machine by consolidation, decided now, moves. `saving` saves the price of the machine; pods that an
    /// earlier decision has moved are then moved by this one.
    #[must_use]
    pub fn moves_of(&self, claim: &ClaimName, saving: Option<SavingDecision>, now: Timestamp) -> DecidedMoves {
        let owners: BTreeSet<PodOwner> = self.pods_to_move(claim).map(owner_of).collect();
        let moved_by = saving.map(|saving| MovedPart { saving, ppm: WHOLE });
        let moved_by = moved_by.into_iter().flat_map(|part| owners.iter().map(move |owner| (owner.clone(), part)));
        DecidedMoves { claim: claim.clone(), moved_by: moved_by.collect(), owners, since: now }
    }

    /// What a drain for another reason moves of the pods that a decision has moved before.
    #[must_use]
    pub fn moved_again_by_drain_of(&self, claim: &ClaimName, now: Timestamp) -> DecidedMoves {
        let mut parts = BTreeMap::<PodOwner, Vec<Option<MovedPart>>>::new();
        for pod in self.pods_to_move(claim).filter(|_| !self.recent_moves().drains.is_empty()) {
            parts.entry(owner_of(pod)).or_default().push(self.part_moved(pod, now));
        }
        let moved_by = parts.into_iter().filter_map(|(owner, parts)| Some((owner, average(&parts)?))).collect();
        DecidedMoves { claim: claim.clone(), owners: BTreeSet::new(), moved_by, since: now }
    }

    fn pods_to_move(&self, claim: &ClaimName) -> impl Iterator<Item = &PodRecord> {
        let node = self.node_of_claim(claim).into_iter();
        node.flat_map(|node| self.pods_on(&node.name)).filter(|pod| pod.is_reschedulable())
    }

    /// Whether a drain of the machine is known, and what it moves with it.
    #[must_use]
    pub fn is_drain_recorded(&self, claim: &ClaimName) -> bool {
        self.recent_moves().drains.contains_key(claim)
    }

    /// Records the drain of a machine. Drains that ended more than `interval` before `now` are removed, but for those that
    /// savings are still compared by.
    pub fn record_moves(&mut self, moves: DecidedMoves, interval: Millis, now: Timestamp) {
        let DecidedMoves { claim, owners, moved_by, since } = moves;
        self.mark_changed();
        let moves = self.recent_moves_mut();
        moves.prune(now - interval.max(SAVINGS_WINDOW));
        moves.insert(&claim, Drain { owners, moved_by, since, until: None });
    }

    /// The decision that has moved a pod to save the price of its machine, while what it saves is compared.
    #[must_use]
    pub fn part_moved(&self, pod: &PodRecord, now: Timestamp) -> Option<MovedPart> {
        let moves = self.recent_moves();
        let created = pod.created.filter(|_| !moves.drains.is_empty())?;
        moves.moved_by(pod, created).filter(|part| part.saving.at + SAVINGS_WINDOW > now)
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

    /// A pod that consolidation has moved and that no node has room for: others took the room that was planned for it.
    #[must_use]
    pub fn moved_pod_without_room(&self) -> Option<&PodRecord> {
        let moves = self.recent_moves();
        let mut pods = (!moves.drains.is_empty()).then(|| self.unplaced_pods()).into_iter().flatten();
        pods.find(|pod| pod.created.is_some_and(|created| moves.is_moved(pod, created)))
    }
}

/// What the last of these decisions has moved of as many pods.
fn average(parts: &[Option<MovedPart>]) -> Option<MovedPart> {
    let saving = parts.iter().flatten().map(|part| part.saving).max_by_key(|saving| (saving.at, saving.number))?;
    let sum: u64 = parts.iter().flatten().filter(|part| part.saving == saving).map(|part| u64::from(part.ppm)).sum();
    let ppm = u32::try_from(sum / u64::try_from(parts.len().max(1)).ok()?).ok()?;
    Some(MovedPart { saving, ppm })
}

#[cfg(test)]
mod tests;
