//! The port's twin: a cloud that sells, boots, interrupts and forgets machines by a seed and on somebody else's clock.
//!
//! [`SimulatedCloud`] is a state machine: every call names the moment, [`SimulatedCloud::tick`] lets time pass and tells what
//! happened by itself. Equal seeds, calls and moments give equal answers. [`ClockedCloud`] puts it behind the port.
//! What it did stands in its [`Ledger`], which knows nothing of what anybody believes.
//!
//! Reading order: [`weather`] (what goes wrong, and when), [`dice`] (chance by seed), [`book`], [`clocked`].

pub mod clocked;
pub mod fault_profile;
pub mod ledger;
pub mod seeded_rng;

use std::collections::{BTreeMap, BTreeSet};

use engine::model::offering::SharedCatalogue;
use engine::model::{CapacityType, MicroUsd, Text, Timestamp};

use crate::provider::{
    CloudError, CloudEvent, Instance, InstanceState, LaunchOutcome, LaunchRequest, MAX_OVERRIDES, Override, Owner,
    instance_id,
};
pub use clocked::ClockedCloud;
pub use fault_profile::{Bucket, CapacityShortage, FaultProfile};
pub use ledger::{Ledger, LedgerEntry};
pub use seeded_rng::SeededRng;

/// Time between the warning and the end of a spot machine, in milliseconds (EC2: two minutes).
pub const INTERRUPTION_NOTICE_MS: i64 = 120_000;

/// A cloud by seed.
#[derive(Debug)]
pub struct SimulatedCloud {
    weather: FaultProfile,
    dice: SeededRng,
    calls: Bucket,
    catalogue: Option<SharedCatalogue>,
    instances: BTreeMap<Text, Instance>,
    /// What was asked under each token, and the machine that came of it.
    tokens: BTreeMap<Text, (LaunchRequest, Text)>,
    /// What will happen by itself: moment, instance, what.
    agenda: BTreeSet<(Timestamp, Text, Turn)>,
    book: Ledger,
    sold: u64,
    asked: u64,
}

/// What happens to a machine by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Boot,
    Warn,
    TakeBack,
    End,
}

impl SimulatedCloud {
    /// A cloud under `weather`. With a catalogue it sells only what stands there, and the book has prices.
    #[must_use]
    pub fn new(weather: FaultProfile, catalogue: Option<SharedCatalogue>) -> Self {
        Self {
            dice: SeededRng::new(weather.seed),
            calls: weather.calls,
            weather,
            catalogue,
            instances: BTreeMap::new(),
            tokens: BTreeMap::new(),
            agenda: BTreeSet::new(),
            book: Ledger::default(),
            sold: 0,
            asked: 0,
        }
    }

