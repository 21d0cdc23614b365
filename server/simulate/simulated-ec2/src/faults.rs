//! The switchboard of faults: what fails, when, and which capacity there is. The default has no fault.
//!
//! [`Faults`] are values that a test sets, in process or as JSON; [`switchboard`] decides from them, a seed and
//! counters what happens to a call.

pub(crate) mod switchboard;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Faults {
    pub seed: u64,
    /// Faults of calls, in the order in which they are tried.
    pub rules: Vec<FaultRule>,
    /// Rate limits by action; `*` is one bucket of all actions together.
    pub throttles: BTreeMap<String, Throttle>,
    /// Maximum number of entries in a page by action; `*` for all others.
    pub page_sizes: BTreeMap<String, usize>,
    /// Capacity of pools. The first entry that covers a pool counts; a pool without one has capacity.
    pub pools: Vec<PoolCapacity>,
    /// How long new things are invisible.
    pub lag: Lag,
    /// Faults of the delivery of messages to queues.
    pub delivery: Delivery,
}

/// A fault of calls of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// Action, such as `CreateFleet`; `*` for all.
    pub action: String,
    /// Calls that pass before the first fault.
    #[serde(default)]
    pub skip: u64,
    /// Number of faults; `None` without a limit.
    #[serde(default)]
    pub times: Option<u64>,
    /// Share of calls with the fault, in percent.
    #[serde(default = "all")]
    pub percent: u32,
    pub effect: Effect,
}

fn all() -> u32 {
    100
}

impl FaultRule {
    /// `effect` for every call of `action`.
    #[must_use]
    pub fn always(action: &str, effect: Effect) -> Self {
        Self { action: action.to_owned(), skip: 0, times: None, percent: 100, effect }
    }

    /// `effect` for the next `times` calls of `action`.
    #[must_use]
    pub fn times(action: &str, times: u64, effect: Effect) -> Self {
        Self { times: Some(times), ..Self::always(action, effect) }
    }

    /// `effect` for one call of `action`, after `skip` calls.
    #[must_use]
    pub fn once_after(action: &str, skip: u64, effect: Effect) -> Self {
        Self { skip, ..Self::times(action, 1, effect) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Effect {
    /// The call is not executed and answers this error.
    #[serde(rename_all = "camelCase")]
    Error {
        /// Error code, such as `UnauthorizedOperation`.
        code: String,
        /// HTTP status; `None` for the one that the services answer the code with.
        #[serde(default)]
        status: Option<u16>,
    },
    /// The connection is closed before the call is executed.
    CutBefore,
    /// The call is executed, and the connection is closed without an answer.
    CutAfter,
    /// The call is executed and answered late.
    #[serde(rename_all = "camelCase")]
    Delay {
        /// Milliseconds until it is executed: minimum and maximum.
        #[serde(default)]
        before_ms: (i64, i64),
        /// Milliseconds from then to the answer: minimum and maximum.
        #[serde(default)]
        after_ms: (i64, i64),
    },
}

impl Effect {
    /// The error `code` with its usual HTTP status.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::Error { code: code.to_owned(), status: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttle {
    pub burst: i64,
    /// Milliseconds per added call.
    pub refill_ms: i64,
}

/// Capacity of pools. `None` covers everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolCapacity {
    pub instance_type: Option<String>,
    pub zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Option<String>,
    /// Number of instances that can still be launched; it decreases with each launch.
    pub available: u32,
}

impl PoolCapacity {
    /// No capacity for `instance_type` in `zone`, whatever the capacity type.
    #[must_use]
    pub fn none(instance_type: &str, zone: &str) -> Self {
        Self {
            instance_type: Some(instance_type.to_owned()),
            zone: Some(zone.to_owned()),
            capacity_type: None,
            available: 0,
        }
    }
}

/// How long new things are invisible, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lag {
    /// Instances, for all calls but CreateFleet.
    pub instances_ms: i64,
    /// Launch templates, for DescribeLaunchTemplates and CreateFleet.
    pub launch_templates_ms: i64,
    /// Instance profiles, for launches.
    pub instance_profiles_ms: i64,
}

/// Faults of the delivery of messages to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Delivery {
    /// Share of messages that are delivered twice, in percent.
    pub duplicated_percent: u32,
    /// Delay of a message, in milliseconds: minimum and maximum of a random value, which reorders them.
    pub delay_ms: (i64, i64),
}

impl Faults {
    /// These faults with the fields that `update` names replaced.
    ///
    /// # Errors
    /// A field that faults do not have, or a value of another type.
    pub fn updated(&self, update: &serde_json::Value) -> Result<Self, serde_json::Error> {
        let mut merged = serde_json::to_value(self)?;
        if let (Some(fields), Some(wanted)) = (merged.as_object_mut(), update.as_object()) {
            fields.extend(wanted.iter().map(|(name, value)| (name.clone(), value.clone())));
            return serde_json::from_value(merged);
        }
        serde_json::from_value(update.clone())
    }
}
