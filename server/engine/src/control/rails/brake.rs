//! Who cannot launch must not remove: while launches fail, or machines do not join their clusters, nothing leaves the
//! fleet of free will. Engaging and releasing have different thresholds, so that a rate in between does not flap.

use std::collections::VecDeque;

use super::settings::BrakeRule;
use crate::model::{Text, Timestamp};

/// Outcomes of launches lately, and whether removals are stopped.
#[derive(Debug, Clone, Default)]
pub struct Brake {
    /// When, and whether it failed; oldest first.
    outcomes: VecDeque<(Timestamp, bool)>,
    failures: usize,
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

    /// A launch at a moment that may be before those which are known already.
    pub fn recall(&mut self, at: Timestamp, failed: bool) {
        let place = self.outcomes.partition_point(|(known, _)| *known <= at);
        self.outcomes.insert(place, (at, failed));
        self.failures += usize::from(failed);
    }

    /// Forgets what is past, and engages or releases; says whether it did either.
    pub fn settle(&mut self, rule: &BrakeRule, now: Timestamp) -> bool {
        while let Some((_, failed)) = self.outcomes.front().filter(|(at, _)| now.millis_since(*at) >= rule.window_ms) {
            self.failures -= usize::from(*failed);
            self.outcomes.pop_front();
        }
        let (failures, all) = (self.failures * 100, self.outcomes.len());
        let engage = rule.engage_percent > 0 && all >= rule.least && failures >= rule.engage_percent * all;
        let release = failures <= rule.release_percent * all;
        let before = self.engaged;
        match before {
            None if engage => self.engaged = Some(now),
            Some(_) if release => self.engaged = None,
            _ => {}
        }
        before != self.engaged
    }

    /// When time alone may release it.
    #[must_use]
    pub fn next_change(&self, rule: &BrakeRule) -> Option<Timestamp> {
        self.engaged?;
        let (oldest, _) = self.outcomes.front()?;
        Some(Timestamp(oldest.0.saturating_add(rule.window_ms)))
    }

    /// Why nothing is removed, if it is engaged.
    #[must_use]
    pub fn reason(&self, rule: &BrakeRule) -> Option<Text> {
        self.engaged?;
        Some(Text::from(format!(
            "launches fail in the fleet: nothing is removed until at most {} % of those of the last {} min have failed",
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
