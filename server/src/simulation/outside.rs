//! What all processes share: the cloud, the store, and what is wrong with either at the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::provider::{CloudError, Instance};
use cloud::simulated::{CapacityShortage, SeededRng, SimulatedCloud};
use engine::control::ClusterId;
use engine::model::{Text, Timestamp};
use futures::future::FutureExt;

use super::clockwork::{Clockwork, Nap};
use super::fault::Counts;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// Zones of the cloud.
pub(super) const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// What a plan takes, least and most, in milliseconds.
const PLAN_MS: (i64, i64) = (0, 400);

/// A freeze is effective on every replica after this, in milliseconds, as long as the store answers.
const HEARD_MS: i64 = 1_000;

/// A trouble that lasts a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    StoreDown,
    /// In percent of all answers.
    StoreAmbiguous,
    /// By so many milliseconds.
    StoreSlow,
    /// In percent of all answers.
    CloudLost,
    CloudThrottles,
    /// By so many milliseconds.
    StaleLists,
    PartialLists,
    /// In percent of all machines.
    LackingLists,
    LaunchesRefused,
    NoCapacity,
    /// In the zone of this number.
    ZoneEmpty,
}

/// A process, named so that its next incarnation is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Incarnation {
    pub(super) process: usize,
    pub(super) life: u32,
}

/// A call that reached the cloud and changes something there.
#[derive(Debug, Clone)]
pub(super) struct CloudCall {
    /// Whose call.
    pub(super) by: Incarnation,
    pub(super) cluster: ClusterId,
    /// The NodeClaim, for launches; the machine's id, for terminations.
    pub(super) what: Act,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Launch { claim: Text },
    Terminate { id: Text },
}

/// Who holds a cluster's lease, by what the store has answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) by: Incarnation,
    pub(super) epoch: u64,
}

/// How a launch ended.
#[derive(Debug, Clone)]
pub(super) struct LaunchEnd {
    /// The process that was told.
    pub(super) by: Incarnation,
    /// Where it was to come.
    pub(super) cluster: ClusterId,
    /// When it was.
    pub(super) at: Timestamp,
    /// There is no machine.
    pub(super) failed: bool,
    /// Since when others can read of it.
    pub(super) told: Option<Timestamp>,
}

/// What happened outside, for those who check.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) calls: Vec<CloudCall>,
    /// Since when the fleet is frozen, as far as everybody can have heard.
    pub(super) frozen_since: Option<Timestamp>,
    /// Until when the store was in trouble.
    pub(super) store_troubled_until: Timestamp,
    /// Decisions to launch or to remove that were made although the fleet was frozen: by cluster.
    pub(super) decided_frozen: BTreeSet<ClusterId>,
    /// How launches ended, as far as anybody was told.
    pub(super) outcomes: Vec<LaunchEnd>,
    /// Clusters in which a removal was decided by a process whose launches failed.
    pub(super) removed_failing: BTreeSet<ClusterId>,
    /// Clusters in which a removal was decided by a process that had heard how the launches of others fail.
    pub(super) removed_failing_elsewhere: BTreeSet<ClusterId>,
    /// Decisions that were seen.
    pub(super) decided: BTreeSet<(Incarnation, u64)>,
    /// Clusters for which the store took a write under an epoch that was over.
    pub(super) late_writes: BTreeSet<ClusterId>,
    pub(super) held: BTreeMap<ClusterId, Held>,
    /// By how many milliseconds plans for a cluster take longer, and until when.
    pub(super) slow_plans: BTreeMap<ClusterId, (Timestamp, i64)>,
    /// How often each trouble was felt.
    pub(super) felt: Counts,
}

/// The outside of all processes.
pub(super) struct Outside {
    pub(super) clockwork: Arc<Clockwork>,
    /// The store, and the one that it is after it has forgotten everything.
    stores: [MemoryStore; 2],
    forgot: AtomicUsize,
    cloud: Mutex<SimulatedCloud>,
    troubles: Mutex<BTreeMap<Trouble, (Timestamp, i64)>>,
    books: Mutex<Books>,
    /// What the listing showed a while ago, latest last.
    pub(super) shown: Mutex<Vec<(Timestamp, Vec<Instance>)>>,
    dice: SeededRng,
    asked: AtomicU64,
}

impl Outside {
    pub(super) fn new(seed: u64, clockwork: Arc<Clockwork>, cloud: SimulatedCloud) -> Self {
        let clock = Arc::clone(&clockwork);
        let since_start = move || Duration::from_millis(clock.now().0.unsigned_abs());
        Self {
            stores: [MemoryStore::on(since_start.clone()), MemoryStore::on(since_start)],
            forgot: AtomicUsize::new(0),
            clockwork,
            cloud: Mutex::new(cloud),
            troubles: Mutex::default(),
            books: Mutex::default(),
            shown: Mutex::default(),
            dice: SeededRng::new(seed).child("outside"),
            asked: AtomicU64::new(0),
        }
    }

    pub(super) fn store(&self) -> &MemoryStore {
        &self.stores[self.forgot.load(Ordering::Relaxed)]
    }

    /// The store forgets everything, once.
    pub(super) fn forget(&self) {
        self.forgot.store(1, Ordering::Relaxed);
        self.books().outcomes.iter_mut().for_each(|ended| ended.told = None);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clockwork.now()
    }

