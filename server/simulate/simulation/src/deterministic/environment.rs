//! What all processes share: cloud, store, the virtual clock, active faults and the ground-truth
//! ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::provider::{CloudError, Instance};
use cloud::simulated::{CapacityShortage, SeededRng, SimulatedCloud};
use futures::future::FutureExt;
use model::{ClaimName, ClusterName, Millis, Text, Timestamp, Zone};

use super::fault::FaultCounts;
use super::virtual_time::{Sleep, VirtualClock};
use store::Store;
use store::memory::MemoryStore;

pub(super) const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// Planning time, least and most, in milliseconds.
const PLAN_MS: (i64, i64) = (0, 400);

/// A freeze takes effect on every replica within this, unless the store fails.
const FREEZE_PROPAGATION: Millis = Millis::from_secs(1);

/// A fault of store or cloud that lasts for a while; its size has the unit given here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EnvironmentFault {
    StoreDown,
    /// In percent of all answers.
    StoreAmbiguous,
    /// In milliseconds.
    StoreSlow,
    /// In percent of all answers.
    CloudLost,
    CloudThrottles,
    /// In milliseconds.
    StaleLists,
    PartialLists,
    /// In percent of all instances.
    IncompleteLists,
    LaunchesRefused,
    NoCapacity,
    /// The index of the zone.
    ZoneEmpty,
}

/// One generation of a process: a restart increments it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId {
    pub(super) process: usize,
    pub(super) generation: u32,
}

/// A call that changes something at the cloud.
#[derive(Debug, Clone)]
pub(super) struct CloudCall {
    pub(super) by: ProcessId,
    pub(super) cluster: ClusterName,
    pub(super) what: CloudAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CloudAction {
    Launch { claim: ClaimName },
    Terminate { id: Text },
}

/// Owner of a cluster's lease, according to the store's answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseOwner {
    pub(super) by: ProcessId,
    pub(super) epoch: u64,
}

#[derive(Debug, Clone)]
pub(super) struct LaunchEnd {
    /// The process that received the answer.
    pub(super) by: ProcessId,
    pub(super) cluster: ClusterName,
    pub(super) at: Timestamp,
    pub(super) failed: bool,
    /// Since when other processes can read of it.
    pub(super) published_at: Option<Timestamp>,
}

/// Ground truth for the checkers: what store, cloud and processes did.
#[derive(Debug, Default)]
pub(super) struct EnvironmentLedger {
    pub(super) calls: Vec<CloudCall>,
    /// Since when the fleet is frozen on every replica.
    pub(super) frozen_since: Option<Timestamp>,
    /// Until when a store fault is active.
    pub(super) store_faulty_until: Timestamp,
    /// Clusters with a voluntary launch or removal decided while the fleet was frozen.
    pub(super) decided_frozen: BTreeSet<ClusterName>,
    /// Outcomes of launches that some process received.
    pub(super) outcomes: Vec<LaunchEnd>,
    /// Clusters with a removal decided by a process whose launches fail.
    pub(super) removed_despite_failures: BTreeSet<ClusterName>,
    /// Clusters with a removal decided by a process that had read of the failing launches of
    /// others.
    pub(super) removed_despite_remote_failures: BTreeSet<ClusterName>,
    pub(super) decided: BTreeSet<(ProcessId, u64)>,
    /// Clusters with a write that the store took under an expired epoch.
    pub(super) late_writes: BTreeSet<ClusterName>,
    pub(super) held: BTreeMap<ClusterName, LeaseOwner>,
    /// Extra planning time of clusters in milliseconds, and until when.
    pub(super) slow_plans: BTreeMap<ClusterName, (Timestamp, i64)>,
    /// How often each fault affected a call.
    pub(super) effects: FaultCounts,
}

/// Cloud, store and faults.
pub(super) struct Environment {
    pub(super) clock_source: Arc<VirtualClock>,
    store: MemoryStore,
    cloud: Mutex<SimulatedCloud>,
    active_faults: Mutex<BTreeMap<EnvironmentFault, (Timestamp, i64)>>,
    ledger: Mutex<EnvironmentLedger>,
    /// Past listings, latest last.
    pub(super) listing_history: Mutex<Vec<(Timestamp, Vec<Instance>)>>,
    rng: SeededRng,
    draws: AtomicU64,
}

impl Environment {
    pub(super) fn new(seed: u64, clock_source: Arc<VirtualClock>, cloud: SimulatedCloud) -> Self {
        let clock = Arc::clone(&clock_source);
        let since_start = move || Duration::from_millis(clock.now().as_millis().unsigned_abs());
        Self {
            store: MemoryStore::with_clock(since_start),
            clock_source,
            cloud: Mutex::new(cloud),
            active_faults: Mutex::default(),
            ledger: Mutex::default(),
            listing_history: Mutex::default(),
            rng: SeededRng::new(seed).child("outside"),
            draws: AtomicU64::new(0),
        }
    }

    pub(super) fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Empties the store.
    pub(super) fn wipe_store(&self) {
        self.store.wipe();
        self.ledger().outcomes.iter_mut().for_each(|ended| ended.published_at = None);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock_source.now()
    }

    pub(super) fn cloud(&self) -> MutexGuard<'_, SimulatedCloud> {
        locked(&self.cloud)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, EnvironmentLedger> {
        locked(&self.ledger)
    }

