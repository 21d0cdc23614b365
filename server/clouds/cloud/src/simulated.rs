//! A simulated cloud: launches, boots, interrupts and terminates instances by a seed, on the
//! caller's clock.
//!
//! [`SimulatedCloud`] is a state machine: every call has the time as a parameter, and
//! [`SimulatedCloud::tick`] advances the time and returns events. Equal seeds, calls and times give
//! equal results. [`ClockedCloud`] implements the provider interface on top. The [`Ledger`] records
//! what was done, independent of any observer.
//!
//! Reading order: [`fault_profile`] (faults), [`seeded_rng`] (randomness), [`ledger`], [`journal`] (changes),
//! [`placement`] (launches for another interface), [`clocked`].

pub mod clocked;
pub mod fault_profile;
pub mod journal;
pub mod ledger;
pub mod placement;
pub mod seeded_rng;

use std::collections::{BTreeMap, BTreeSet};

use model::interruption::InterruptionKind;
use model::node_class::{NodeClassQuery, NodeClassStatus, RESOLVED_CONDITIONS, Resolution, ResolvedNodeClass};
use model::offering::SharedCatalogue;
use model::{CapacityType, ClusterName, MicroUsd, Millis, ProviderId, Text, Timestamp};

use crate::provider::{
    CloudError, CloudEvent, Instance, InstanceDetails, InstanceState, LaunchOutcome, LaunchRequest, MAX_OVERRIDES,
    Override, Owner, instance_id,
};
pub use clocked::ClockedCloud;
pub use fault_profile::{CapacityShortage, FaultProfile, TokenBucket};
use journal::Journal;
pub use journal::{ChangeKind, InstanceChange};
pub use ledger::{Ledger, LedgerEntry};
pub use placement::Placement;
pub use seeded_rng::SeededRng;

/// Time between interruption notice and reclaim of an instance (EC2: two minutes).
pub const INTERRUPTION_NOTICE: Millis = Millis::from_mins(2);

/// Time between the announcement of maintenance and the retirement of the instance. EC2 announces it days
/// before; a simulated run is shorter.
pub const MAINTENANCE_NOTICE: Millis = Millis::from_mins(30);

/// A simulated cloud.
#[derive(Debug)]
pub struct SimulatedCloud {
    faults: FaultProfile,
    rng: SeededRng,
    rate_limit: TokenBucket,
    catalogue: Option<SharedCatalogue>,
    instances: BTreeMap<Text, Instance>,
    /// Ids of instances by cluster.
    by_cluster: BTreeMap<ClusterName, BTreeSet<Text>>,
    /// Request and instance of each token of a cluster.
    tokens: BTreeMap<(ClusterName, Text), (LaunchRequest, Text)>,
    /// Scheduled events: time, instance, event.
    event_queue: BTreeSet<(Timestamp, Text, NextEvent)>,
    ledger: Ledger,
    journal: Journal,
    launched: u64,
    asked: u64,
}

/// A scheduled event of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NextEvent {
    Boot,
    Interrupt(InterruptionKind),
    TakeBack,
    End,
}

/// Resolves an EC2NodeClass in a simulated cloud, which needs no resource: every condition is met, and
/// the status stays as it is.
#[must_use]
pub fn resolve_node_class(query: &NodeClassQuery) -> ResolvedNodeClass {
    let conditions = RESOLVED_CONDITIONS.map(|kind| (kind, Resolution::Met)).into();
    ResolvedNodeClass { status: NodeClassStatus::clone(&query.status), conditions, ..ResolvedNodeClass::default() }
}

impl SimulatedCloud {
    /// A cloud with the given fault profile. With a catalogue it launches only its offerings, and
    /// the ledger has prices.
    #[must_use]
    pub fn new(faults: FaultProfile, catalogue: Option<SharedCatalogue>) -> Self {
        Self {
            rng: SeededRng::new(faults.seed),
            rate_limit: faults.calls,
            faults,
            catalogue,
            instances: BTreeMap::new(),
            by_cluster: BTreeMap::new(),
            tokens: BTreeMap::new(),
            event_queue: BTreeSet::new(),
            ledger: Ledger::default(),
            journal: Journal::default(),
            launched: 0,
            asked: 0,
        }
    }

