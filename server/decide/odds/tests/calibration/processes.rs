//! Three processes that decide how many instances of each capacity pool there are. The estimator knows none of them.

use model::CapacityType;
use odds::CapacityPool;

use crate::random::Random;

const ZONES: usize = 4;
const TYPES: [&str; 15] = [
    "m5.large",
    "m5.xlarge",
    "m5.4xlarge",
    "m6i.large",
    "m6i.xlarge",
    "m6i.4xlarge",
    "c5.large",
    "c5.2xlarge",
    "c5.9xlarge",
    "r5.large",
    "r5.2xlarge",
    "r5.8xlarge",
    "g5.xlarge",
    "g5.12xlarge",
    "p4d.24xlarge",
];
pub const POOLS: usize = ZONES * TYPES.len();

/// The capacity pool at a position.
pub fn pool(at: usize) -> CapacityPool {
    CapacityPool {
        zone: format!("use1-az{}", zone_of(at) + 1).into(),
        instance_type: TYPES[at / ZONES].into(),
        capacity_type: CapacityType::OnDemand,
        account: None,
    }
}

fn zone_of(at: usize) -> usize {
    at % ZONES
}

pub trait CapacityProcess {
    /// Lets `seconds` pass.
    fn pass(&mut self, seconds: f64);
    /// Instances that a launch in the pool could get at this moment.
    fn available(&mut self, pool: usize) -> u32;
    /// A launch takes `count` of them.
    fn take(&mut self, pool: usize, count: u32);
}

pub fn process(name: &str, seed: u64) -> Box<dyn CapacityProcess> {
    match name {
        "on-off" => Box::new(OnOff::new(seed)),
        "finite" => Box::new(Finite::new(seed)),
        "diurnal" => Box::new(Diurnal::new(seed)),
        other => panic!("no process is named {other}"),
    }
}

/// Each pool has capacity for some hours and none for some minutes, independent of the others (a Markov chain).
struct OnOff {
    random: Random,
    pools: Vec<OnOffPool>,
}

struct OnOffPool {
    mean_on: f64,
    mean_off: f64,
    /// Instances while there is capacity.
    instances: u32,
    is_on: bool,
    left: f64,
}

impl OnOff {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pools = (0..POOLS).map(|_| OnOffPool {
            mean_on: random.between(1_800.0, 21_600.0),
            mean_off: random.between(300.0, 9_000.0),
            instances: 0,
            is_on: false,
            left: random.exponential(3_600.0),
        });
        let pools = pools.collect();
        Self { random, pools }
    }
}

impl CapacityProcess for OnOff {
    fn pass(&mut self, seconds: f64) {
        for pool in &mut self.pools {
            pool.left -= seconds;
            while pool.left < 0.0 {
                pool.is_on = !pool.is_on;
                pool.instances = self.random.exponential(25.0) as u32 + 1;
                pool.left += self.random.exponential(if pool.is_on { pool.mean_on } else { pool.mean_off });
            }
        }
    }

    fn available(&mut self, pool: usize) -> u32 {
        let pool = &self.pools[pool];
        if pool.is_on { pool.instances } else { 0 }
    }

    fn take(&mut self, _: usize, _: u32) {}
}

/// Each pool has a number of machines, which others take and return, and which the cloud adds to and takes from.
struct Finite {
    random: Random,
    pools: Vec<FinitePool>,
}

struct FinitePool {
    machines: f64,
    /// Share of the machines that others use on average.
    demand: f64,
    used: f64,
}

impl Finite {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pools = (0..POOLS).map(|_| {
            let machines = random.between(8.0, 120.0);
            let demand = random.between(0.6, 1.15);
            FinitePool { machines, demand, used: machines * demand.min(1.0) }
        });
        let pools = pools.collect();
        Self { random, pools }
    }
}

impl CapacityProcess for Finite {
    fn pass(&mut self, seconds: f64) {
        for pool in &mut self.pools {
            // Machines are returned after an hour on average; others ask for as many as keep the demand.
            let (returned, wanted) = (pool.used * seconds / 3_600.0, pool.machines * pool.demand * seconds / 3_600.0);
            let noise = (returned + wanted).sqrt() * self.random.normal();
            pool.used = (pool.used + wanted - returned + noise).clamp(0.0, pool.machines);
            if self.random.chance(seconds / 14_400.0) {
                let refill = self.random.between(-0.15, 0.15) * pool.machines;
                pool.machines = (pool.machines + refill).clamp(4.0, 150.0);
                pool.used = pool.used.min(pool.machines);
            }
        }
    }

    fn available(&mut self, pool: usize) -> u32 {
        let pool = &self.pools[pool];
        (pool.machines - pool.used).max(0.0) as u32
    }

    fn take(&mut self, pool: usize, count: u32) {
        let pool = &mut self.pools[pool];
        pool.used = (pool.used + f64::from(count)).min(pool.machines);
    }
}

/// Demand follows the hour of the day; a zone and each pool drift besides, and now and then a whole zone is short.
struct Diurnal {
    random: Random,
    seconds: f64,
    zones: [DiurnalZone; ZONES],
    pools: Vec<DiurnalPool>,
}

#[derive(Default)]
struct DiurnalZone {
    drift: f64,
    /// Seconds left of a shortage.
    shortage: f64,
}

struct DiurnalPool {
    /// Room at average demand, as a logarithm of instances.
    room: f64,
    swing: f64,
    drift: f64,
}

impl Diurnal {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pools = (0..POOLS).map(|_| DiurnalPool {
            room: random.between(-0.5, 3.5),
            swing: random.between(0.3, 2.0),
            drift: 0.0,
        });
        let pools = pools.collect();
        Self { random, seconds: 0.0, zones: Default::default(), pools }
    }
}

/// One step of a drift that forgets half of itself in an hour and has this deviation.
fn drift(random: &mut Random, value: f64, seconds: f64, deviation: f64) -> f64 {
    let kept = (-seconds / 3_600.0).exp2();
    value * kept + deviation * (1.0 - kept * kept).sqrt() * random.normal()
}

impl CapacityProcess for Diurnal {
    fn pass(&mut self, seconds: f64) {
        self.seconds += seconds;
        for zone in &mut self.zones {
            zone.drift = drift(&mut self.random, zone.drift, seconds, 0.7);
            zone.shortage = (zone.shortage - seconds).max(0.0);
            if self.random.chance(seconds / 36_000.0) {
                zone.shortage += self.random.exponential(2_400.0);
            }
        }
        for pool in &mut self.pools {
            pool.drift = drift(&mut self.random, pool.drift, seconds, 0.7);
        }
    }

    fn available(&mut self, at: usize) -> u32 {
        let (pool, zone) = (&self.pools[at], &self.zones[zone_of(at)]);
        if zone.shortage > 0.0 && !self.random.chance(0.1) {
            return 0;
        }
        let hour = (self.seconds / 86_400.0 * std::f64::consts::TAU).sin();
        // Others ask at the same moment, so that two launches a second apart need not get the same.
        let moment = 0.5 * self.random.normal();
        (pool.room + zone.drift + pool.drift - pool.swing * hour + moment).exp() as u32
    }

    fn take(&mut self, _: usize, _: u32) {}
}
