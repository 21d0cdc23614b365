//! Whether a lease may still be acted on, by this process's own clock.
//!
//! The database judges leases by its clock, and refuses writes under one that has passed on. A cloud refuses nothing: so a
//! process that was paused, or that could not renew, must stop by itself before anybody else may begin. A lease is good for
//! its duration from the moment *before* it was asked for, less a margin; what has run out is begun by nobody, and a
//! renewal that succeeds opens it again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::store::lease::Lease;

/// Of a lease's duration, this part is left unused: a call that was begun takes time to arrive, and clocks run at slightly
/// different speeds.
const MARGIN_PART: u32 = 10;

/// Time since a moment that never changes, by each clock.
type Clock = Box<dyn Fn() -> Moment + Send + Sync>;

/// A moment by the clock that only runs forward, and by the one that people set. A machine that was suspended may have
/// stopped the first; the second may be moved either way. A lease has run out when either says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment([Duration; 2]);

impl Moment {
    /// By both clocks.
    fn is_ahead_of(&self, now: &Self) -> bool {
        now.0.iter().zip(self.0).all(|(now, until)| *now < until)
    }
}

/// From so many leases on, those that have run out are forgotten when another one is taken: clusters come and go, and a renewal
/// takes none.
const PRUNED_FROM: usize = 1_000;

/// What is known of the leases of this process.
pub(crate) struct Fence {
    clock: Clock,
    /// Until when each lease is good: its epoch, and the moment. By scope.
    until: Mutex<BTreeMap<String, (u64, Moment)>>,
    /// Switched off, nothing stops a process that woke up. For tests that show what follows.
    stands: bool,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Fence {
    /// A fence by this machine's clocks.
    pub(crate) fn new() -> Self {
        let started = Instant::now();
        Self::on(move || {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            [started.elapsed(), since_1970]
        })
    }

    /// A fence by these clocks: one that only runs forward, and one that people set.
    pub(crate) fn on(clocks: impl Fn() -> [Duration; 2] + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(move || Moment(clocks())), until: Mutex::default(), stands: true }
    }

    /// The same, switched off.
    pub(crate) fn without(self) -> Self {
        Self { stands: false, ..self }
    }

    /// The moment: to be taken before a lease is asked for.
    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// How long ago a moment was, by the clock that says the more.
    pub(crate) fn since(&self, moment: Moment) -> Duration {
        let by_each = self.now().0.into_iter().zip(moment.0);
        by_each.map(|(now, then)| now.saturating_sub(then)).max().unwrap_or_default()
    }

    /// `lease` was granted or prolonged for `duration` by a question that was asked at `asked`.
    pub(crate) fn extend(&self, lease: &Lease, asked: Moment, duration: Duration) {
        let good = duration.saturating_sub(duration / MARGIN_PART);
        let until = Moment(asked.0.map(|clock| clock + good));
        let now = self.now();
        let mut leases = self.leases();
        if leases.len() >= PRUNED_FROM && !leases.contains_key(&lease.scope.key()) {
            leases.retain(|_, (_, until)| until.is_ahead_of(&now));
        }
        leases.insert(lease.scope.key(), (lease.epoch, until));
    }

    /// Whether something may be begun under `lease`.
    pub(crate) fn allows(&self, lease: &Lease) -> bool {
        let now = self.now();
        let known = |(epoch, until): &(u64, Moment)| *epoch == lease.epoch && until.is_ahead_of(&now);
        !self.stands || self.leases().get(&lease.scope.key()).is_some_and(known)
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<String, (u64, Moment)>> {
        // Every change is one step, so a panic elsewhere does not spoil it.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::lease::Scope;

    /// A fence by a clock in seconds, and by one that stands still.
    fn fence() -> (Fence, Arc<AtomicU64>) {
        let seconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&seconds);
        let read = move || Duration::from_secs(clock.load(Ordering::Relaxed));
        (Fence::on(move || [read(), Duration::from_secs(1_000)]), seconds)
    }

    #[test]
    fn leases_that_have_run_out_are_forgotten() {
        let (fence, seconds) = fence();
        let lease =
            |number: usize| Lease { scope: Scope::cluster(&format!("c{number}")), owner: "a".to_owned(), epoch: 1 };
        let take = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| fence.extend(&lease(number), fence.now(), Duration::from_secs(30)));
        };
        take(0..PRUNED_FROM);
        seconds.store(60, Ordering::Relaxed);
        take(PRUNED_FROM..PRUNED_FROM + 3);
        assert_eq!(fence.leases().len(), 3);
        assert!(fence.allows(&lease(PRUNED_FROM)) && !fence.allows(&lease(0)));
    }

    #[test]
    fn a_clock_that_was_set_forward_closes_the_fence_and_one_that_was_set_back_does_not_open_it() {
        let set = Arc::new(AtomicU64::new(1_000));
        let (clock, runs) = (Arc::clone(&set), Arc::new(AtomicU64::new(0)));
        let forward = Arc::clone(&runs);
        let seconds = |clock: &AtomicU64| Duration::from_secs(clock.load(Ordering::Relaxed));
        let fence = Fence::on(move || [seconds(&forward), seconds(&clock)]);
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
    fn a_process_that_was_paused_finds_its_lease_run_out() {
        let (fence, seconds) = fence();
        fence.extend(&lease(1), fence.now(), DURATION);
        assert!(fence.allows(&lease(1)));
        // 30 s less a tenth: it is good until 27 s.
        seconds.store(26, Ordering::Relaxed);
        assert!(fence.allows(&lease(1)));
        seconds.store(27, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
        assert!(fence.without().allows(&lease(1)), "switched off, it would have acted");
    }

    #[test]
    fn a_slow_answer_counts_from_the_question() {
        let (fence, seconds) = fence();
        let asked = fence.now();
        seconds.store(20, Ordering::Relaxed);
        fence.extend(&lease(1), asked, DURATION);
        seconds.store(28, Ordering::Relaxed);
        assert!(!fence.allows(&lease(1)));
    }

    #[test]
    fn a_lease_that_was_never_granted_or_has_another_epoch_allows_nothing() {
        let (fence, _) = fence();
        assert!(!fence.allows(&lease(1)));
        fence.extend(&lease(2), fence.now(), DURATION);
        assert!(!fence.allows(&lease(1)) && fence.allows(&lease(2)));
    }
}