    /// Launches one instance at `now`.
    ///
    /// # Errors
    /// As [`CloudProvider::launch`](crate::provider::CloudProvider::launch).
    pub fn launch(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<LaunchOutcome, CloudError> {
        self.check_rate_limit(now)?;
        let lost = |before: bool| {
            let roll = self.rng.child("lost answer").child_number(self.asked).percent(self.faults.lost_answers_percent);
            roll && before == self.rng.child("lost before").child_number(self.asked).percent(50)
        };
        let (lost_before, lost_after) = (lost(true), lost(false));
        let unknown = || CloudError::Unknown { operation: Text::from(format!("the launch for {}", request.claim)) };
        if lost_before {
            self.ledger.answers_lost += 1;
            return Err(unknown());
        }
        let outcome = self.fulfil(request, now)?;
        if lost_after {
            self.ledger.answers_lost += 1;
            return Err(unknown());
        }
        Ok(outcome)
    }

    fn check_rate_limit(&mut self, now: Timestamp) -> Result<(), CloudError> {
        self.asked += 1;
        self.rate_limit.take_token(now).map_err(|retry_after_ms| {
            self.ledger.throttled += 1;
            CloudError::RequestLimitExceeded { retry_after_ms }
        })
    }

    fn fulfil(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<LaunchOutcome, CloudError> {
        let options = request.overrides.len();
        if options == 0 || options > MAX_OVERRIDES {
            return Err(CloudError::Refused {
                operation: Text::from("CreateFleet"),
                code: Text::from("InvalidParameterValue"),
                message: format!("{options} overrides, where 1 to {MAX_OVERRIDES} are allowed"),
            });
        }
        let token = (request.cluster.clone(), request.token.clone());
        if let Some((known, id)) = self.tokens.get(&token).filter(|_| !self.faults.ignore_tokens) {
            // What it is configured by is not recorded, so a repetition after a restart lacks it.
            if (LaunchRequest { template: None, ..request.clone() }) != *known {
                return Err(CloudError::IdempotentParameterMismatch { token: request.token.clone() });
            }
            let instance = self.instances.get(id).cloned();
            return instance
                .map(|instance| LaunchOutcome { instance, unavailable: Vec::new() })
                .ok_or_else(|| CloudError::NotFound { id: id.clone() });
        }
        let has = |option: &Override| self.has_capacity(option, request.capacity_type, now);
        match request.overrides.iter().position(has) {
            Some(at) => Ok(LaunchOutcome {
                instance: self.launch_instance(request, &request.overrides[at], now),
                unavailable: request.overrides[..at].iter().map(Override::without_capacity).collect(),
            }),
            None => {
                self.ledger.refused += 1;
                let unavailable = request.overrides.iter().map(Override::without_capacity).collect();
                Err(CloudError::InsufficientCapacity { unavailable })
            }
        }
    }

    fn has_capacity(&self, option: &Override, capacity_type: CapacityType, now: Timestamp) -> bool {
        let listed = self.catalogue.is_none() || self.price(option, capacity_type).is_some();
        listed && self.is_available(option, capacity_type, now)
    }

    fn price(&self, option: &Override, capacity_type: CapacityType) -> Option<MicroUsd> {
        let types = &self.catalogue.as_ref()?.types;
        let kind = &types[types.binary_search_by(|kind| kind.name.cmp(&option.instance_type)).ok()?];
        let fits = |o: &&model::Offering| o.zone == option.zone && o.capacity_type == capacity_type;
        kind.offerings.iter().find(fits).map(|offering| offering.price)
    }

    fn launch_instance(&mut self, request: &LaunchRequest, option: &Override, now: Timestamp) -> Instance {
        let placement = Placement {
            token: request.token.clone(),
            cluster: request.cluster.clone(),
            cluster_uid: request.cluster_uid.clone(),
            claim: request.claim.clone(),
            pool: request.pool.clone(),
            option: option.clone(),
            capacity_type: request.capacity_type,
            price: self.price(option, request.capacity_type),
        };
        let instance = self.launch_placement(&placement, now);
        let token = (request.cluster.clone(), request.token.clone());
        self.tokens.insert(token, (LaunchRequest { template: None, ..request.clone() }, instance.id.clone()));
        instance
    }

    /// Whether `option` has capacity at `now`, by the fault profile.
    #[must_use]
    pub fn is_available(&self, option: &Override, capacity_type: CapacityType, now: Timestamp) -> bool {
        !self.faults.is_unavailable(&self.rng, option, capacity_type, now)
    }

    /// Launches `placement` at `now`, whatever the capacity and the rate limit.
    pub fn launch_placement(&mut self, placement: &Placement, now: Timestamp) -> Instance {
        self.launched += 1;
        let rng = self.rng.child("instance").child_number(self.launched);
        let id = Text::from(format!("i-{:017x}", rng.child("id").value() >> 4));
        let instance = Instance {
            provider_id: ProviderId::from(format!("aws:///{}/{id}", placement.option.zone)),
            id: id.clone(),
            instance_type: placement.option.instance_type.clone(),
            zone: placement.option.zone.clone(),
            capacity_type: placement.capacity_type,
            state: InstanceState::Pending,
            cluster: placement.cluster.clone(),
            cluster_uid: placement.cluster_uid.clone(),
            claim: placement.claim.clone(),
            pool: placement.pool.clone(),
            launched: now,
            details: InstanceDetails::default(),
        };
        let at = |wait: i64| now + Millis::new(wait);
        self.event_queue.insert((at(rng.child("boot").between(self.faults.boot_ms)), id.clone(), NextEvent::Boot));
        let spot = placement.capacity_type == CapacityType::Spot;
        if spot && rng.child("interrupted").percent(self.faults.interrupted_percent) {
            let wait = rng.child("interruption").between(self.faults.interrupted_after_ms);
            let notice = NextEvent::Interrupt(InterruptionKind::SpotInterrupted);
            self.event_queue.insert((at(wait), id.clone(), notice));
        }
        self.ledger.record_launch(&instance, placement.token.clone(), placement.price);
        self.journal.record(now, &id, ChangeKind::State(InstanceState::Pending));
        self.insert(instance.clone());
        instance
    }

    fn insert(&mut self, instance: Instance) {
        self.by_cluster.entry(instance.cluster.clone()).or_default().insert(instance.id.clone());
        self.instances.insert(instance.id.clone(), instance);
    }

    /// Adds an instance that runs already, whatever the capacity and the rate limit, at the catalogue's price and without
    /// an event; false when its id is known.
    pub fn add_running(&mut self, instance: Instance) -> bool {
        if self.instances.contains_key(&instance.id) {
            return false;
        }
        let option = Override { instance_type: instance.instance_type.clone(), zone: instance.zone.clone() };
        let instance = Instance { state: InstanceState::Running, ..instance };
        self.ledger.record_launch(&instance, Text::default(), self.price(&option, instance.capacity_type));
        self.insert(instance);
        true
    }

    /// Terminates an instance at `now`, after the shutdown delay. No effect on an instance that is
    /// shutting down.
    ///
    /// # Errors
    /// As [`CloudProvider::terminate`](crate::provider::CloudProvider::terminate).
    pub fn terminate(&mut self, id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.check_rate_limit(now)?;
        let id = instance_id(id);
        if self.shut_down(id, now) { Ok(()) } else { Err(CloudError::NotFound { id: Text::from(id) }) }
    }

    /// As [`SimulatedCloud::terminate`], but only for an instance of `owner`.
    ///
    /// # Errors
    /// As [`CloudProvider::terminate`](crate::provider::CloudProvider::terminate).
    pub fn terminate_owned(&mut self, owner: Owner<'_>, id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.describe(id)?.owned_by(owner)?;
        self.terminate(id, now)
    }

    /// Describes one instance, terminated or not.
    ///
    /// # Errors
    /// As [`CloudProvider::describe`](crate::provider::CloudProvider::describe).
    pub fn describe(&self, id: &str) -> Result<&Instance, CloudError> {
        let id = instance_id(id);
        self.instances.get(id).ok_or_else(|| CloudError::NotFound { id: Text::from(id) })
    }

    /// Instances of `cluster` that are not terminated and that the listing shows already.
    pub fn list<'c>(&'c self, cluster: &ClusterName, now: Timestamp) -> impl Iterator<Item = &'c Instance> + use<'c> {
        let alive = self.of_cluster(cluster).filter(|instance| instance.state != InstanceState::Terminated);
        alive.filter(move |instance| self.is_listed(instance, now))
    }

    /// Instances that are not terminated and that the listing shows already.
    pub fn list_all(&self, now: Timestamp) -> impl Iterator<Item = &Instance> {
        let alive = self.instances.values().filter(|instance| instance.state != InstanceState::Terminated);
        alive.filter(move |instance| self.is_listed(instance, now))
    }

    /// Whether listings at `now` show `instance`, by the fault profile.
    #[must_use]
    pub fn is_listed(&self, instance: &Instance, now: Timestamp) -> bool {
        let shown = now - Millis::new(self.faults.list_lag_ms);
        let lacking = || self.rng.child("lacking lists").child(&instance.id);
        instance.launched <= shown && !lacking().percent(self.faults.lacking_lists_percent)
    }

    /// Whether a listing at `now` succeeds.
    ///
    /// # Errors
    /// [`CloudError::Unknown`] for the share of the fault profile.
    pub fn check_listing(&mut self, now: Timestamp) -> Result<(), CloudError> {
        self.check_rate_limit(now)?;
        let rng = self.rng.child("failed list").child_number(self.asked);
        if rng.percent(self.faults.failed_lists_percent) {
            self.ledger.lists_failed += 1;
            return Err(CloudError::Unknown { operation: Text::from("the listing") });
        }
        Ok(())
    }

    /// Announces or reports `kind` for instance `id` at `now`, and ends the instance when the cloud would;
    /// false when it does not run, or its capacity type has no such event. A recommendation and a failed
    /// status check end nothing. A stopped instance ends as a terminated one does: there is no other state.
    pub fn interrupt(&mut self, id: &str, kind: InterruptionKind, now: Timestamp) -> bool {
        let Some(instance) = self.instances.get(instance_id(id)) else { return false };
        let live = matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        let concerned = match kind {
            InterruptionKind::SpotInterrupted | InterruptionKind::RebalanceRecommendation => {
                instance.capacity_type == CapacityType::Spot
            }
            InterruptionKind::CapacityReservationInterrupted => instance.capacity_type == CapacityType::Reserved,
            InterruptionKind::ScheduledChange
            | InterruptionKind::InstanceStopped
            | InterruptionKind::InstanceTerminated
            | InterruptionKind::StatusCheckFailed => true,
        };
        if live && concerned {
            self.event_queue.insert((now, instance.id.clone(), NextEvent::Interrupt(kind)));
        }
        live && concerned
    }

    /// Replaces the rate limit.
    pub fn set_rate_limit(&mut self, calls: TokenBucket) {
        self.rate_limit = calls;
    }

    /// Fault profile, to change it.
    pub fn faults_mut(&mut self) -> &mut FaultProfile {
        &mut self.faults
    }

    /// Fault profile.
    #[must_use]
    pub fn faults(&self) -> &FaultProfile {
        &self.faults
    }

    /// Instances of `cluster` by id, terminated or not.
    pub fn of_cluster<'c>(&'c self, cluster: &ClusterName) -> impl Iterator<Item = &'c Instance> + use<'c> {
        let ids = self.by_cluster.get(cluster).into_iter().flatten();
        ids.filter_map(|id| self.instances.get(id))
    }

