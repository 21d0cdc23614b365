//! Outcomes of one scope, by size class.

use crate::tally::{Tally, decay};
use model::{Millis, SizeClass, Timestamp};

pub(crate) const CLASSES: usize = SizeClass::ALL.len();

/// Half-life of the weight of an outcome as evidence about the present.
pub const HALF_LIFE: Millis = Millis::from_mins(10);

/// Half-life of the weight of an outcome as evidence about what is usual.
pub const USUAL_HALF_LIFE: Millis = Millis::from_hours(4);

/// Weight below which outcomes are forgotten.
const NEGLIGIBLE: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counts {
    /// Outcomes that lose half their weight in [`HALF_LIFE`].
    pub recent: Tally,
    /// Outcomes that lose half their weight in [`USUAL_HALF_LIFE`].
    pub usual: Tally,
    /// The last outcome.
    pub last: Option<Timestamp>,
}

impl Counts {
    fn decayed(self, passed: Millis) -> Self {
        Self {
            recent: self.recent.scaled(decay(passed, HALF_LIFE)),
            usual: self.usual.scaled(decay(passed, USUAL_HALF_LIFE)),
            last: self.last,
        }
    }

    pub fn without(self, part: Self) -> Self {
        Self { recent: self.recent.without(part.recent), usual: self.usual.without(part.usual), last: self.last }
    }
}

/// Counts by size class, as of the last outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct History {
    pub counts: [Counts; CLASSES],
    pub at: Timestamp,
}

impl History {
    pub fn new(at: Timestamp) -> Self {
        Self { counts: [Counts::default(); CLASSES], at }
    }

    /// Counts of the class as of `now`. A time before the last outcome is that of the last outcome.
    pub fn counts_at(&self, class: usize, now: Timestamp) -> Counts {
        self.counts[class].decayed(now.duration_since(self.at))
    }

    /// Adds the outcome of a launch of `asked` instances, of which `launched` were.
    pub fn add(&mut self, asked: u32, launched: u32, now: Timestamp) {
        let passed = now.duration_since(self.at);
        for (counts, class) in self.counts.iter_mut().zip(SizeClass::ALL) {
            *counts = counts.decayed(passed);
            if let Some(success) = outcome(asked, launched, class) {
                counts.recent.add(success);
                counts.usual.add(success);
                counts.last = Some(now);
            }
        }
        self.at = self.at.max(now);
    }

    /// Whether no outcome has weight any more.
    pub fn is_negligible(&self, now: Timestamp) -> bool {
        (0..CLASSES).all(|class| self.counts_at(class, now).usual.samples() < NEGLIGIBLE)
    }
}

/// What a launch says about launches of `class`: it is a success at every size up to `launched`, a refusal at every
/// larger size if it was refused, and says nothing about sizes above what it asked for and got. A class with a refused
/// size is refused.
pub(crate) fn outcome(asked: u32, launched: u32, class: SizeClass) -> Option<bool> {
    if launched < asked && launched < class.largest() {
        return Some(false);
    }
    (launched >= class.smallest()).then_some(true)
}

/// Position of the class of `size` in [`SizeClass::ALL`].
pub(crate) fn class_of(size: u32) -> usize {
    let class = SizeClass::of(size);
    SizeClass::ALL.iter().position(|known| *known == class).unwrap_or_default()
}