    /// A random generator of its own for each draw.
    pub(super) fn next_rng(&self) -> SeededRng {
        self.rng.child_number(self.draws.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn delay(&self, range: (i64, i64)) -> Sleep {
        self.clock_source.sleep(self.next_rng().between(range))
    }

    /// Planning time for `cluster`.
    pub(super) fn planning_ms(&self, cluster: &ClusterName) -> i64 {
        let slow = self.ledger().slow_plans.get(cluster).copied();
        let more = slow.filter(|(until, _)| *until > self.now()).map_or(0, |(_, by_ms)| by_ms);
        self.next_rng().between(PLAN_MS).saturating_add(more)
    }

    /// Starts `fault`; of two overlapping ones the later end and the larger size apply.
    pub(super) fn start_fault(&self, fault: EnvironmentFault, until: Timestamp, size: i64) {
        if matches!(fault, EnvironmentFault::StoreDown | EnvironmentFault::StoreSlow | EnvironmentFault::StoreAmbiguous)
        {
            let mut ledger = self.ledger();
            ledger.store_faulty_until = ledger.store_faulty_until.max(until);
        }
        let mut active_faults = locked(&self.active_faults);
        let known = active_faults.entry(fault).or_insert((until, size));
        *known = (known.0.max(until), known.1.max(size));
    }

    /// Notes that a freeze began or ended; of two overlapping freezes the last one ends it.
    pub(super) fn freeze_changed(&self, frozen: bool) {
        let still = self.store().freezes().now_or_never().and_then(Result::ok).is_some_and(|all| !all.is_empty());
        let mut ledger = self.ledger();
        ledger.frozen_since = match ledger.frozen_since {
            _ if !still => None,
            None if frozen => Some(self.now()),
            known => known,
        };
    }

    /// Checks a decision that a process records against the freeze.
    pub(super) fn check_frozen_decision(&self, by: ProcessId, cluster: &ClusterName, number: u64) {
        let now = self.now();
        let mut ledger = self.ledger();
        let (propagated, faulty_until) = (ledger.frozen_since, ledger.store_faulty_until);
        let propagated = propagated.filter(|since| {
            *since > faulty_until && now.duration_since(*since) > FREEZE_PROPAGATION && now > faulty_until
        });
        if ledger.decided.insert((by, number)) && propagated.is_some() {
            ledger.decided_frozen.insert(cluster.clone());
        }
    }

    /// Size of a fault if it is active.
    pub(super) fn active_fault(&self, fault: EnvironmentFault) -> Option<i64> {
        locked(&self.active_faults).get(&fault).filter(|(until, _)| *until > self.now()).map(|(_, size)| *size)
    }

    /// Whether `fault` affects this call, for faults with a percentage.
    pub(super) fn fault_hits(&self, fault: EnvironmentFault) -> bool {
        let percent = self.active_fault(fault).and_then(|percent| u32::try_from(percent).ok());
        percent.is_some_and(|percent| self.next_rng().percent(percent))
    }

    /// Sets the cloud's capacity according to the active faults.
    pub(super) fn apply_capacity_faults(&self) {
        let none = self.active_fault(EnvironmentFault::NoCapacity).is_some();
        let zone = self.active_fault(EnvironmentFault::ZoneEmpty).and_then(|zone| usize::try_from(zone).ok());
        let zone = zone.and_then(|zone| ZONES.get(zone)).map(|zone| Zone::from(*zone));
        let mut cloud = self.cloud();
        cloud.faults_mut().no_capacity = none;
        let shortage = |zone| CapacityShortage { zone: Some(zone), ..CapacityShortage::default() };
        cloud.faults_mut().shortages = zone.map(shortage).into_iter().collect();
    }

    /// Counts a call that a fault affected.
    pub(super) fn count_effect(&self, what: &'static str) {
        *self.ledger().effects.entry(what).or_default() += 1;
    }
}

/// A run is single-threaded and nothing panics while holding a lock.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Environment {
    /// The cloud's current listing: complete, stale, or incomplete.
    ///
    /// # Errors
    /// When the listing fails halfway.
    pub(super) fn listing(&self) -> Result<Vec<Instance>, CloudError> {
        if self.active_fault(EnvironmentFault::PartialLists).is_some() {
            self.count_effect("lists broken off");
            return Err(CloudError::Unknown { operation: Text::from("the listing") });
        }
        let now = self.now();
        if let Some(lag) = self.active_fault(EnvironmentFault::StaleLists) {
            self.count_effect("lists stale");
            let then = now - Millis::new(lag);
            let listing_history = locked(&self.listing_history);
            let old = listing_history.iter().rev().find(|(at, _)| *at <= then).map(|(_, list)| list.clone());
            return Ok(old.unwrap_or_default());
        }
        let truth = self.existing_instances();
        let Some(percent) = self.active_fault(EnvironmentFault::IncompleteLists) else { return Ok(truth) };
        self.count_effect("lists lacking");
        // The same instances are missing for as long as the fault lasts.
        let is_missing = |instance: &Instance| self.rng.child(&instance.id).value() % 100 < percent.unsigned_abs();
        Ok(truth.into_iter().filter(|instance| !is_missing(instance)).collect())
    }

    /// Every instance that has not terminated.
    pub(super) fn existing_instances(&self) -> Vec<Instance> {
        let cloud = self.cloud();
        let alive = cloud.ledger().active().map(|entry| entry.instance.id.clone());
        alive.filter_map(|id| cloud.describe(&id).ok().cloned()).collect()
    }

    /// Stores the complete listing of this moment.
    pub(super) fn remember_listing(&self) {
        let truth = self.existing_instances();
        locked(&self.listing_history).push((self.now(), truth));
    }
}
