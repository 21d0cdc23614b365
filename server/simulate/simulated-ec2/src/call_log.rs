//! A record of every call.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::account::Session;
use crate::query::parameters::Parameters;
use crate::settings::Tags;

const KEPT: usize = 100_000;

/// Number of newest calls whose parameters are kept. A fleet has hundreds of parameters.
const WITH_PARAMETERS: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Number of the call, from 1, in the order of arrival.
    pub number: u64,
    /// Time of arrival in milliseconds since 1970.
    pub at_ms: i64,
    /// Service, such as `ec2`.
    pub service: &'static str,
    /// Action, such as `CreateFleet`.
    pub action: String,
    /// Access key of the caller; empty when the call is not signed.
    pub caller: String,
    /// Name of the role whose session made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub session_tags: Tags,
    /// Parameters by name, those of a JSON body as JSON unless they are strings. Empty for older calls.
    pub parameters: BTreeMap<String, String>,
    /// What a CreateFleet asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetCall>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Outcome {
    /// It is not answered yet.
    Pending,
    #[serde(rename_all = "camelCase")]
    Answered {
        /// HTTP status.
        status: u16,
        /// Error code; `None` for a success.
        code: Option<String>,
    },
    /// The connection is closed without an answer.
    #[serde(rename_all = "camelCase")]
    Cut {
        /// Whether it was executed before.
        executed: bool,
    },
}

/// What a CreateFleet asks for, and what it launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetCall {
    pub client_token: Option<String>,
    pub total: Option<u32>,
    /// `spot`, `on-demand`, `capacity-block` or `reserved-capacity`.
    pub capacity_type: Option<String>,
    /// Overrides of all configurations, in order.
    pub overrides: Vec<FleetOverride>,
    pub tags: Tags,
    /// Ids of the instances that the answer names.
    pub instances: Vec<String>,
}

/// What has become of a CreateFleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetProgress {
    pub number: u64,
    /// What it asks for, and what it launched.
    pub fleet: FleetCall,
    /// Its answer was sent; else it was executed.
    pub answered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetOverride {
    pub instance_type: Option<String>,
    pub zone: Option<String>,
    pub subnet: Option<String>,
    pub image: Option<String>,
}

impl FleetCall {
    fn read(parameters: &Parameters) -> Self {
        let text = |parameters: &Parameters, name: &str| parameters.get(name).map(str::to_owned);
        let read = |sent: Parameters| FleetOverride {
            instance_type: text(&sent, "InstanceType"),
            zone: text(&sent, "AvailabilityZone"),
            subnet: text(&sent, "SubnetId"),
            image: text(&sent, "ImageId"),
        };
        let configs = parameters.structures("LaunchTemplateConfigs");
        Self {
            client_token: text(parameters, "ClientToken"),
            total: parameters.number("TargetCapacitySpecification.TotalTargetCapacity").ok().flatten(),
            capacity_type: text(parameters, "TargetCapacitySpecification.DefaultTargetCapacityType"),
            overrides: configs.iter().flat_map(|config| config.structures("Overrides")).map(read).collect(),
            tags: parameters.tags_of("instance"),
            instances: Vec::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CallLog {
    calls: VecDeque<Call>,
    recorded: u64,
}

/// A call as it arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) at_ms: i64,
    pub(crate) service: &'static str,
    pub(crate) action: &'a str,
    pub(crate) caller: &'a str,
    pub(crate) session: Option<&'a Session>,
    pub(crate) parameters: &'a Parameters,
}

impl CallLog {
    /// Records a call, and returns its number.
    pub(crate) fn begin(&mut self, arrival: Arrival<'_>) -> u64 {
        self.recorded += 1;
        self.calls.push_back(Call {
            number: self.recorded,
            at_ms: arrival.at_ms,
            service: arrival.service,
            action: arrival.action.to_owned(),
            caller: arrival.caller.to_owned(),
            role: arrival.session.map(|session| session.role.clone()),
            session_tags: arrival.session.map(|session| session.tags.clone()).unwrap_or_default(),
            parameters: arrival.parameters.values().clone(),
            fleet: (arrival.action == "CreateFleet").then(|| FleetCall::read(arrival.parameters)),
            outcome: Outcome::Pending,
        });
        if let Some(older) = self.calls.len().checked_sub(WITH_PARAMETERS + 1) {
            self.calls[older].parameters = BTreeMap::new();
        }
        if self.calls.len() > KEPT {
            self.calls.pop_front();
        }
        self.recorded
    }

    /// Records what came of call `number`, and the instances that it launched.
    pub(crate) fn end(&mut self, number: u64, outcome: Outcome, instances: Vec<String>) {
        let first = self.calls.front().map_or(0, |call| call.number);
        let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(call) = index.and_then(|index| self.calls.get_mut(index)) {
            call.outcome = outcome;
            if let Some(fleet) = &mut call.fleet {
                fleet.instances = instances;
            }
        }
    }

    /// What the CreateFleet with this number asks for, and what it launched.
    pub(crate) fn fleet(&self, number: u64) -> Option<&FleetCall> {
        let at = self.calls.binary_search_by_key(&number, |call| call.number).ok()?;
        self.calls[at].fleet.as_ref()
    }

    /// Kept calls with a number above `after`.
    pub(crate) fn after(&self, after: u64) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.number > after)
    }
}
