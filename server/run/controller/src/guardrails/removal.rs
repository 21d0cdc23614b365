//! Removal gate: evaluates the evidence for every removal, whatever requested it.
//!
//! | evidence | proceeds | waits |
//! |---|---|---|
//! | durable decision about an empty node | at once: limits were checked before | its Node vanished under pods |
//! | announced interruption | at once, also under a freeze and above rate limits | the cloud does not confirm a notice of many, or that it has ended |
//! | deleted by hand, or with its NodePool | at once, up to a percentage per window | above: freeze, limits, budget |
//! | the cloud reports that it has ended | at once | – |
//! | the same, by id after a listing lacked it | Node not ready, or no pods | a ready Node with pods |
//! | the cloud does not know its id | Node not ready, rate limits and freezes pass, listings trusted | otherwise |
//! | a listing lacks it | never: the cloud is queried by id | always |
//!
//! [`evaluate_removal`] is pure. A removal that waits is kept in [`HeldRemovals`] with its
//! [`RemovalRefusal`], which has the reason and the release condition, until the cause ends or the
//! operator confirms it ([`Event::RemovalsConfirmed`](crate::Event)).

mod refusal;

pub use refusal::{BulkDeletion, Distrust, ListingLoss, RemovalObstacle, RemovalRefusal};

use std::collections::{BTreeMap, VecDeque};

use super::Freeze;
use super::rate_limits::LimitBlock;
use model::{ClaimName, ClusterName, Millis, Text, Timestamp};

/// How many machines deleted by hand are removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalRule {
    /// Percentage of a cluster's machines, rounded up, that are removed at once when deleted by
    /// hand.
    pub by_hand_percent: usize,
    /// Lower bound of that percentage, in machines.
    pub by_hand_least: usize,
    /// Length of the sliding window for both.
    pub by_hand_window: Millis,
}

impl Default for RemovalRule {
    fn default() -> Self {
        Self { by_hand_percent: 10, by_hand_least: 3, by_hand_window: Millis::from_mins(10) }
    }
}

