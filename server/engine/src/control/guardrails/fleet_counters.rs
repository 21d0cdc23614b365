//! The fleet is what all replicas decide for together: what each saw come and go is told to the others in parts of time, and
//! they count it beside their own.
//!
//! Whoever saw it counts it, and nobody else does: a launch belongs to the process that learned how it ended, whichever
//! process decides for its cluster later. So nothing is counted twice when a cluster changes hands, and what a process saw
//! before it died still counts, because others know of it. What is told of a part of time is everything in that part, so that
//! it may be told as often as anybody likes.

use std::collections::BTreeMap;

use super::Guardrails;
use super::settings::GuardrailSettings;
use crate::model::{MicroUsd, Timestamp};

/// Length of a part of time, in milliseconds: a sixtieth of the usual window, so that what is told leaves a window hardly
/// later than what one saw oneself.
pub const PART_MS: i64 = 10_000;

/// So many machines, and what they cost per hour together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machines {
    /// How many.
    pub count: usize,
    /// What they cost.
    pub cost: MicroUsd,
}

impl Machines {
    /// With one more.
    fn add(&mut self, cost: MicroUsd) {
        self.count += 1;
        self.cost = MicroUsd(self.cost.0.saturating_add(cost.0));
    }
}

/// What was seen in one part of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalCounters {
    /// Machines that joined their clusters.
    pub joined: usize,
    /// Launches that failed, and machines that did not join in time.
    pub failed: usize,
    /// Machines that it was decided to launch.
    pub launched: Machines,
    /// Machines that it was decided to remove although nothing forces it.
    pub removed: Machines,
}

/// What a process tells the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CounterSnapshot {
    /// Machines that nobody has decided to remove, in all clusters of the process.
    pub machines: usize,
    /// What it saw, by the number of the part: its beginning is so many times [`PART_MS`].
    pub parts: BTreeMap<i64, LocalCounters>,
    /// How far back anybody looks, in milliseconds.
    pub window_ms: i64,
}

impl Guardrails {
    /// What this process saw itself.
    pub fn told(&self, settings: &GuardrailSettings) -> CounterSnapshot {
        let mut parts: BTreeMap<i64, LocalCounters> = BTreeMap::new();
        for (at, failed) in self.brake.own() {
            let share = part(&mut parts, at);
            *if failed { &mut share.failed } else { &mut share.joined } += 1;
        }
        self.launches.own().for_each(|(at, price)| part(&mut parts, at).launched.add(price));
        self.removals.own().for_each(|(at, price)| part(&mut parts, at).removed.add(price));
        let windows = [settings.launches.window_ms, settings.removals.window_ms, settings.brake.window_ms];
        let window_ms = windows.into_iter().max().unwrap_or(0);
        CounterSnapshot { machines: self.machines.values().sum(), parts, window_ms }
    }

    /// What all other processes saw, in place of what they told before; oldest first.
    pub fn hear(&mut self, machines: usize, parts: &[(Timestamp, LocalCounters)]) {
        self.machines_elsewhere = machines;
        self.brake.hear(parts.iter().map(|(at, share)| (*at, share.joined, share.failed)));
        self.launches.hear(parts.iter().map(|(at, share)| (*at, share.launched)));
        self.removals.hear(parts.iter().map(|(at, share)| (*at, share.removed)));
    }
}

/// The share of the part that `at` lies in.
fn part(parts: &mut BTreeMap<i64, LocalCounters>, at: Timestamp) -> &mut LocalCounters {
    parts.entry(at.0.div_euclid(PART_MS)).or_default()
}
