//! Who cannot launch must not remove: while launches fail, or machines do not join their clusters, nothing leaves the
//! fleet of free will, whichever replica it happens to. Engaging and releasing have different thresholds, so that a rate in
//! between does not flap.

use std::collections::VecDeque;

use super::settings::BrakeRule;
use crate::model::{Text, Timestamp};

/// Outcomes of launches lately, and whether removals are stopped.
#[derive(Debug, Clone, Default)]
pub struct Brake {
    /// When, and whether it failed; oldest first.
    outcomes: VecDeque<(Timestamp, bool)>,
    failures: usize,
    /// What other processes told: when, how many machines joined, how many launches failed; oldest first.
    elsewhere: VecDeque<(Timestamp, usize, usize)>,
    engaged: Option<Timestamp>,
}

impl Brake {
    /// A machine has joined its cluster.
    pub fn joined(&mut self, now: Timestamp) {
        self.outcomes.push_back((now, false));
    }

    /// A launch failed, or its machine did not join in time.
    pub fn failed(&mut self, now: Timestamp) {
        self.outcomes.push_back((now, true));
        self.failures += 1;
    }

    /// What other processes told, in place of what they told before; oldest first.
    pub fn hear(&mut self, told: impl Iterator<Item = (Timestamp, usize, usize)>) {
        self.elsewhere = told.filter(|(_, joined, failed)| joined + failed > 0).collect();
    }

    /// What this process saw itself: when, and whether it failed.
    pub fn own(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        self.outcomes.iter().copied()
    }

    /// Forgets what is past, and engages or releases; says whether it did either.
    pub fn settle(&mut self, rule: &BrakeRule, now: Timestamp) -> bool {
        while let Some((_, failed)) = self.outcomes.front().filter(|(at, _)| now.millis_since(*at) >= rule.window_ms) {
            self.failures -= usize::from(*failed);
            self.outcomes.pop_front();
        }
        while self.elsewhere.front().is_some_and(|(at, ..)| now.millis_since(*at) >= rule.window_ms) {
            self.elsewhere.pop_front();
        }
        let (failures, all) = self.counts();
        let engage = rule.engage_percent > 0 && all >= rule.least && failures * 100 >= rule.engage_percent * all;
        let release = failures * 100 <= rule.release_percent * all;
        let before = self.engaged;
        match before {
            None if engage => self.engaged = Some(now),
            Some(_) if release => self.engaged = None,
            _ => {}
        }
        before != self.engaged
    }

    /// Launches that failed, and all whose outcome is known, in the whole fleet.
    fn counts(&self) -> (usize, usize) {
        let own = (self.failures, self.outcomes.len());
        self.elsewhere
            .iter()
            .fold(own, |(failures, all), (_, joined, failed)| (failures + failed, all + joined + failed))
    }

    /// When time alone may release it.
    #[must_use]
    pub fn next_change(&self, rule: &BrakeRule) -> Option<Timestamp> {
        self.engaged?;
        let own = self.outcomes.front().map(|(at, _)| *at);
        let oldest = own.into_iter().chain(self.elsewhere.front().map(|(at, ..)| *at)).min()?;
        Some(Timestamp(oldest.0.saturating_add(rule.window_ms)))
    }

    /// Why nothing is removed, if it is engaged.
    #[must_use]
    pub fn reason(&self, rule: &BrakeRule) -> Option<Text> {
        self.engaged?;
        Some(Text::from(format!(
            "launches fail in the fleet, in clusters of this replica or of others: nothing is removed until at most {} % of \
             those of the last {} min have failed",
            rule.release_percent,
            rule.window_ms / 60_000
        )))
    }

    /// Since when removals are stopped.
    #[must_use]
    pub fn engaged_since(&self) -> Option<Timestamp> {
        self.engaged
    }
}
