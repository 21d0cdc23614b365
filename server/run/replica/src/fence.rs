//! Local lease expiry: whether a lease may still be acted on, by this process's own clocks.
//!
//! The database checks leases by its own clock and rejects writes under an expired epoch. A cloud
//! rejects nothing, so a process that was paused or could not renew must stop by itself before
//! another replica may begin. A lease is valid for its duration from the moment *before* it was
//! requested, less a margin. No action begins under an expired lease; a successful renewal makes it
//! valid again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use store::lease::Lease;

/// Fraction of the lease duration that is left unused (1/10): a call takes time to arrive, and
/// clocks run at slightly different rates.
const MARGIN_DIVISOR: u32 = 10;

/// Time since a fixed moment, by each clock.
type Clock = Box<dyn Fn() -> ClockReading + Send + Sync>;

/// A moment by the monotonic clock and by the wall clock. Suspending the machine may stop the
/// first; the second may be set either way. A lease has expired when either clock says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading([Duration; 2]);

impl ClockReading {
    /// Whether this moment lies after `now` by both clocks.
    fn is_after(&self, now: &Self) -> bool {
        now.0.iter().zip(self.0).all(|(now, until)| *now < until)
    }
}

/// Number of leases from which on a new lease prunes expired ones: clusters come and go, and
/// renewals add none.
const PRUNE_THRESHOLD: usize = 1_000;

pub struct Fence {
    clock: Clock,
    /// Epoch and end of validity by lease scope.
    until: Mutex<BTreeMap<String, (u64, ClockReading)>>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("until", &self.until).finish_non_exhaustive()
    }
}

/// A fence on this machine's clocks.
impl Default for Fence {
    fn default() -> Self {
        let started = Instant::now();
        Self::with_clocks(move || {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            [started.elapsed(), since_1970]
        })
    }
}

impl Fence {
    /// A fence on these clocks: monotonic and wall clock.
    pub fn with_clocks(clocks: impl Fn() -> [Duration; 2] + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(move || ClockReading(clocks())), until: Mutex::default() }
    }

    /// The current moment; take it before requesting a lease.
    pub fn now(&self) -> ClockReading {
        (self.clock)()
    }

    /// Time since `moment`, by the clock that counted more.
    pub fn since(&self, moment: ClockReading) -> Duration {
        let by_each = self.now().0.into_iter().zip(moment.0);
        by_each.map(|(now, then)| now.saturating_sub(then)).max().unwrap_or_default()
    }

    /// Extends `lease`, granted or renewed for `duration` by a call sent at `asked`.
    pub fn extend(&self, lease: &Lease, asked: ClockReading, duration: Duration) {
        let good = duration.saturating_sub(duration / MARGIN_DIVISOR);
        let until = ClockReading(asked.0.map(|clock| clock + good));
        let now = self.now();
        let mut leases = self.leases();
        if leases.len() >= PRUNE_THRESHOLD && !leases.contains_key(&lease.scope.key()) {
            leases.retain(|_, (_, until)| until.is_after(&now));
        }
        leases.insert(lease.scope.key(), (lease.epoch, until));
    }

    /// Ends `lease`, which this process releases or has lost: nothing begins under it any more.
    pub fn end(&self, lease: &Lease) {
        let mut leases = self.leases();
        // The scope may have been acquired again under a higher epoch.
        if leases.get(&lease.scope.key()).is_some_and(|(epoch, _)| *epoch == lease.epoch) {
            leases.remove(&lease.scope.key());
        }
    }

    /// Whether an action may begin under `lease`.
    pub fn allows(&self, lease: &Lease) -> bool {
        let now = self.now();
        let known = |(epoch, until): &(u64, ClockReading)| *epoch == lease.epoch && until.is_after(&now);
        self.leases().get(&lease.scope.key()).is_some_and(known)
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<String, (u64, ClockReading)>> {
        // Every critical section is one map operation, so a poisoned lock guards a consistent map.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use store::lease::Scope;

    /// A fence on a clock in seconds and a clock that does not advance.
    fn fence() -> (Fence, Arc<AtomicU64>) {
        let seconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&seconds);
        let read = move || Duration::from_secs(clock.load(Ordering::Relaxed));
        (Fence::with_clocks(move || [read(), Duration::from_secs(1_000)]), seconds)
    }

    #[test]
    fn expired_leases_are_pruned() {
        let (fence, seconds) = fence();
        let lease =
            |number: usize| Lease { scope: Scope::cluster(&format!("c{number}")), owner: "a".to_owned(), epoch: 1 };
        let take = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| fence.extend(&lease(number), fence.now(), Duration::from_secs(30)));
        };
        take(0..PRUNE_THRESHOLD);
        seconds.store(60, Ordering::Relaxed);
        take(PRUNE_THRESHOLD..PRUNE_THRESHOLD + 3);
        assert_eq!(fence.leases().len(), 3);
        assert!(fence.allows(&lease(PRUNE_THRESHOLD)) && !fence.allows(&lease(0)));
    }

    #[test]
    fn a_clock_that_was_set_forward_closes_the_fence_and_one_that_was_set_back_does_not_open_it() {
        let set = Arc::new(AtomicU64::new(1_000));
        let (clock, runs) = (Arc::clone(&set), Arc::new(AtomicU64::new(0)));
        let forward = Arc::clone(&runs);
        let seconds = |clock: &AtomicU64| Duration::from_secs(clock.load(Ordering::Relaxed));
        let fence = Fence::with_clocks(move || [seconds(&forward), seconds(&clock)]);
        fence.extend(&lease(1), fence.now(), DURATION);
        set.store(5_000, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
        set.store(10, Ordering::Relaxed);
        runs.store(27, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
    }

    fn lease(epoch: u64) -> Lease {
        Lease { scope: Scope::cluster("blue"), owner: "a".to_owned(), epoch }
    }

    const DURATION: Duration = Duration::from_secs(30);

    #[test]
    fn a_paused_process_finds_its_lease_expired() {
        let (fence, seconds) = fence();
        fence.extend(&lease(1), fence.now(), DURATION);
        assert!(fence.allows(&lease(1)));
        // 30 s less a tenth: valid until 27 s.
        seconds.store(26, Ordering::Relaxed);
        assert!(fence.allows(&lease(1)));
        seconds.store(27, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
        // Sabotage: on clocks that stand still, the lease never expires.
        let stopped = Fence::with_clocks(|| [Duration::from_secs(1_000); 2]);
        stopped.extend(&lease(1), stopped.now(), DURATION);
        assert!(stopped.allows(&lease(1)));
    }

    #[test]
    fn a_lease_is_valid_from_the_request_not_from_the_answer() {
        let (fence, seconds) = fence();
        let asked = fence.now();
        seconds.store(20, Ordering::Relaxed);
        fence.extend(&lease(1), asked, DURATION);
        seconds.store(28, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
    }

    #[test]
    fn nothing_begins_under_a_lease_that_was_ended_and_a_later_one_is_not_ended_with_it() {
        let (fence, _) = fence();
        fence.extend(&lease(1), fence.now(), DURATION);
        fence.end(&lease(1));
        assert!(!fence.allows(&lease(1)));
        fence.extend(&lease(2), fence.now(), DURATION);
        fence.end(&lease(1));
        assert!(fence.allows(&lease(2)));
    }

    #[test]
    fn a_lease_that_was_never_granted_or_has_another_epoch_allows_nothing() {
        let (fence, _) = fence();
        assert!(!fence.allows(&lease(1)));
        fence.extend(&lease(2), fence.now(), DURATION);
        assert!(!fence.allows(&lease(1)) && fence.allows(&lease(2)));
    }
}
