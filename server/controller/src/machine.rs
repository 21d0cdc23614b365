//! Lifecycle of one NodeClaim and its instance.
//!
//! ```text
//! Planned ─recorded─► Creating ─acked─► Launching ─launched─► Launched ─► Registered ─► Initialized
//!     │ stale             │ refused        │ refused              │ late       │           │ empty, interrupted,
//!     ▼                   ▼                ▼                      ▼            ▼           ▼ deleted by hand
//!  removed             removed         Deleting ◄─gone─ Terminating ◄─drained─ Draining ◄──┘
//! ```

use std::fmt;

use crate::cluster::ClaimRecord;
use model::{
    CapacityType, ClaimName, InstanceTypeName, MicroUsd, NodeName, PoolName, ProviderId, Text, Timestamp, Zone,
};

use super::{DecisionId, InstructionId, PlannedMachine};

/// Stage of a machine's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The decision is not durable yet.
    Planned,
    /// The NodeClaim is being created.
    Creating,
    /// The instance is being launched.
    Launching,
    /// The instance is launched; its Node is missing or not registered.
    Launched,
    /// The Node is registered and not initialized.
    Registered,
    /// The Node is initialized.
    Initialized,
    /// Pods are being evicted.
    Draining,
    /// The instance is being terminated.
    Terminating,
    /// The instance is gone; Node and NodeClaim are being deleted.
    Deleting,
}

impl Stage {
    /// The stage in views.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Creating => "creating",
            Self::Launching => "launching",
            Self::Launched => "launched",
            Self::Registered => "registered",
            Self::Initialized => "initialized",
            Self::Draining => "draining",
            Self::Terminating => "terminating",
            Self::Deleting => "deleting",
        }
    }

    /// Whether termination has begun.
    #[must_use]
    pub fn is_terminating(self) -> bool {
        matches!(self, Self::Draining | Self::Terminating | Self::Deleting)
    }
}

/// A NodeClaim of this server with its instance.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Name of the NodeClaim.
    pub claim: ClaimName,
    /// NodePool of the NodeClaim.
    pub pool: PoolName,
    /// The decision that planned it; `None` for machines found in the cluster.
    pub decision: Option<DecisionId>,
    /// The planned machine; `None` for machines found in the cluster.
    pub planned: Option<PlannedMachine>,
    /// Revision of the NodePool at the time of the decision.
    pub revision: Text,
    /// Current stage.
    pub stage: Stage,
    /// When it entered the stage.
    pub since: Timestamp,
    /// Launch attempt, from 1.
    pub attempt: u32,
    /// When its Node became ready for registration.
    pub registrable_since: Option<Timestamp>,
    /// When the nomination of its pods began, while its Node is not registered.
    pub nominating_since: Option<Timestamp>,
    /// When the registration of its Node was first ordered.
    pub registration_ordered_at: Option<Timestamp>,
    /// Provider id of the instance; empty until launched.
    pub provider_id: ProviderId,
    /// The launched instance.
    pub instance: Option<LaunchedInstance>,
    /// The unanswered instruction.
    pub pending_instruction: Option<InstructionId>,
    /// Earliest time of the next instruction, after a failed one.
    pub not_before: Timestamp,
    /// Why it is terminated; `None` while it is not.
    pub termination_reason: Option<TerminationReason>,
    /// When its pods are deleted regardless of budgets; `None` has no deadline.
    pub drain_deadline: Option<Timestamp>,
    /// The cloud reclaims the instance.
    pub interrupted: bool,
    /// Stage to return to if the API server lists pods on its Node; set for removals of empty
    /// nodes.
    pub stage_if_occupied: Option<Stage>,
    /// When the API server listed pods on its Node, which the snapshot showed as empty.
    pub occupied_at: Option<Timestamp>,
    /// Its former Node, which is not observed any more.
    pub lost_node: Option<LostNode>,
    /// An operator confirmed its removal.
    pub removal_confirmed: bool,
    /// The cloud refused to terminate the instance.
    pub termination_refused: bool,
    /// When a refused or unanswerable cloud call is retried.
    pub retry_cloud_at: Option<Timestamp>,
}

