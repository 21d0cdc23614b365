//! The estimator.

use std::collections::BTreeMap;

use crate::history::{CLASSES, Counts, History, class_of};
use crate::recalibration::{Recalibration, group_of};
use crate::{CapacityPool, Scope};
use model::{CapacityType, Millis, Timestamp};

pub use crate::history::HALF_LIFE;

/// Prior successes and refusals of a pool without outcomes.
const PRIOR: (f64, f64) = (1.9, 0.1);
/// Weight of the prior, in outcomes.
const PRIOR_STRENGTH: f64 = PRIOR.0 + PRIOR.1;
const PRIOR_MEAN: f64 = PRIOR.0 / PRIOR_STRENGTH;

/// Outcomes of the last hours of one pool that weigh as much as those of the fleet.
const USUAL_STRENGTH: f64 = 2.0;
/// Recent outcomes of other pools that weigh as much as what is usual for them.
const NEIGHBOUR_STRENGTH: f64 = 12.0;

/// Maximum number of scopes whose outcomes are kept: all pools of ten regions fit. An entry takes about 400 bytes.
pub const MAX_SCOPES: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// Between 0 and 1.
    pub probability: f64,
    /// Effective number of outcomes of the same pool and size that it is made of: an outcome of 10 minutes ago is half.
    pub samples: f64,
    /// Effective number of outcomes of other pools of the same zone and of the same size.
    pub neighbour_samples: f64,
}

/// Outcomes of launches, and the odds of launches to come.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityOdds {
    pub(crate) histories: BTreeMap<Scope, History>,
    /// Corrections of single statements, by capacity type.
    pub(crate) recalibrations: BTreeMap<CapacityType, Recalibration>,
    /// Correction of statements about orders.
    pub(crate) order_recalibration: Recalibration,
    max_scopes: usize,
}

impl Default for CapacityOdds {
    fn default() -> Self {
        Self::with_max_scopes(MAX_SCOPES)
    }
}

impl CapacityOdds {
    /// Without outcomes; keeps those of at most `max_scopes` scopes.
    #[must_use]
    pub fn with_max_scopes(max_scopes: usize) -> Self {
        Self {
            histories: BTreeMap::new(),
            recalibrations: BTreeMap::new(),
            order_recalibration: Recalibration::default(),
            max_scopes: max_scopes.max(1),
        }
    }

    /// Records a launch in `pool`: `asked` instances were tried, `launched` of them came, and the cloud refused the
    /// others. Where the cloud tried no further for another reason, `asked` is what it tried.
    pub fn record(&mut self, pool: &CapacityPool, asked: u32, launched: u32, now: Timestamp) {
        if asked == 0 {
            return;
        }
        let (stated, age) = (self.stated(pool, class_of(asked), now).probability, self.age(pool, class_of(asked), now));
        self.recalibrations.entry(pool.capacity_type).or_default().record(stated, age, launched >= asked);
        for scope in Scope::all_of(pool) {
            self.histories.entry(scope).or_insert_with(|| History::new(now)).add(asked, launched, now);
        }
        if self.histories.len() > self.max_scopes {
            self.forget(now);
        }
    }

    /// Probability that a launch of `size` instances in `pool` succeeds: pooled and recalibrated.
    #[must_use]
    pub fn odds(&self, pool: &CapacityPool, size: u32, now: Timestamp) -> Odds {
        let (stated, group) = self.stated_by_group(pool, size, now);
        let Some(recalibration) = self.recalibrations.get(&pool.capacity_type) else { return stated };
        Odds { probability: recalibration.curve(group).at(stated.probability), ..stated }
    }

    /// The odds before their recalibration, and the group of their evidence by age.
    pub(crate) fn stated_by_group(&self, pool: &CapacityPool, size: u32, now: Timestamp) -> (Odds, usize) {
        let class = class_of(size);
        (self.stated(pool, class, now), group_of(self.age(pool, class, now)))
    }

    /// Mean of the Beta distribution of the outcomes of `pool` itself at `size`: (1.9 + S) / (2 + S + F).
    #[must_use]
    pub fn posterior(&self, pool: &CapacityPool, size: u32, now: Timestamp) -> Odds {
        let tally = self.counts(&Scope::of(pool), class_of(size), now).recent;
        let probability = tally.mean(PRIOR_MEAN, PRIOR_STRENGTH);
        Odds { probability, samples: tally.samples(), neighbour_samples: 0.0 }
    }

    /// Forgets outcomes without weight, and those of the least recent scopes while there are too many.
    pub fn forget(&mut self, now: Timestamp) {
        self.histories.retain(|_, history| !history.is_negligible(now));
        if self.histories.len() <= self.max_scopes {
            return;
        }
        // An eighth more than necessary, so that the next outcomes need no other pass.
        let kept = self.max_scopes - self.max_scopes / 8;
        let mut times: Vec<Timestamp> = self.histories.values().map(|history| history.at).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = times[kept.saturating_sub(1)];
        self.histories.retain(|_, history| history.at >= oldest);
        // Scopes of equal times may still be too many.
        while self.histories.len() > self.max_scopes {
            self.histories.pop_last();
        }
    }

    /// The statement before its recalibration.
    fn stated(&self, pool: &CapacityPool, class: usize, now: Timestamp) -> Odds {
        let scopes = Scope::all_of(pool);
        let mut probability = 1.0_f64;
        let mut odds = Odds { probability, samples: 0.0, neighbour_samples: 0.0 };
        // Capacity for many is capacity for few: no class is likelier than a smaller one.
        for class in 0..=class {
            let [fleet, zone, family, own] = scopes.each_ref().map(|scope| self.counts(scope, class, now));
            probability = probability.min(pooled(fleet, zone.without(own), family.without(own), own));
            odds = Odds {
                probability,
                samples: own.recent.samples(),
                neighbour_samples: zone.without(own).recent.samples(),
            };
        }
        odds
    }

    /// Time since the last outcome of the pool that says something about the class.
    fn age(&self, pool: &CapacityPool, class: usize, now: Timestamp) -> Option<Millis> {
        let last = self.histories.get(&Scope::of(pool))?.counts[class].last?;
        Some(now.duration_since(last))
    }

    fn counts(&self, scope: &Scope, class: usize, now: Timestamp) -> Counts {
        debug_assert!(class < CLASSES);
        self.histories.get(scope).map_or_else(Counts::default, |history| history.counts_at(class, now))
    }
}

/// The probability by all counts; `zone` and `family` are without `own`.
fn pooled(fleet: Counts, zone: Counts, family: Counts, own: Counts) -> f64 {
    let base = fleet.usual.mean(PRIOR_MEAN, PRIOR_STRENGTH);
    let usual = own.usual.mean(base, USUAL_STRENGTH);
    let present = logit(usual) + shift(zone, base) + shift(family, base);
    own.recent.mean(logistic(present), PRIOR_STRENGTH)
}

/// How far the recent outcomes of other pools are from what is usual for them, in log-odds.
fn shift(others: Counts, base: f64) -> f64 {
    let usual = others.usual.mean(base, USUAL_STRENGTH);
    logit(others.recent.mean(usual, NEIGHBOUR_STRENGTH)) - logit(usual)
}

fn logit(probability: f64) -> f64 {
    let probability = probability.clamp(0.001, 0.999);
    (probability / (1.0 - probability)).ln()
}

fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}
