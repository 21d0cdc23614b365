//! One machine, from intent to grave.
//!
//! ```text
//! Planned ─recorded─► Creating ─acked─► Launching ─launched─► Launched ─► Registered ─► Initialized
//!     │ stale              │ refused         │ refused             │ late        │           │ empty, interrupted,
//!     ▼                    ▼                 ▼                     ▼             ▼           ▼ deleted by hand
//!  forgotten            forgotten       Deleting ◄─gone─ Terminating ◄─drained─ Draining ◄─┘
//! ```

use crate::cluster::ClaimRecord;
use crate::model::{CapacityType, MicroUsd, Text, Timestamp};

use super::{DecisionId, InstructionId, PlannedMachine};

/// Where a machine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The decision is not durable yet.
    Planned,
    /// The NodeClaim is being created.
    Creating,
    /// The machine is being bought.
    Launching,
    /// The machine is there; its Node is not, or not taken in yet.
    Launched,
    /// The Node is taken in and not in service yet.
    Registered,
    /// The Node is in service.
    Initialized,
    /// Pods are being evicted.
    Draining,
    /// The machine is being given back.
    Terminating,
    /// The machine is gone; Node and NodeClaim are being removed.
    Deleting,
}

impl Stage {
    /// The stage in a word, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "deciding",
            Self::Creating => "creating",
            Self::Launching => "launching",
            Self::Launched => "joining",
            Self::Registered => "registered",
            Self::Initialized => "in service",
            Self::Draining => "draining",
            Self::Terminating => "terminating",
            Self::Deleting => "finalising",
        }
    }

    /// Whether the machine is on its way out.
    #[must_use]
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Draining | Self::Terminating | Self::Deleting)
    }
}

/// A machine of ours.
#[derive(Debug, Clone)]
pub struct Machine {
    /// NodeClaim.
    pub claim: Text,
    /// NodePool.
    pub pool: Text,
    /// The decision that wanted it; `None` for machines found in the cluster.
    pub decision: Option<DecisionId>,
    /// What was decided; `None` for machines found in the cluster.
    pub planned: Option<PlannedMachine>,
    /// The pool's revision when it was decided.
    pub revision: Text,
    /// Where it stands.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// Number of the launch attempt, from 1.
    pub attempt: u32,
    /// Since when its Node could be let in, once it could.
    pub could_open: Option<Timestamp>,
    /// Since when hints are given to its pods while its Node is closed.
    pub hinting: Option<Timestamp>,
    /// When it was first ordered to be let in.
    pub let_in: Option<Timestamp>,
    /// Empty until it is launched.
    pub provider_id: Text,
    /// What was launched: type, zone, capacity type, price per hour.
    pub bought: Option<LaunchedInstance>,
    /// The instruction that is not answered yet.
    pub waits_for: Option<InstructionId>,
    /// A failed instruction is not given again before this.
    pub not_before: Timestamp,
    /// Why it has to go, once it has to.
    pub leaves: Option<Text>,
    /// When its pods go regardless, once it has to go; `None` waits for ever.
    pub drain_by: Option<Timestamp>,
    /// The cloud takes it away.
    pub interrupted: bool,
    /// It leaves because its Node is empty, and goes back to this stage if the API server lists pods on it.
    pub if_empty: Option<Stage>,
    /// When the API server listed pods on its Node, which the agent showed as empty.
    pub occupied_at: Option<Timestamp>,
    /// The Node that it had and that is not shown any more.
    pub lost_node: Option<LostNode>,
    /// A person has confirmed its removal.
    pub confirmed: bool,
    /// The cloud refuses to give it back.
    pub refused: bool,
    /// When the cloud is asked again for what it refused or did not know.
    pub ask_again: Option<Timestamp>,
}

/// A Node that was there and is not shown any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostNode {
    /// Its name, by which pods are bound to it.
    pub name: Text,
}

/// What was bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedInstance {
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Price per hour; zero when the catalogue does not know it.
    pub price: MicroUsd,
}

impl Machine {
    /// A machine that was decided.
    #[must_use]
    pub fn decided(planned: PlannedMachine, decision: DecisionId, revision: Text, now: Timestamp) -> Self {
        Self {
            claim: planned.claim.name.clone(),
            pool: planned.claim.pool.clone(),
            decision: Some(decision),
            planned: Some(planned),
            revision,
            stage: Stage::Planned,
            since: now,
            attempt: 1,
            could_open: None,
            hinting: None,
            let_in: None,
            provider_id: Text::default(),
            bought: None,
            waits_for: None,
            not_before: now,
            leaves: None,
            drain_by: None,
            interrupted: false,
            if_empty: None,
            occupied_at: None,
            lost_node: None,
            confirmed: false,
            refused: false,
            ask_again: None,
        }
    }

    /// A machine that was found in the cluster, launched already.
    #[must_use]
    pub fn found(claim: &ClaimRecord, bought: Option<LaunchedInstance>, now: Timestamp) -> Self {
        Self {
            claim: claim.name.clone(),
            pool: claim.pool.clone(),
            decision: None,
            planned: None,
            revision: Text::default(),
            stage: Stage::Launched,
            since: now,
            attempt: 1,
            could_open: None,
            hinting: None,
            let_in: None,
            provider_id: claim.provider_id.clone(),
            bought,
            waits_for: None,
            not_before: now,
            leaves: None,
            drain_by: None,
            interrupted: false,
            if_empty: None,
            occupied_at: None,
            lost_node: None,
            confirmed: false,
            refused: false,
            ask_again: None,
        }
    }

    /// Moves on.
    pub fn enter(&mut self, stage: Stage, now: Timestamp) {
        self.stage = stage;
        self.since = now;
        self.waits_for = None;
        self.ask_again = None;
    }
}
