//! Back-off after replacements that failed: their NodePool begins no other one for a while, and their
//! machine is tried after others of its NodePool.
//!
//! A machine whose pods fit nowhere would otherwise keep the budget of its NodePool for itself, and
//! launch machines for nothing (L7).

use std::collections::BTreeMap;

use cluster::replacement::ReplacementWait;
use model::{ClaimName, Millis, PoolName, Timestamp};

/// Wait after the first failure of a NodePool.
pub(crate) const FIRST_WAIT: Millis = Millis::from_mins(1);
/// Longest wait; each failure doubles it.
pub(crate) const LONGEST_WAIT: Millis = Millis::from_mins(10);

/// Replacements of one cluster that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReplacementBackoff {
    pools: BTreeMap<PoolName, ReplacementWait>,
    /// Number of failures of each machine.
    failures: BTreeMap<ClaimName, u32>,
}

impl ReplacementBackoff {
    /// Records that the replacement of the machine of `claim` failed. Failures while the NodePool waits
    /// already, such as those of one plan, do not make it wait longer.
    pub fn record_failure(&mut self, pool: &PoolName, claim: &ClaimName, now: Timestamp) {
        *self.failures.entry(claim.clone()).or_default() += 1;
        let wait = match self.pools.get(pool) {
            Some(waiting) if waiting.until > now => return,
            Some(earlier) => (earlier.wait * 2).min(LONGEST_WAIT),
            None => FIRST_WAIT,
        };
        self.pools.insert(pool.clone(), ReplacementWait { wait, until: now + wait });
    }

    /// Records that a machine of `pool` was replaced.
    pub fn record_success(&mut self, pool: &PoolName, claim: &ClaimName) {
        self.pools.remove(pool);
        self.failures.remove(claim);
    }

    /// The wait of each NodePool after its last failure, over or not.
    pub fn waits(&self) -> &BTreeMap<PoolName, ReplacementWait> {
        &self.pools
    }

    /// Restores the wait of `pool` as the previous owner of the cluster recorded it.
    pub fn restore(&mut self, pool: PoolName, wait: ReplacementWait) {
        self.pools.entry(pool).or_insert(wait);
    }

    /// When `pool` may begin replacements again; `None` when it may now.
    pub fn until(&self, pool: &PoolName, now: Timestamp) -> Option<Timestamp> {
        self.pools.get(pool).map(|waiting| waiting.until).filter(|until| *until > now)
    }

    /// Number of failures of the machine of `claim`.
    pub fn failures_of(&self, claim: &ClaimName) -> u32 {
        self.failures.get(claim).copied().unwrap_or(0)
    }

    /// Forgets machines and NodePools that do not exist any more.
    pub fn retain(&mut self, has_claim: impl Fn(&ClaimName) -> bool, has_pool: impl Fn(&PoolName) -> bool) {
        self.failures.retain(|claim, _| has_claim(claim));
        self.pools.retain(|pool, _| has_pool(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000)
    }

    #[test]
    fn the_wait_of_a_pool_doubles_from_one_minute_to_ten() {
        let (pool, claim) = (PoolName::from("p"), ClaimName::from("m0"));
        let mut backoff = ReplacementBackoff::default();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..6 {
            backoff.record_failure(&pool, &claim, at(now));
            let until = backoff.until(&pool, at(now)).unwrap();
            waits.push(until.duration_since(at(now)).as_mins());
            now = until.as_millis() / 60_000;
            assert_eq!(backoff.until(&pool, at(now)), None, "the wait is over");
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.failures_of(&claim), 6);
        backoff.record_success(&pool, &claim);
        backoff.record_failure(&pool, &claim, at(100));
        assert_eq!(backoff.until(&pool, at(100)), Some(at(101)));
    }

    #[test]
    fn failures_of_one_plan_count_once_for_their_pool_and_not_for_others() {
        let mut backoff = ReplacementBackoff::default();
        for claim in ["m0", "m1", "m2"] {
            backoff.record_failure(&"p".into(), &claim.into(), at(0));
        }
        assert_eq!(backoff.until(&"p".into(), at(0)), Some(at(1)));
        assert_eq!(backoff.until(&"q".into(), at(0)), None);
        backoff.retain(|claim| claim.as_ref() == "m1", |_| false);
        assert_eq!((backoff.failures_of(&"m0".into()), backoff.failures_of(&"m1".into())), (0, 1));
        assert_eq!(backoff.until(&"p".into(), at(0)), None);
    }
}
