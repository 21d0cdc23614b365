//! What EC2 knows of instances beside the cloud's own book of their states: tags, network, image, reservation.

pub(crate) mod describe;
pub(crate) mod status;

use std::borrow::Cow;
use std::collections::BTreeMap;

use cloud::provider::{Instance, InstanceState};
use cloud::simulated::{ChangeKind, InstanceChange, SimulatedCloud};
use model::{CapacityType, Millis, Timestamp};

use super::addresses::{Addresses, Lease};
use super::context::Context;
use super::launch_templates::check_tags;
use crate::api_error::ApiError;
use crate::settings::{OwnershipTags, Tags};
use crate::value::Fields;

/// How long a terminated instance is shown (EC2: about an hour).
const TERMINATED_SHOWN: Millis = Millis::from_hours(1);

/// What an instance was launched with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Details {
    pub(crate) tags: Tags,
    pub(crate) image: String,
    pub(crate) subnet: String,
    pub(crate) groups: Vec<String>,
    pub(crate) lease: Lease,
    pub(crate) reservation: Option<String>,
    /// `interruptible-capacity-reservation`.
    pub(crate) market: Option<String>,
}

/// Details of instances, and the addresses that they use.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    details: BTreeMap<String, Details>,
    reserved: BTreeMap<String, u32>,
    pub(crate) addresses: Addresses,
    /// Whether an instance was tagged with another cluster than the cloud's book says.
    reattributed: bool,
    /// Position in the changes of the cloud.
    position: u64,
}

impl Instances {
    pub(crate) fn insert(&mut self, id: &str, details: Details) {
        if let Some(reservation) = &details.reservation {
            *self.reserved.entry(reservation.clone()).or_default() += 1;
        }
        self.details.insert(id.to_owned(), details);
    }

    fn details(&self, id: &str) -> Option<&Details> {
        self.details.get(id)
    }

    /// Number of instances that use the reservation.
    pub(crate) fn using(&self, reservation: &str) -> u32 {
        self.reserved.get(reservation).copied().unwrap_or(0)
    }

    /// Brings addresses and reservations up to date with the cloud, and returns what has changed there.
    pub(crate) fn follow(&mut self, cloud: &SimulatedCloud) -> Vec<InstanceChange> {
        let (changes, position) = cloud.changes_since(self.position);
        self.position = position;
        for change in &changes {
            if change.kind == ChangeKind::State(InstanceState::Terminated) {
                self.release(&change.instance);
            }
        }
        changes
    }

    fn release(&mut self, id: &str) {
        let Some(details) = self.details.get(id) else { return };
        self.addresses.release(&details.subnet, details.lease);
        if let Some(using) = details.reservation.as_ref().and_then(|id| self.reserved.get_mut(id)) {
            *using = using.saturating_sub(1);
        }
    }

    /// Tags of an instance. One that was launched by another interface has those that attribute it.
    pub(crate) fn tags(&self, instance: &Instance, ownership: &OwnershipTags) -> Cow<'_, Tags> {
        if let Some(details) = self.details.get(instance.id.as_ref()) {
            return Cow::Borrowed(&details.tags);
        }
        let pairs = [
            (&ownership.cluster, instance.cluster.as_ref()),
            (&ownership.cluster_uid, instance.cluster_uid.as_ref()),
            (&ownership.claim, instance.claim.as_ref()),
            (&ownership.pool, instance.pool.as_ref()),
        ];
        let present = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Cow::Owned(present.map(|(key, value)| (key.clone(), value.to_owned())).collect())
    }

    /// TerminateInstances: all or none.
    pub(crate) fn terminate(&self, call: &mut Context<'_>) -> Result<Fields, ApiError> {
        let ids = call.parameters.list("InstanceId");
        if ids.is_empty() {
            return Err(ApiError::missing("InstanceId"));
        }
        let before =
            ids.iter().map(|id| find(call, id).map(|instance| instance.state)).collect::<Result<Vec<_>, _>>()?;
        let mut changes = Vec::new();
        for (id, before) in ids.into_iter().zip(before) {
            call.cloud.shut_down(id, call.now);
            let after = call.cloud.describe(id).map_or(before, |instance| instance.state);
            let states = Fields::new().with("instanceId", id).with("currentState", state(after));
            changes.push(states.with("previousState", state(before)));
        }
        Ok(Fields::new().list("instancesSet", changes))
    }

    /// CreateTags of instances.
    ///
    /// # Errors
    /// An unknown instance, and tags that EC2 refuses.
    pub(crate) fn create_tags(&mut self, call: &Context<'_>, ownership: &OwnershipTags) -> Result<Fields, ApiError> {
        let (ids, tags) = (call.parameters.list("ResourceId"), call.parameters.tags("Tag"));
        if ids.is_empty() || tags.is_empty() {
            return Err(ApiError::missing(if ids.is_empty() { "ResourceId" } else { "Tag" }));
        }
        check_tags(&tags)?;
        for id in ids {
            let mut merged = self.tags(find(call, id)?, ownership).into_owned();
            merged.extend(tags.clone());
            self.details.entry(id.to_owned()).or_default().tags = merged;
        }
        self.reattributed |= tags.contains_key(&ownership.cluster);
        Ok(Fields::new().with("return", true))
    }
}

/// The visible instance `id`.
///
/// # Errors
/// `InvalidInstanceID.Malformed` and `InvalidInstanceID.NotFound`.
fn find<'c>(call: &'c Context<'_>, id: &str) -> Result<&'c Instance, ApiError> {
    if !id.starts_with("i-") {
        return Err(ApiError::new(
            "InvalidInstanceID.Malformed",
            format!("Invalid id: \"{id}\" (expecting \"i-...\")"),
        ));
    }
    let unknown = || ApiError::new("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"));
    call.cloud.describe(id).ok().filter(|instance| is_visible(call, instance)).ok_or_else(unknown)
}

/// Whether calls see an instance: after the lag of its launch, until an hour after its end.
fn is_visible(call: &Context<'_>, instance: &Instance) -> bool {
    let ended = || call.cloud.ledger().entry(&instance.id).and_then(|entry| entry.ended);
    let is_forgotten = instance.state == InstanceState::Terminated
        && ended().is_some_and(|ended: Timestamp| call.now - ended > TERMINATED_SHOWN);
    !is_forgotten && call.is_visible(instance.launched, call.faults.lag().instances_ms)
}

/// State as EC2 shows it: code and name.
fn state(state: InstanceState) -> Fields {
    let code: i64 = match state {
        InstanceState::Pending => 0,
        InstanceState::Running => 16,
        InstanceState::ShuttingDown => 32,
        InstanceState::Terminated => 48,
    };
    Fields::new().with("code", code).with("name", state_name(state))
}

pub(crate) fn state_name(state: InstanceState) -> &'static str {
    match state {
        InstanceState::Pending => "pending",
        InstanceState::Running => "running",
        InstanceState::ShuttingDown => "shutting-down",
        InstanceState::Terminated => "terminated",
    }
}

/// `instanceLifecycle`; `None` for on-demand.
fn lifecycle(instance: &Instance, details: Option<&Details>) -> Option<String> {
    match instance.capacity_type {
        CapacityType::Spot => Some("spot".to_owned()),
        _ => details.and_then(|details| details.market.clone()),
    }
}