    pub(super) fn cloud(&self) -> MutexGuard<'_, SimulatedCloud> {
        locked(&self.cloud)
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        locked(&self.books)
    }

    /// A die of its own for each question.
    pub(super) fn die(&self) -> SeededRng {
        self.dice.child_number(self.asked.fetch_add(1, Ordering::Relaxed))
    }

    /// One way, for as long as chance wills.
    pub(super) fn travel(&self, range: (i64, i64)) -> Nap {
        self.clockwork.nap(self.die().between(range))
    }

    /// How long a plan for `cluster` takes.
    pub(super) fn planning_ms(&self, cluster: &ClusterId) -> i64 {
        let slow = self.books().slow_plans.get(cluster).copied();
        let more = slow.filter(|(until, _)| *until > self.now()).map_or(0, |(_, by_ms)| by_ms);
        self.die().between(PLAN_MS).saturating_add(more)
    }

    /// `trouble` lasts until then, the longer of two at once.
    pub(super) fn trouble(&self, trouble: Trouble, until: Timestamp, size: i64) {
        if matches!(trouble, Trouble::StoreDown | Trouble::StoreSlow | Trouble::StoreAmbiguous) {
            let mut books = self.books();
            books.store_troubled_until = books.store_troubled_until.max(until);
        }
        let mut troubles = locked(&self.troubles);
        let known = troubles.entry(trouble).or_insert((until, size));
        *known = (known.0.max(until), known.1.max(size));
    }

    /// The fleet is frozen, or not any more; of two freezes at one time the last one ends it.
    pub(super) fn freeze_changed(&self, frozen: bool) {
        let still = self.store().freezes().now_or_never().and_then(Result::ok).is_some_and(|all| !all.is_empty());
        let mut books = self.books();
        books.frozen_since = match books.frozen_since {
            _ if !still => None,
            None if frozen => Some(self.now()),
            known => known,
        };
    }

    /// A process asks for `entry` to be written down.
    pub(super) fn decided(&self, by: Incarnation, cluster: &str, number: u64) {
        let now = self.now();
        let mut books = self.books();
        let (heard, quiet) = (books.frozen_since, books.store_troubled_until);
        let heard = heard.filter(|since| *since > quiet && now.millis_since(*since) > HEARD_MS && now > quiet);
        if books.decided.insert((by, number)) && heard.is_some() {
            books.decided_frozen.insert(Text::from(cluster));
        }
    }

    /// How large a trouble is at the moment, if it is there.
    pub(super) fn suffers(&self, trouble: Trouble) -> Option<i64> {
        locked(&self.troubles).get(&trouble).filter(|(until, _)| *until > self.now()).map(|(_, size)| *size)
    }

    /// Whether `trouble` strikes now, if it strikes in a percentage of all cases.
    pub(super) fn strikes(&self, trouble: Trouble) -> bool {
        let percent = self.suffers(trouble).and_then(|percent| u32::try_from(percent).ok());
        percent.is_some_and(|percent| self.die().percent(percent))
    }

    /// The cloud sells what the troubles of the moment leave.
    pub(super) fn stock(&self) {
        let none = self.suffers(Trouble::NoCapacity).is_some();
        let zone = self.suffers(Trouble::ZoneEmpty).and_then(|zone| usize::try_from(zone).ok());
        let zone = zone.and_then(|zone| ZONES.get(zone)).map(|zone| Text::from(*zone));
        let mut cloud = self.cloud();
        cloud.weather_mut().no_capacity = none;
        let shortage = |zone| CapacityShortage { zone: Some(zone), ..CapacityShortage::default() };
        cloud.weather_mut().shortages = zone.map(shortage).into_iter().collect();
    }

    /// Counts a trouble that was felt.
    pub(super) fn felt(&self, what: &'static str) {
        *self.books().felt.entry(what).or_default() += 1;
    }
}

/// Nothing panics while it holds one of these locks; a run is one thread.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outside {
    /// What the cloud's listing shows at the moment: the truth, the truth of a while ago, or nothing whole.
    ///
    /// # Errors
    /// When the listing broke off.
    pub(super) fn listing(&self) -> Result<Vec<Instance>, CloudError> {
        if self.suffers(Trouble::PartialLists).is_some() {
            self.felt("lists broken off");
            return Err(CloudError::Unknown { operation: Text::from("the listing") });
        }
        let now = self.now();
        if let Some(lag) = self.suffers(Trouble::StaleLists) {
            self.felt("lists stale");
            let then = now.0.saturating_sub(lag);
            let shown = locked(&self.shown);
            let old = shown.iter().rev().find(|(at, _)| at.0 <= then).map(|(_, list)| list.clone());
            return Ok(old.unwrap_or_default());
        }
        let truth = self.truth();
        let Some(percent) = self.suffers(Trouble::LackingLists) else { return Ok(truth) };
        self.felt("lists lacking");
        // The same machines for as long as it lasts.
        let lacks = |instance: &Instance| self.dice.child(&instance.id).value() % 100 < percent.unsigned_abs();
        Ok(truth.into_iter().filter(|instance| !lacks(instance)).collect())
    }

    /// Every machine that is not gone.
    fn truth(&self) -> Vec<Instance> {
        let cloud = self.cloud();
        let alive = cloud.book().alive().map(|entry| entry.instance.id.clone());
        alive.filter_map(|id| cloud.describe(&id).ok().cloned()).collect()
    }

    /// Remembers what the listing would show at this moment.
    pub(super) fn remember_listing(&self) {
        let truth = self.truth();
        locked(&self.shown).push((self.now(), truth));
    }
}