    /// Buys one machine at `now`.
    ///
    /// # Errors
    /// As [`CloudProvider::launch`](crate::provider::CloudProvider::launch).
    pub fn launch(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<LaunchOutcome, CloudError> {
        self.admit(now)?;
        let lost = |before: bool| {
            let roll =
                self.dice.child("lost answer").child_number(self.asked).percent(self.weather.lost_answers_percent);
            roll && before == self.dice.child("lost before").child_number(self.asked).percent(50)
        };
        let (lost_before, lost_after) = (lost(true), lost(false));
        let unknown = || CloudError::Unknown { operation: Text::from(format!("the launch for {}", request.claim)) };
        if lost_before {
            self.book.answers_lost += 1;
            return Err(unknown());
        }
        let outcome = self.fill(request, now)?;
        if lost_after {
            self.book.answers_lost += 1;
            return Err(unknown());
        }
        Ok(outcome)
    }

    fn admit(&mut self, now: Timestamp) -> Result<(), CloudError> {
        self.asked += 1;
        self.calls.take(now).map_err(|retry_after_ms| {
            self.book.throttled += 1;
            CloudError::RequestLimitExceeded { retry_after_ms }
        })
    }

    fn fill(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<LaunchOutcome, CloudError> {
        let options = request.overrides.len();
        if options == 0 || options > MAX_OVERRIDES {
            return Err(CloudError::Refused {
                operation: Text::from("CreateFleet"),
                code: Text::from("InvalidParameterValue"),
                message: format!("{options} overrides, where 1 to {MAX_OVERRIDES} are allowed"),
            });
        }
        if let Some((known, id)) = self.tokens.get(&request.token).filter(|_| !self.weather.ignore_tokens) {
            if known != request {
                return Err(CloudError::IdempotentParameterMismatch { token: request.token.clone() });
            }
            let instance = self.instances.get(id).cloned();
            return instance
                .map(|instance| LaunchOutcome { instance, sold_out: Vec::new() })
                .ok_or_else(|| CloudError::NotFound { id: id.clone() });
        }
        let has = |option: &Override| self.has_capacity(option, request.capacity_type, now);
        match request.overrides.iter().position(has) {
            Some(at) => Ok(LaunchOutcome {
                instance: self.sell(request, &request.overrides[at], now),
                sold_out: request.overrides[..at].to_vec(),
            }),
            None => {
                self.book.refused += 1;
                Err(CloudError::NoCapacity { sold_out: request.overrides.clone() })
            }
        }
    }

    fn has_capacity(&self, option: &Override, capacity_type: CapacityType, now: Timestamp) -> bool {
        let listed = self.catalogue.is_none() || self.price(option, capacity_type).is_some();
        listed && !self.weather.is_short(&self.dice, option, capacity_type, now)
    }

    fn price(&self, option: &Override, capacity_type: CapacityType) -> Option<MicroUsd> {
        let types = &self.catalogue.as_ref()?.types;
        let kind = &types[types.binary_search_by(|kind| kind.name.cmp(&option.instance_type)).ok()?];
        let fits = |o: &&engine::model::Offering| o.zone == option.zone && o.capacity_type == capacity_type;
        kind.offerings.iter().find(fits).map(|offering| offering.price)
    }

    fn sell(&mut self, request: &LaunchRequest, option: &Override, now: Timestamp) -> Instance {
        self.sold += 1;
        let dice = self.dice.child("instance").child_number(self.sold);
        let id = Text::from(format!("i-{:017x}", dice.child("id").value() >> 4));
        let instance = Instance {
            provider_id: Text::from(format!("aws:///{}/{id}", option.zone)),
            id: id.clone(),
            instance_type: option.instance_type.clone(),
            zone: option.zone.clone(),
            capacity_type: request.capacity_type,
            state: InstanceState::Pending,
            cluster: request.cluster.clone(),
            cluster_uid: request.cluster_uid.clone(),
            claim: request.claim.clone(),
            pool: request.pool.clone(),
            launched: now,
        };
        let at = |wait: i64| Timestamp(now.0.saturating_add(wait));
        self.agenda.insert((at(dice.child("boot").between(self.weather.boot_ms)), id.clone(), Turn::Boot));
        let spot = request.capacity_type == CapacityType::Spot;
        if spot && dice.child("interrupted").percent(self.weather.interrupted_percent) {
            let wait = dice.child("interruption").between(self.weather.interrupted_after_ms);
            self.agenda.insert((at(wait), id.clone(), Turn::Warn));
        }
        let price = self.price(option, request.capacity_type);
        self.tokens.insert(request.token.clone(), (request.clone(), id.clone()));
        self.book.enter(&instance, request.token.clone(), price);
        self.instances.insert(id, instance.clone());
        instance
    }

    /// Gives a machine back at `now`; it is gone a little later. A machine that is going already goes on going.
    ///
    /// # Errors
    /// As [`CloudProvider::terminate`](crate::provider::CloudProvider::terminate).
    pub fn terminate(&mut self, id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.admit(now)?;
        let id = instance_id(id);
        let instance = self.instances.get_mut(id).filter(|instance| instance.state != InstanceState::Terminated);
        let Some(instance) = instance else { return Err(CloudError::NotFound { id: Text::from(id) }) };
        if instance.state != InstanceState::ShuttingDown {
            instance.state = InstanceState::ShuttingDown;
            let end = Timestamp(now.0.saturating_add(self.weather.shutdown_ms));
            self.agenda.insert((end, instance.id.clone(), Turn::End));
        }
        Ok(())
    }

    /// The same for whoever speaks for `owner`: a machine of another cluster stays.
    ///
    /// # Errors
    /// As [`CloudProvider::terminate`](crate::provider::CloudProvider::terminate).
    pub fn terminate_of(&mut self, owner: Owner<'_>, id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.describe(id)?.owned_by(owner)?;
        self.terminate(id, now)
    }

    /// One machine, gone or not.
    ///
    /// # Errors
    /// As [`CloudProvider::describe`](crate::provider::CloudProvider::describe).
    pub fn describe(&self, id: &str) -> Result<&Instance, CloudError> {
        let id = instance_id(id);
        self.instances.get(id).ok_or_else(|| CloudError::NotFound { id: Text::from(id) })
    }

    /// Machines of `cluster` that are not gone and that the listing shows already.
    pub fn list<'c>(&'c self, cluster: &'c str, now: Timestamp) -> impl Iterator<Item = &'c Instance> {
        self.list_all(now).filter(move |instance| instance.cluster.as_ref() == cluster)
    }

    /// Machines that are not gone and that the listing shows already.
    pub fn list_all(&self, now: Timestamp) -> impl Iterator<Item = &Instance> {
        let shown = Timestamp(now.0.saturating_sub(self.weather.list_lag_ms));
        let alive = self.instances.values().filter(|instance| instance.state != InstanceState::Terminated);
        let lacking = self.dice.child("lacking lists");
        let percent = self.weather.lacking_lists_percent;
        alive.filter(move |instance| instance.launched <= shown && !lacking.child(&instance.id).percent(percent))
    }

    /// Whether a listing that is asked for at `now` can be given.
    ///
    /// # Errors
    /// [`CloudError::Unknown`] for as many as the weather says.
    pub fn admit_list(&mut self, now: Timestamp) -> Result<(), CloudError> {
        self.admit(now)?;
        let die = self.dice.child("failed list").child_number(self.asked);
        if die.percent(self.weather.failed_lists_percent) {
            self.book.lists_failed += 1;
            return Err(CloudError::Unknown { operation: Text::from("the listing") });
        }
        Ok(())
    }

    /// Takes spot machine `id` back two minutes after `now`; false when it is no spot machine or gone.
    pub fn interrupt(&mut self, id: &str, now: Timestamp) -> bool {
        let Some(instance) = self.instances.get(instance_id(id)) else { return false };
        let live = matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        let spot = instance.capacity_type == CapacityType::Spot;
        if live && spot {
            self.agenda.insert((now, instance.id.clone(), Turn::Warn));
        }
        live && spot
    }

    /// How often calls are allowed from here on.
    pub fn set_allowance(&mut self, calls: Bucket) {
        self.calls = calls;
    }

    /// What goes wrong from here on.
    pub fn weather_mut(&mut self) -> &mut FaultProfile {
        &mut self.weather
    }

    /// What was done, whatever anybody believes.
    #[must_use]
    pub fn book(&self) -> &Ledger {
        &self.book
    }

    /// When something happens by itself next.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.agenda.first().map(|(at, _, _)| *at)
    }

    /// Lets time pass until `now` and tells what happened by itself.
    pub fn tick(&mut self, now: Timestamp) -> Vec<CloudEvent> {
        let mut events = Vec::new();
        while self.agenda.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((at, id, turn)) = self.agenda.pop_first() {
                events.extend(self.turn(at, &id, turn));
            }
        }
        events
    }

    fn turn(&mut self, at: Timestamp, id: &Text, turn: Turn) -> Option<CloudEvent> {
        let instance = self.instances.get_mut(id)?;
        let live = matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        match turn {
            Turn::Boot if instance.state == InstanceState::Pending => {
                instance.state = InstanceState::Running;
                Some(CloudEvent::Running(instance.clone()))
            }
            Turn::Warn if live => {
                let end = Timestamp(at.0.saturating_add(INTERRUPTION_NOTICE_MS));
                self.agenda.insert((end, id.clone(), Turn::TakeBack));
                self.book.interrupt(id, at);
                Some(CloudEvent::Interrupted { instance: instance.clone(), at: end })
            }
            Turn::TakeBack if live => {
                instance.state = InstanceState::ShuttingDown;
                let end = Timestamp(at.0.saturating_add(self.weather.shutdown_ms));
                self.agenda.insert((end, id.clone(), Turn::End));
                None
            }
            Turn::End => {
                instance.state = InstanceState::Terminated;
                self.book.end(id, at);
                Some(CloudEvent::Terminated(instance.clone()))
            }
            Turn::Boot | Turn::Warn | Turn::TakeBack => None,
        }
    }
}

#[cfg(test)]
mod tests;
