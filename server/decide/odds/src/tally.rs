//! Successes and refusals that lose weight with time.

use model::Millis;

/// Decayed numbers of successes and refusals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub successes: f64,
    pub refusals: f64,
}

impl Tally {
    /// Weight of all outcomes: the effective number of samples.
    #[must_use]
    pub fn samples(self) -> f64 {
        self.successes + self.refusals
    }

    /// Mean of the Beta distribution with these outcomes, when its prior has `mean` and the weight of `strength` outcomes.
    #[must_use]
    pub fn mean(self, mean: f64, strength: f64) -> f64 {
        (mean * strength + self.successes) / (strength + self.samples())
    }

    pub(crate) fn add(&mut self, success: bool) {
        if success {
            self.successes += 1.0;
        } else {
            self.refusals += 1.0;
        }
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { successes: self.successes * factor, refusals: self.refusals * factor }
    }

    /// What is left without `part`, which is counted in it.
    pub(crate) fn without(self, part: Self) -> Self {
        Self {
            successes: (self.successes - part.successes).max(0.0),
            refusals: (self.refusals - part.refusals).max(0.0),
        }
    }
}

/// Weight that is left after `passed`, of 1.
pub(crate) fn decay(passed: Millis, half_life: Millis) -> f64 {
    (-(passed.get() as f64) / half_life.get() as f64).exp2()
}
