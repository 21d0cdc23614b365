//! The gate for removals: every machine that goes, whatever asked for it, is judged here by the evidence for its removal.
//!
//! | evidence | goes | waits |
//! |---|---|---|
//! | a durable decision about an empty node | at once: caps, brake, freezes and budgets were asked when it was made | its Node vanished under pods |
//! | an announced interruption | at once, also under a freeze and past caps | – |
//! | deleted by hand, or with its NodePool | at once, up to a share of the cluster in a window | beyond it: a freeze, the caps, the NodePool's budget |
//! | the cloud states that it has ended | at once | – |
//! | the same, asked by id because a listing lacks it | when its Node is not ready, or holds no pods | a ready Node with pods |
//! | the cloud does not know its id | when its Node is not ready, caps and freezes allow it, and listings are trusted | otherwise |
//! | a listing lacks it | never: the cloud is asked by id | always |
//!
//! [`judge`] is pure: facts in, a verdict out. What has to wait is kept in [`Waiting`] with its reason and with what releases
//! it, until the reason is gone or a person confirms ([`Event::RemovalsConfirmed`](crate::control::Event)).

use std::collections::{BTreeMap, VecDeque};

use super::Held;
use crate::model::{Text, Timestamp};

/// What speaks for removing a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It has to leave for a reason of its own, and its pods are gone or never were: only its Node may speak against it.
    Leaving,
    /// Its NodeClaim or Node was deleted in the cluster, alone or with its NodePool.
    ByHand,
    /// A listing lacked it, and the cloud, asked by its id, states that it has ended.
    Ended,
    /// The cloud, asked by its id, knows no such machine: it ended long ago, or the credentials are of another account.
    Unknown,
}

/// The Node of a machine, as far as the cluster shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// There never was one.
    Never,
    /// There was one, and it is not shown any more.
    Vanished {
        /// So did most others.
        with_most: bool,
    },
    /// Its kubelet does not report, or reports trouble.
    NotReady,
    /// Its kubelet reports that all is well.
    Ready,
}

/// What is known of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its Node.
    pub node: NodeState,
    /// Pods bound to it, those of DaemonSets apart, as last known.
    pub pods: usize,
    /// A person has confirmed its removal.
    pub confirmed: bool,
}

/// What else holds at the moment.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Why the agent's picture, or the cloud's listing, is not believed as a whole.
    pub doubted: Option<Text>,
    /// The freeze that holds for the machine's NodePool.
    pub frozen: Option<Text>,
    /// Why the bounds on removals leave no room.
    pub capped: Option<Held>,
    /// More machines were deleted by hand than may go at once: the sentence that says how many.
    pub bulk: Option<Text>,
    /// Machines of the NodePool that may begin to leave at this moment.
    pub allowance: usize,
}

/// Which guards are asked. All of them are, but in tests that show what follows without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalRule {
    /// LocalCounters of a cluster's machines that go at once when they are deleted by hand, in percent, rounded up; 0 lets all go.
    pub by_hand_percent: usize,
    /// The share never holds back fewer machines than these.
    pub by_hand_least: usize,
    /// Length of the sliding window for both, in milliseconds.
    pub by_hand_window_ms: i64,
    /// Whether a listing that lacks too much is doubted as a whole, and a machine that it lacks is asked for by id.
    pub second_witness: bool,
    /// Whether a machine waits whose Node vanished under pods.
    pub keep_vanished: bool,
}

impl Default for RemovalRule {
    fn default() -> Self {
        Self {
            by_hand_percent: 10,
            by_hand_least: 3,
            by_hand_window_ms: 600_000,
            second_witness: true,
            keep_vanished: true,
        }
    }
}

impl RemovalRule {
    /// How many of `machines` go at once within the window when they are deleted by hand.
    #[must_use]
    pub fn by_hand(&self, machines: usize) -> usize {
        if self.by_hand_percent == 0 {
            return usize::MAX;
        }
        (machines * self.by_hand_percent).div_ceil(100).max(self.by_hand_least)
    }
}

/// Why a removal waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// More machines were deleted by hand than may go at once.
    ByHand,
    /// Its Node vanished under its pods.
    NodeVanished,
    /// Only missing evidence speaks for it.
    Missing,
    /// The cloud says that the machine is not this cluster's.
    Foreign,
}

/// Whether a removal may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Proceed,
    /// It waits.
    Hold {
        /// Why, in a sentence.
        reason: Text,
        /// What ends the waiting besides a person's word.
        release: &'static str,
        /// When to look again, if nothing else happens.
        until: Option<Timestamp>,
        /// Whether a person can end it.
        by_person: bool,
    },
}

/// Judges one removal.
#[must_use]
pub fn judge(rule: &RemovalRule, evidence: Evidence, facts: Facts, around: &Circumstances) -> Verdict {
    match evidence {
        Evidence::Leaving => judge_vanished(rule, facts),
        Evidence::ByHand => judge_by_hand(facts, around),
        Evidence::Ended if facts.node == NodeState::Ready && facts.pods > 0 => hold(
            format!(
                "the cloud states that the machine has ended, while its Node is ready and holds {} pods",
                facts.pods
            ),
            "its Node is not ready, or holds no pods",
        ),
        Evidence::Ended => Verdict::Proceed,
        Evidence::Unknown => judge_unknown(facts, around),
    }
}