    /// All instances by id, terminated or not.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values()
    }

    /// Begins to shut an instance down at `now`, as [`SimulatedCloud::terminate`], outside of the rate limit;
    /// false when it is unknown or terminated.
    pub fn shut_down(&mut self, id: &str, now: Timestamp) -> bool {
        let live = self.instances.get_mut(id).filter(|instance| instance.state != InstanceState::Terminated);
        let Some(instance) = live else { return false };
        if instance.state != InstanceState::ShuttingDown {
            instance.state = InstanceState::ShuttingDown;
            self.journal.record(now, &instance.id, ChangeKind::State(InstanceState::ShuttingDown));
            let end = now + Millis::new(self.faults.shutdown_ms);
            self.event_queue.insert((end, instance.id.clone(), NextEvent::End));
        }
        true
    }

    /// The newest changes of instances after the first `position`, and the position after them. Several
    /// readers may each keep a position; [`SimulatedCloud::tick`] returns an event to one caller only.
    #[must_use]
    pub fn changes_since(&self, position: u64) -> (Vec<InstanceChange>, u64) {
        let (changes, position) = self.journal.since(position);
        (changes.cloned().collect(), position)
    }

    /// The events of [`SimulatedCloud::changes_since`], as a provider returns them.
    #[must_use]
    pub fn events_since(&self, position: u64) -> (Vec<CloudEvent>, u64) {
        let (changes, position) = self.journal.since(position);
        (changes.filter_map(|change| self.event_of(change)).collect(), position)
    }

    fn event_of(&self, change: &InstanceChange) -> Option<CloudEvent> {
        let instance = self.instances.get(&change.instance)?.clone();
        match change.kind {
            ChangeKind::State(state @ InstanceState::Running) => {
                Some(CloudEvent::Running(Instance { state, ..instance }))
            }
            ChangeKind::State(InstanceState::Terminated) => Some(CloudEvent::Terminated(instance)),
            ChangeKind::State(InstanceState::Pending | InstanceState::ShuttingDown) => None,
            ChangeKind::Interrupted { kind, ends } => Some(CloudEvent::Interrupted { instance, kind, at: ends }),
        }
    }

    /// The ledger of all launches and terminations.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Time of the next scheduled event.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.event_queue.first().map(|(at, _, _)| *at)
    }

    /// Advances the time to `now` and returns the events.
    pub fn tick(&mut self, now: Timestamp) -> Vec<CloudEvent> {
        let mut events = Vec::new();
        while self.event_queue.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((at, id, next)) = self.event_queue.pop_first() {
                events.extend(self.apply_event(at, &id, next));
            }
        }
        events
    }

    fn apply_event(&mut self, at: Timestamp, id: &Text, next: NextEvent) -> Option<CloudEvent> {
        let instance = self.instances.get_mut(id)?;
        let live = matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        match next {
            NextEvent::Boot if instance.state == InstanceState::Pending => {
                instance.state = InstanceState::Running;
                self.journal.record(at, id, ChangeKind::State(InstanceState::Running));
                Some(CloudEvent::Running(instance.clone()))
            }
            NextEvent::Interrupt(kind) if live => {
                let end = end_of(kind, at);
                self.event_queue.extend(end.map(|end| (end, id.clone(), NextEvent::TakeBack)));
                if kind != InterruptionKind::RebalanceRecommendation {
                    self.ledger.record_interruption(id, at);
                }
                let ends_later = end.filter(|end| *end > at);
                self.journal.record(at, id, ChangeKind::Interrupted { kind, ends: ends_later });
                Some(CloudEvent::Interrupted { instance: instance.clone(), kind, at: ends_later })
            }
            NextEvent::TakeBack if live => {
                instance.state = InstanceState::ShuttingDown;
                self.journal.record(at, id, ChangeKind::State(InstanceState::ShuttingDown));
                let end = at + Millis::new(self.faults.shutdown_ms);
                self.event_queue.insert((end, id.clone(), NextEvent::End));
                None
            }
            NextEvent::End => {
                instance.state = InstanceState::Terminated;
                self.journal.record(at, id, ChangeKind::State(InstanceState::Terminated));
                self.ledger.record_end(id, at);
                Some(CloudEvent::Terminated(instance.clone()))
            }
            NextEvent::Boot | NextEvent::Interrupt(_) | NextEvent::TakeBack => None,
        }
    }
}

/// When an instance begins to shut down of which `kind` is announced or reported at `at`; `None` while it
/// runs on.
fn end_of(kind: InterruptionKind, at: Timestamp) -> Option<Timestamp> {
    match kind {
        InterruptionKind::SpotInterrupted | InterruptionKind::CapacityReservationInterrupted => {
            Some(at + INTERRUPTION_NOTICE)
        }
        InterruptionKind::ScheduledChange => Some(at + MAINTENANCE_NOTICE),
        InterruptionKind::InstanceStopped | InterruptionKind::InstanceTerminated => Some(at),
        InterruptionKind::RebalanceRecommendation | InterruptionKind::StatusCheckFailed => None,
    }
}

#[cfg(test)]
mod tests;
