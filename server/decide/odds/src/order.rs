//! The odds of several launches with alternatives.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::recalibration::{Curve, group_of};
use crate::{CapacityOdds, CapacityPool, Odds};
use model::{CapacityType, SizeClass, Timestamp};

/// Capacity pools that several requests name and whose states are combined exactly.
const MAX_SHARED: usize = 10;

/// Instances of an order that may come from any of several capacity pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRequest {
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
    /// Probability that every request of `requests` is filled: [`OddsSnapshot::order_odds`].
    #[must_use]
    pub fn order_odds(&self, requests: &[LaunchRequest], now: Timestamp) -> Odds {
        OddsSnapshot::new(self, now).order_odds(requests)
    }

    /// Records whether every request of an order was filled, before the outcomes of its launches are.
    pub fn record_order(&mut self, requests: &[LaunchRequest], is_filled: bool, now: Timestamp) {
        let stated = OddsSnapshot::new(self, now).stated_order(requests).probability;
        self.order_recalibration.record(stated, None, is_filled);
    }
}

/// The odds at one time. Those of each capacity pool and size are computed once, and so is the calibration.
#[derive(Debug)]
pub struct OddsSnapshot<'o> {
    odds: &'o CapacityOdds,
    now: Timestamp,
    known: FxHashMap<(CapacityPool, SizeClass), Odds>,
    /// By capacity type and group of evidence.
    curves: FxHashMap<(CapacityType, usize), Curve>,
}

impl<'o> OddsSnapshot<'o> {
    /// The odds at `now`.
    #[must_use]
    pub fn new(odds: &'o CapacityOdds, now: Timestamp) -> Self {
        Self { odds, now, known: FxHashMap::default(), curves: FxHashMap::default() }
    }

    /// Probability that a launch of `size` instances in `pool` succeeds, as [`CapacityOdds::odds`] has it.
    pub fn odds(&mut self, pool: &CapacityPool, size: u32) -> Odds {
        let Self { odds, now, known, curves } = self;
        *known.entry((pool.clone(), SizeClass::of(size))).or_insert_with(|| {
            let (stated, group) = odds.stated_by_group(pool, size, *now);
            let Some(recalibration) = odds.recalibrations.get(&pool.capacity_type) else { return stated };
            let curve = curves.entry((pool.capacity_type, group)).or_insert_with(|| recalibration.curve(group));
            Odds { probability: curve.at(stated.probability), ..stated }
        })
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
        let curve = self.odds.order_recalibration.curve(group_of(None));
        Odds { probability: curve.at(stated.probability), ..stated }
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

/// A request, for the states of the shared pools.
struct StatedRequest {
    /// The shared pools that it names, as bits.
    shared: u32,
    /// Probability that all of its other pools fail.
    others_fail: f64,
}

/// Sum over all states of the shared pools; given one, requests are independent.
fn probability_of_all(requests: &[Vec<PoolOdds>]) -> f64 {
    let mut shared = [None; MAX_SHARED];
    for pool in requests.iter().flatten() {
        if let Some(at) = pool.shared {
            shared[at] = Some(pool.odds.probability);
        }
    }
    let shared: Vec<f64> = shared.into_iter().map_while(|probability| probability).collect();
    let requests: Vec<StatedRequest> = requests.iter().map(|pools| StatedRequest::of(pools)).collect();
    (0_u32..1 << shared.len())
        .map(|up| {
            let of_pool = |(at, p): (usize, &f64)| if up >> at & 1 == 1 { *p } else { 1.0 - p };
            let weight: f64 = shared.iter().enumerate().map(of_pool).product();
            weight * requests.iter().map(|request| request.probability(up)).product::<f64>()
        })
        .sum()
}

impl StatedRequest {
    fn of(pools: &[PoolOdds]) -> Self {
        let shared = pools.iter().filter_map(|pool| pool.shared).fold(0, |bits, at| bits | 1 << at);
        let others = pools.iter().filter(|pool| pool.shared.is_none());
        Self { shared, others_fail: others.map(|pool| 1.0 - pool.odds.probability).product() }
    }

    /// Probability that one of its pools has the instances, if of the shared ones exactly these have.
    fn probability(&self, up: u32) -> f64 {
        if self.shared & up == 0 { 1.0 - self.others_fail } else { 1.0 }
    }
}

#[cfg(test)]
mod tests;