fn judge_vanished(rule: &RemovalRule, facts: Facts) -> Verdict {
    let NodeState::Vanished { with_most } = facts.node else { return Verdict::Proceed };
    if !rule.keep_vanished || facts.confirmed || (facts.pods == 0 && !with_most) {
        return Verdict::Proceed;
    }
    let what = if with_most {
        "its Node is not shown any more, and neither are most others".to_owned()
    } else {
        format!("its Node is not shown any more, and {} pods are bound to it", facts.pods)
    };
    released_by_person(what, "its Node is shown again, or the cloud states that the machine has ended")
}

fn judge_by_hand(facts: Facts, around: &Circumstances) -> Verdict {
    let Some(bulk) = &around.bulk else { return Verdict::Proceed };
    if !facts.confirmed {
        if let Some(frozen) = &around.frozen {
            return released_by_person(format!("{bulk}, and {frozen}"), "the freeze ends");
        }
        if let Some(capped) = &around.capped {
            let held = released_by_person(format!("{bulk}, and {}", capped.reason), "the window moves on");
            return until(held, capped.until);
        }
    }
    if around.allowance == 0 {
        return released_by_person(format!("{bulk}: the others leave at its NodePool's budget"), "others have left");
    }
    Verdict::Proceed
}

fn judge_unknown(facts: Facts, around: &Circumstances) -> Verdict {
    const UNKNOWN: &str = "the cloud knows no machine of this id with these credentials";
    if facts.node == NodeState::Ready {
        return hold(
            format!("{UNKNOWN}, while its Node is ready: look whether they are of the right account and region"),
            "its Node is not ready",
        );
    }
    if facts.confirmed {
        return Verdict::Proceed;
    }
    if let Some(doubted) = &around.doubted {
        return released_by_person(format!("{UNKNOWN}, and {doubted}"), "that is over");
    }
    if let Some(frozen) = &around.frozen {
        return released_by_person(format!("{UNKNOWN}, and {frozen}"), "the freeze ends");
    }
    if let Some(capped) = &around.capped {
        let held = released_by_person(format!("{UNKNOWN}, and {}", capped.reason), "the window moves on");
        return until(held, capped.until);
    }
    Verdict::Proceed
}

fn hold(reason: String, release: &'static str) -> Verdict {
    Verdict::Hold { reason: Text::from(reason), release, until: None, by_person: false }
}

fn released_by_person(reason: String, release: &'static str) -> Verdict {
    Verdict::Hold { reason: Text::from(reason), release, until: None, by_person: true }
}

fn until(verdict: Verdict, at: Option<Timestamp>) -> Verdict {
    match verdict {
        Verdict::Hold { reason, release, by_person, .. } => Verdict::Hold { reason, release, until: at, by_person },
        Verdict::Proceed => Verdict::Proceed,
    }
}

/// A removal that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRemoval {
    /// Since when.
    pub since: Timestamp,
    /// Why, in a sentence.
    pub reason: Text,
    /// What ends the waiting.
    pub release: Text,
}

/// The removals of one cluster that wait, and those by hand that were let go lately.
#[derive(Debug, Default)]
pub(in crate::control) struct Waiting {
    held: BTreeMap<(Cause, Text), HeldRemoval>,
    /// Changes whenever `held` does.
    version: u64,
    /// Removals by hand that were let go within the window, oldest first.
    by_hand: VecDeque<(Timestamp, Text)>,
    /// When removals by hand are looked at again.
    pub again: Option<Timestamp>,
}

impl Waiting {
    /// The removal of the machine of `claim` waits.
    pub fn hold(&mut self, cause: Cause, claim: &Text, reason: Text, release: Text, now: Timestamp) {
        let key = (cause, claim.clone());
        let since = self.held.get(&key).map_or(now, |held| held.since);
        let held = HeldRemoval { since, reason, release };
        if self.held.get(&key) != Some(&held) {
            self.version += 1;
            self.held.insert(key, held);
        }
    }

    /// It does not wait any more.
    pub fn release(&mut self, cause: Cause, claim: &Text) {
        let known = !self.held.is_empty() && self.held.remove(&(cause, claim.clone())).is_some();
        self.version += u64::from(known);
    }

    /// Only those of which `keep` holds go on waiting for this cause.
    pub fn retain(&mut self, cause: Cause, keep: impl Fn(&Text) -> bool) {
        let before = self.held.len();
        self.held.retain(|(of, claim), _| *of != cause || keep(claim));
        self.version += u64::from(self.held.len() != before);
    }

    /// All that wait, with the reason for it and the NodeClaim, by reason and name.
    pub fn all(&self) -> impl Iterator<Item = (Cause, &Text, &HeldRemoval)> {
        self.held.iter().map(|((cause, claim), held)| (*cause, claim, held))
    }

    /// Changes whenever what waits does.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A removal by hand was let go.
    pub fn let_go(&mut self, claim: &Text, now: Timestamp) {
        self.by_hand.push_back((now, claim.clone()));
    }

    /// NodeClaims of removals by hand that were let go within the window.
    pub fn lately(&mut self, window_ms: i64, now: Timestamp) -> impl Iterator<Item = &Text> {
        while self.by_hand.front().is_some_and(|(at, _)| now.millis_since(*at) >= window_ms) {
            self.by_hand.pop_front();
        }
        self.by_hand.iter().map(|(_, claim)| claim)
    }
}

#[cfg(test)]
mod tests;
