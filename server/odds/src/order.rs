//! The odds of several launches with alternatives.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::{CapacityOdds, CapacityPool, Odds};
use model::{SizeClass, Timestamp};

/// Capacity pools that several requests name and whose states are combined exactly.
const MAX_SHARED: usize = 10;

/// Instances of an order that may come from any of several capacity pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Number of instances.
    pub count: u32,
    /// The capacity pools, any of which will do.
    pub options: Vec<CapacityPool>,
}

/// A capacity pool of an order.
#[derive(Debug, Clone, Copy)]
struct PoolOdds {
    odds: Odds,
    /// Position among the pools that are combined exactly.
    shared: Option<usize>,
}

impl CapacityOdds {
    /// Probability that every request of `requests` is filled: [`OddsAt::order_odds`].
    #[must_use]
    pub fn order_odds(&self, requests: &[LaunchRequest], now: Timestamp) -> Odds {
        OddsAt::new(self, now).order_odds(requests)
    }

    /// Records whether every request of an order was filled, before the outcomes of its launches are.
    pub fn record_order(&mut self, requests: &[LaunchRequest], is_filled: bool, now: Timestamp) {
        let stated = OddsAt::new(self, now).stated_order(requests).probability;
        self.order_recalibration.record(stated, None, is_filled);
    }
}

/// The odds at one time. Those of each capacity pool and size are computed once.
#[derive(Debug)]
pub struct OddsAt<'o> {
    odds: &'o CapacityOdds,
    now: Timestamp,
    known: FxHashMap<(CapacityPool, SizeClass), Odds>,
}

impl<'o> OddsAt<'o> {
    /// The odds at `now`.
    #[must_use]
    pub fn new(odds: &'o CapacityOdds, now: Timestamp) -> Self {
        Self { odds, now, known: FxHashMap::default() }
    }

    /// Probability that a launch of `size` instances in `pool` succeeds, as [`CapacityOdds::odds`] has it.
    pub fn odds(&mut self, pool: &CapacityPool, size: u32) -> Odds {
        let Self { odds, now, known } = self;
        *known.entry((pool.clone(), SizeClass::of(size))).or_insert_with(|| odds.odds(pool, size, *now))
    }

    /// Probability that every request of `requests` is filled.
    ///
    /// A capacity pool either has all instances that the requests naming it ask for together, or none: what shares a pool
    /// fails together. A request is filled when one of its pools has them. Different pools are independent given what is
    /// known of each; that they are not quite, because a whole zone may be short, is left to the recalibration by
    /// [`CapacityOdds::record_order`]. Up to ten pools that several requests name are combined exactly; with more, the
    /// result is a lower bound of it.
    ///
    /// The samples are those of the request with the fewest; for a request, the sum over its pools.
    pub fn order_odds(&mut self, requests: &[LaunchRequest]) -> Odds {
        let stated = self.stated_order(requests);
        Odds { probability: self.odds.order_recalibration.correct(stated.probability, None), ..stated }
    }

    fn stated_order(&mut self, requests: &[LaunchRequest]) -> Odds {
        let requests = merged(requests);
        let pools = self.pools_of(&requests);
        let with = |options: &[&CapacityPool]| options.iter().map(|pool| pools[*pool]).collect::<Vec<PoolOdds>>();
        let requests: Vec<Vec<PoolOdds>> = requests.keys().map(|options| with(options)).collect();
        let least = |of: fn(&Odds) -> f64| {
            let sums = requests.iter().map(|pools| pools.iter().map(|pool| of(&pool.odds)).sum());
            sums.min_by(f64::total_cmp).unwrap_or(0.0)
        };
        Odds {
            probability: probability_of_all(&requests),
            samples: least(|odds| odds.samples),
            neighbour_samples: least(|odds| odds.neighbour_samples),
        }
    }

    /// The odds of each pool for all instances that the requests naming it ask for.
    fn pools_of<'r>(
        &mut self,
        requests: &BTreeMap<Vec<&'r CapacityPool>, u32>,
    ) -> FxHashMap<&'r CapacityPool, PoolOdds> {
        // Instances, and the number of requests.
        let mut asked: FxHashMap<&CapacityPool, (u32, usize)> = FxHashMap::default();
        let mut shared: Vec<&CapacityPool> = Vec::new();
        for (options, count) in requests {
            for pool in options {
                let (instances, named) = asked.entry(pool).or_default();
                *instances = instances.saturating_add(*count);
                *named += 1;
                if *named == 2 {
                    shared.push(pool);
                }
            }
        }
        shared.sort_by(|a, b| asked[b].1.cmp(&asked[a].1).then(a.cmp(b)));
        shared.truncate(MAX_SHARED);
        let mut pools: FxHashMap<&CapacityPool, PoolOdds> = FxHashMap::default();
        for pool in requests.keys().flatten() {
            pools.entry(pool).or_insert_with(|| PoolOdds {
                odds: self.odds(pool, asked[pool].0),
                shared: shared.iter().position(|other| other == pool),
            });
        }
        pools
    }
}

/// Instances by set of options.
fn merged(requests: &[LaunchRequest]) -> BTreeMap<Vec<&CapacityPool>, u32> {
    let mut merged: BTreeMap<Vec<&CapacityPool>, u32> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.count > 0) {
        let mut options: Vec<&CapacityPool> = request.options.iter().collect();
        options.sort_unstable();
        options.dedup();
        let count = merged.entry(options).or_default();
        *count = count.saturating_add(request.count);
    }
    merged
}

/// Sum over all states of the shared pools; given one, requests are independent.
fn probability_of_all(requests: &[Vec<PoolOdds>]) -> f64 {
    let mut shared: Vec<(usize, f64)> = Vec::new();
    for pool in requests.iter().flatten() {
        if let Some(at) = pool.shared
            && !shared.iter().any(|(known, _)| *known == at)
        {
            shared.push((at, pool.odds.probability));
        }
    }
    let states = 0_u32..1 << shared.len();
    states
        .map(|state| {
            let has = |nth: usize| state >> nth & 1 == 1;
            let weights = shared.iter().enumerate().map(|(nth, (_, p))| if has(nth) { *p } else { 1.0 - p });
            let weight: f64 = weights.product();
            let up = |at: usize| shared.iter().enumerate().any(|(nth, (known, _))| *known == at && has(nth));
            weight * requests.iter().map(|pools| probability_of_any(pools, up)).product::<f64>()
        })
        .sum()
}

/// Probability that one of `pools` has the instances, when `up` says which of the shared ones have.
fn probability_of_any(pools: &[PoolOdds], up: impl Fn(usize) -> bool) -> f64 {
    let fails = pools.iter().map(|pool| match pool.shared {
        Some(at) if up(at) => 0.0,
        Some(_) => 1.0,
        None => 1.0 - pool.odds.probability,
    });
    1.0 - fails.product::<f64>()
}

#[cfg(test)]
mod tests;
