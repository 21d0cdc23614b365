//! Quotes and launches over one process, in a random order.

use model::{SizeClass, Timestamp};
use odds::{CapacityOdds, CapacityPool, LaunchRequest};

use crate::processes::{self, CapacityProcess, POOLS};
use crate::random::Random;

/// A quote, and whether a launch at its moment would have succeeded.
#[derive(Debug, Clone, Copy)]
pub struct Quote {
    pub stated: f64,
    /// What a rule says that excludes a refused offering for 180 seconds: 0 or the prior's .95.
    pub by_rule: f64,
    pub success: bool,
}

/// How long the rule excludes an offering.
const EXCLUSION_MS: i64 = 180_000;

struct Stream {
    random: Random,
    process: Box<dyn CapacityProcess>,
    odds: CapacityOdds,
    pools: Vec<CapacityPool>,
    /// Mean seconds between two launches in a pool, relative to that of the others.
    rarity: Vec<f64>,
    /// The last refusal, by pool and size class.
    refused_at: Vec<[Option<i64>; 4]>,
    now_ms: f64,
    /// Launches to come: (milliseconds, pool, size), of bursts and after refusals.
    planned: Vec<(f64, usize, u32)>,
}

/// `count` quotes over the process, of which some are followed by launches; other launches come by themselves, in bursts,
/// and again after refusals.
pub fn quotes(name: &str, seed: u64, count: usize) -> Vec<Quote> {
    quotes_by(name, seed, count, Stream::step)
}

/// The same for orders of up to three launches with up to four alternatives.
pub fn quotes_of_orders(name: &str, seed: u64, count: usize) -> Vec<Quote> {
    quotes_by(name, seed, count, Stream::step_with_order)
}

fn quotes_by(name: &str, seed: u64, count: usize, step: fn(&mut Stream, &mut Vec<Quote>)) -> Vec<Quote> {
    let mut random = Random::new(seed);
    let process = processes::process(name, random.bits());
    let rarity = (0..POOLS).map(|_| random.exponential(1.0) + 0.05).collect();
    let mut stream = Stream {
        random,
        process,
        odds: CapacityOdds::default(),
        pools: (0..POOLS).map(processes::pool).collect(),
        rarity,
        refused_at: vec![[None; 4]; POOLS],
        now_ms: 0.0,
        planned: Vec::new(),
    };
    let mut quotes = Vec::with_capacity(count);
    while quotes.len() < count {
        step(&mut stream, &mut quotes);
    }
    quotes
}

impl Stream {
    fn step(&mut self, quotes: &mut Vec<Quote>) {
        let next = self.now_ms + 1_000.0 * self.random.exponential(4.0);
        if let Some(at) = self.planned.iter().position(|(time, ..)| *time <= next) {
            let (time, pool, size) = self.planned.swap_remove(at);
            self.pass_until(time.max(self.now_ms));
            self.launch(pool, size);
            return;
        }
        self.pass_until(next);
        let size = [1, 1, 1, 2, 3, 4, 6, 10, 16, 20, 40][self.random.below(11)];
        if self.random.chance(0.6) {
            let pool = self.random.below(POOLS);
            quotes.push(self.quote(pool, size));
            if self.random.chance(0.2) {
                self.launch(pool, size);
            }
        } else {
            let pool = self.popular_pool();
            self.launch(pool, size);
            while self.random.chance(0.3) {
                let time = self.now_ms + 1_000.0 * self.random.exponential(60.0);
                self.planned.push((time, pool, size));
            }
        }
    }

    fn step_with_order(&mut self, quotes: &mut Vec<Quote>) {
        if self.random.chance(0.5) {
            // A launch by itself, or the next one that is planned; its quotes are not judged.
            self.step(&mut Vec::new());
            return;
        }
        let next = self.now_ms + 1_000.0 * self.random.exponential(4.0);
        self.pass_until(next);
        let order: Vec<(u32, Vec<usize>)> = (0..=self.random.below(3))
            .map(|_| {
                let count = [1, 2, 5][self.random.below(3)];
                (count, (0..=self.random.below(4)).map(|_| self.random.below(POOLS)).collect())
            })
            .collect();
        let options = |pools: &[usize]| pools.iter().map(|pool| self.pools[*pool].clone()).collect();
        let request = |(count, pools): &(u32, Vec<usize>)| LaunchRequest { count: *count, options: options(pools) };
        let requests: Vec<LaunchRequest> = order.iter().map(request).collect();
        let now = Timestamp::from_millis(self.now_ms as i64);
        let stated = self.odds.order_odds(&requests, now).probability;
        let success = self.would_fill(&order);
        let has_option = |(count, pools): &(u32, Vec<usize>)| pools.iter().any(|pool| !self.is_excluded(*pool, *count));
        let by_rule = if order.iter().all(has_option) { 0.95 } else { 0.0 };
        quotes.push(Quote { stated, by_rule, success });
        if self.random.chance(0.4) {
            self.odds.record_order(&requests, success, now);
            for (count, pools) in &order {
                self.launch(pools[0], *count);
            }
        }
    }

    /// Whether every request finds its instances in one of its pools, when the earlier ones have taken theirs.
    fn would_fill(&mut self, order: &[(u32, Vec<usize>)]) -> bool {
        let mut taken = [0; POOLS];
        order.iter().all(|(count, pools)| {
            let has = |pool: &&usize| self.process.available(**pool) >= taken[**pool] + count;
            let found = pools.iter().find(has).copied();
            found.inspect(|pool| taken[*pool] += count).is_some()
        })
    }

    fn pass_until(&mut self, time: f64) {
        self.process.pass((time - self.now_ms) / 1_000.0);
        self.now_ms = time;
    }

    fn popular_pool(&mut self) -> usize {
        loop {
            let pool = self.random.below(POOLS);
            if self.random.chance(0.05 / self.rarity[pool]) {
                return pool;
            }
        }
    }

    fn quote(&mut self, pool: usize, size: u32) -> Quote {
        let now = Timestamp::from_millis(self.now_ms as i64);
        let by_rule = if self.is_excluded(pool, size) { 0.0 } else { 0.95 };
        let stated = self.odds.odds(&self.pools[pool], size, now).probability;
        Quote { stated, by_rule, success: self.process.available(pool) >= size }
    }

    /// Whether the rule excludes launches of this size.
    fn is_excluded(&self, pool: usize, size: u32) -> bool {
        let excluded = |refused: &Option<i64>| refused.is_some_and(|at| self.now_ms as i64 - at < EXCLUSION_MS);
        self.refused_at[pool][..=class(size)].iter().any(excluded)
    }

    fn launch(&mut self, pool: usize, size: u32) {
        let launched = self.process.available(pool).min(size);
        self.process.take(pool, launched);
        let now = Timestamp::from_millis(self.now_ms as i64);
        self.odds.record(&self.pools[pool], size, launched, now);
        if launched < size {
            self.refused_at[pool][class(launched + 1)] = Some(now.as_millis());
            if self.random.chance(0.5) {
                let time = self.now_ms + 1_000.0 * self.random.exponential(120.0);
                self.planned.push((time, pool, size - launched));
            }
        }
    }
}

fn class(size: u32) -> usize {
    SizeClass::ALL.iter().rposition(|class| class.smallest() <= size).unwrap_or(0)
}