/// Why a machine is terminated; its [`Display`](fmt::Display) is a sentence for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminationReason {
    /// A decision removes it, for this reason.
    Decided(Text),
    /// Its NodeClaim or Node was deleted in the cluster.
    DeletedByHand,
    /// Its NodeClaim disappeared while the instance runs.
    ClaimRemoved,
    /// The cloud has insufficient capacity for every launch option.
    InsufficientCapacity,
    /// The cloud rejected the launch.
    LaunchRejected {
        /// Error code of the cloud.
        code: Text,
        /// Error message of the cloud.
        message: Text,
    },
    /// A previous process recorded that the launch failed.
    LaunchFailed(Text),
    /// A previous process did not launch it, and no pod needs it.
    NotLaunched,
    /// No instance was launched in time.
    LaunchTimeout {
        /// The timeout.
        minutes: i64,
    },
    /// No Node was registered in time.
    RegistrationTimeout {
        /// The timeout.
        minutes: i64,
    },
    /// A previous process began to remove it.
    BegunBeforeTakeover,
    /// Its instance is gone.
    InstanceGone,
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(reason) => f.write_str(reason),
            Self::DeletedByHand => f.write_str("the NodeClaim or its Node was deleted in the cluster"),
            Self::ClaimRemoved => f.write_str("its NodeClaim was removed while the instance runs"),
            Self::InsufficientCapacity => f.write_str("the cloud has no capacity for any launch option"),
            Self::LaunchRejected { code, message } => write!(f, "the cloud rejected the launch: {code}: {message}"),
            Self::LaunchFailed(why) => write!(f, "the launch failed: {why}"),
            Self::NotLaunched => f.write_str("it was not launched before the takeover, and no pod needs it"),
            Self::LaunchTimeout { minutes } => write!(f, "no instance was launched within {minutes} minutes"),
            Self::RegistrationTimeout { minutes } => write!(f, "the node did not register within {minutes} minutes"),
            Self::BegunBeforeTakeover => f.write_str("its removal began before the takeover"),
            Self::InstanceGone => f.write_str("the instance is gone"),
        }
    }
}

/// A former Node of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostNode {
    /// Name, by which pods are bound to it.
    pub name: NodeName,
}

/// A launched instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedInstance {
    /// Name of the instance type.
    pub instance_type: InstanceTypeName,
    /// Name of the zone.
    pub zone: Zone,
    /// Capacity type of the instance.
    pub capacity_type: CapacityType,
    /// Price per hour; zero when the catalogue lacks it.
    pub price: MicroUsd,
}

impl Machine {
    /// The machine of a decision.
    #[must_use]
    pub fn from_decision(planned: PlannedMachine, decision: DecisionId, revision: Text, now: Timestamp) -> Self {
        Self {
            claim: planned.claim.name.clone(),
            pool: planned.claim.pool.clone(),
            decision: Some(decision),
            planned: Some(planned),
            revision,
            stage: Stage::Planned,
            since: now,
            attempt: 1,
            registrable_since: None,
            nominating_since: None,
            registration_ordered_at: None,
            provider_id: ProviderId::default(),
            instance: None,
            pending_instruction: None,
            not_before: now,
            termination_reason: None,
            drain_deadline: None,
            interrupted: false,
            stage_if_occupied: None,
            occupied_at: None,
            lost_node: None,
            removal_confirmed: false,
            termination_refused: false,
            retry_cloud_at: None,
        }
    }

    /// The machine of a launched NodeClaim found in the cluster.
    #[must_use]
    pub fn from_claim(claim: &ClaimRecord, instance: Option<LaunchedInstance>, now: Timestamp) -> Self {
        Self {
            claim: claim.name.clone(),
            pool: claim.pool.clone(),
            decision: None,
            planned: None,
            revision: Text::default(),
            stage: Stage::Launched,
            since: now,
            attempt: 1,
            registrable_since: None,
            nominating_since: None,
            registration_ordered_at: None,
            provider_id: claim.provider_id.clone(),
            instance,
            pending_instruction: None,
            not_before: now,
            termination_reason: None,
            drain_deadline: None,
            interrupted: false,
            stage_if_occupied: None,
            occupied_at: None,
            lost_node: None,
            removal_confirmed: false,
            termination_refused: false,
            retry_cloud_at: None,
        }
    }

    /// Why it is terminated, as a sentence; empty while it is not.
    #[must_use]
    pub fn termination_message(&self) -> Text {
        self.termination_reason.as_ref().map(|reason| Text::from(reason.to_string())).unwrap_or_default()
    }

    /// Enters a stage, which discards the pending instruction and retry.
    pub fn enter_stage(&mut self, stage: Stage, now: Timestamp) {
        self.stage = stage;
        self.since = now;
        self.pending_instruction = None;
        self.retry_cloud_at = None;
    }
}