impl RemovalRule {
    /// How many of `machines` may be removed at once within the window when deleted by hand.
    #[must_use]
    pub fn by_hand(&self, machines: usize) -> usize {
        (machines * self.by_hand_percent).div_ceil(100).max(self.by_hand_least)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The machine has a termination reason and no pods; only the state of its Node can block the
    /// removal.
    Terminating,
    /// Its NodeClaim or Node was deleted in the cluster, alone or with its NodePool.
    ByHand,
    /// A listing lacked the machine, and the cloud, queried by id, reports that it has ended.
    Ended,
    /// The cloud, queried by id, knows no such machine: it ended long ago, or the credentials are
    /// of another account.
    Unknown,
}

/// State of a machine's Node in the cluster state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// No Node ever joined.
    Never,
    /// A Node existed and is no longer reported.
    Vanished {
        /// Most other Nodes vanished too.
        with_most: bool,
    },
    /// The kubelet does not report, or reports a failing condition.
    NotReady,
    /// The kubelet reports `Ready`.
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineFacts {
    pub node: NodeState,
    /// Last known number of bound pods, without DaemonSet pods.
    pub pods: usize,
    /// The operator has confirmed the removal.
    pub confirmed: bool,
}

/// Limits that apply to a removal at the moment.
#[derive(Debug, Clone, Default)]
pub struct RemovalConstraints {
    /// Why the agent's snapshot, or the cloud's listing, is not trusted as a whole.
    pub distrusted: Option<Distrust>,
    /// The freeze that covers the machine's NodePool.
    pub frozen: Option<Freeze>,
    /// The rate limit on removals that admits none.
    pub capped: Option<LimitBlock>,
    /// The counts, when more machines were deleted by hand than may be removed at once.
    pub bulk: Option<BulkDeletion>,
    /// Machines of the NodePool that its budgets allow to start terminating now.
    pub allowance: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockCause {
    /// More machines were deleted by hand than may be removed at once.
    ByHand,
    /// Its Node vanished under its pods.
    NodeVanished,
    /// The only evidence is absence.
    Missing,
    /// The cloud reports that the instance belongs to another owner.
    Foreign,
    /// A notice says that the instance ends, and the cloud itself does not.
    Unconfirmed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// The removal may begin.
    Proceed,
    /// The removal is held.
    Block {
        refusal: RemovalRefusal,
        /// When to evaluate again, if no event comes first.
        until: Option<Timestamp>,
    },
}

#[must_use]
pub fn evaluate_removal(evidence: Evidence, facts: MachineFacts, constraints: &RemovalConstraints) -> GateDecision {
    match evidence {
        Evidence::Terminating => evaluate_vanished(facts),
        Evidence::ByHand => evaluate_by_hand(facts, constraints),
        Evidence::Ended if facts.node == NodeState::Ready && facts.pods > 0 => {
            block(RemovalRefusal::EndedUnderReadyNode { pods: facts.pods })
        }
        Evidence::Ended => GateDecision::Proceed,
        Evidence::Unknown => evaluate_unknown(facts, constraints),
    }
}

fn evaluate_vanished(facts: MachineFacts) -> GateDecision {
    let NodeState::Vanished { with_most } = facts.node else { return GateDecision::Proceed };
    if facts.confirmed || (facts.pods == 0 && !with_most) {
        return GateDecision::Proceed;
    }
    block(if with_most { RemovalRefusal::MostNodesVanished } else { RemovalRefusal::NodeVanished { pods: facts.pods } })
}

fn evaluate_by_hand(facts: MachineFacts, constraints: &RemovalConstraints) -> GateDecision {
    let Some(bulk) = constraints.bulk else { return GateDecision::Proceed };
    if !facts.confirmed {
        if let Some(frozen) = &constraints.frozen {
            return block(RemovalRefusal::Bulk(bulk, RemovalObstacle::Frozen(frozen.clone())));
        }
        if let Some(LimitBlock { limit, until }) = &constraints.capped {
            return block_until(RemovalRefusal::Bulk(bulk, RemovalObstacle::RateLimited(limit.clone())), *until);
        }
    }
    if constraints.allowance == 0 {
        return block(RemovalRefusal::BulkOverBudget(bulk));
    }
    GateDecision::Proceed
}

fn evaluate_unknown(facts: MachineFacts, constraints: &RemovalConstraints) -> GateDecision {
    if facts.node == NodeState::Ready {
        return block(RemovalRefusal::UnknownUnderReadyNode);
    }
    if facts.confirmed {
        return GateDecision::Proceed;
    }
    if let Some(distrusted) = &constraints.distrusted {
        return block(RemovalRefusal::Unknown(RemovalObstacle::Distrusted(distrusted.clone())));
    }
    if let Some(frozen) = &constraints.frozen {
        return block(RemovalRefusal::Unknown(RemovalObstacle::Frozen(frozen.clone())));
    }
    if let Some(LimitBlock { limit, until }) = &constraints.capped {
        return block_until(RemovalRefusal::Unknown(RemovalObstacle::RateLimited(limit.clone())), *until);
    }
    GateDecision::Proceed
}

fn block(refusal: RemovalRefusal) -> GateDecision {
    GateDecision::Block { refusal, until: None }
}

fn block_until(refusal: RemovalRefusal, until: Timestamp) -> GateDecision {
    GateDecision::Block { refusal, until: Some(until) }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRemoval {
    /// Time of the first evaluation that held it.
    pub since: Timestamp,
    pub refusal: RemovalRefusal,
}

/// A removal that the removal gate blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRemoval {
    pub claim: ClaimName,
    pub since: Timestamp,
    pub reason: Text,
    /// What ends the block; a phrase that continues the reason.
    pub release: Text,
}

impl WaitingRemoval {
    /// What operators read of a held removal in `cluster`.
    #[must_use]
    pub fn of(cluster: &ClusterName, (_, claim, held): (BlockCause, &ClaimName, &HeldRemoval)) -> Self {
        let HeldRemoval { since, refusal } = held;
        let (reason, release) = (Text::from(refusal.to_string()), Text::from(refusal.release(cluster)));
        Self { claim: claim.clone(), since: *since, reason, release }
    }
}

/// Held removals of one cluster, and recent removals of machines deleted by hand.
#[derive(Debug, Default)]
pub(crate) struct HeldRemovals {
    held: BTreeMap<(BlockCause, ClaimName), HeldRemoval>,
    /// Incremented whenever `held` changes.
    version: u64,
    /// Removals of machines deleted by hand within the window, oldest first.
    manual: VecDeque<(Timestamp, ClaimName)>,
    /// When held manual removals are evaluated again.
    recheck_at: Option<Timestamp>,
}

impl HeldRemovals {
    /// Blocks the removal of the machine of `claim`.
    pub fn block(&mut self, cause: BlockCause, claim: &ClaimName, refusal: RemovalRefusal, now: Timestamp) {
        let key = (cause, claim.clone());
        let since = self.held.get(&key).map_or(now, |held| held.since);
        let held = HeldRemoval { since, refusal };
        if self.held.get(&key) != Some(&held) {
            self.version += 1;
            self.held.insert(key, held);
        }
    }

    pub fn release(&mut self, cause: BlockCause, claim: &ClaimName) {
        let known = !self.held.is_empty() && self.held.remove(&(cause, claim.clone())).is_some();
        self.version += u64::from(known);
    }

    /// Releases the blocks of `cause` for which `keep` is false.
    pub fn retain(&mut self, cause: BlockCause, keep: impl Fn(&ClaimName) -> bool) {
        let before = self.held.len();
        self.held.retain(|(of, claim), _| *of != cause || keep(claim));
        self.version += u64::from(self.held.len() != before);
    }

    /// All blocks with cause and NodeClaim, ordered by both.
    pub fn all(&self) -> impl Iterator<Item = (BlockCause, &ClaimName, &HeldRemoval)> {
        self.held.iter().map(|((cause, claim), held)| (*cause, claim, held))
    }

    /// Incremented whenever the blocks change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Has held manual removals evaluated again at `at`, unless that is due earlier.
    pub fn schedule_recheck(&mut self, at: Timestamp) {
        self.recheck_at = Some(self.recheck_at.map_or(at, |recheck| recheck.min(at)));
    }

    /// Cancels the evaluation of held manual removals.
    pub fn cancel_recheck(&mut self) {
        self.recheck_at = None;
    }

    /// When held manual removals are evaluated again.
    pub fn next_recheck(&self) -> Option<Timestamp> {
        self.recheck_at
    }

    /// Records that a machine deleted by hand started terminating.
    pub fn record_manual(&mut self, claim: &ClaimName, now: Timestamp) {
        self.manual.push_back((now, claim.clone()));
    }

    /// NodeClaims of the manual removals within the window.
    pub fn recent_manual(&mut self, window: Millis, now: Timestamp) -> impl Iterator<Item = &ClaimName> {
        while self.manual.front().is_some_and(|(at, _)| now.duration_since(*at) >= window) {
            self.manual.pop_front();
        }
        self.manual.iter().map(|(_, claim)| claim)
    }
}

#[cfg(test)]
mod tests;
