//! Stages of the lifecycle of a NodeClaim.

use super::TerminationReason;
use model::Timestamp;

/// Stage of the lifecycle of a NodeClaim, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StageKind {
    /// The decision is not durable yet.
    Planned,
    Creating,
    Launching,
    /// The instance is launched; its Node is missing or not registered.
    Launched,
    /// The Node is registered and not initialized.
    Registered,
    Initialized,
    /// Pods are being evicted.
    Draining,
    Terminating,
    /// The instance is gone; Node and NodeClaim are being deleted.
    Deleting,
}

impl StageKind {
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

    #[must_use]
    pub fn is_terminating(self) -> bool {
        matches!(self, Self::Draining | Self::Terminating | Self::Deleting)
    }
}

/// Stage of the lifecycle of a NodeClaim, with the data that has a meaning in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Planned {
        /// The next launch attempt, from 1.
        attempt: u32,
    },
    Creating {
        /// The next launch attempt, from 1.
        attempt: u32,
        /// Why the NodeClaim is deleted once it is created.
        cancelled: Option<TerminationReason>,
    },
    Launching {
        /// The launch attempt, from 1.
        attempt: u32,
        /// Why the instance is terminated once it is launched.
        cancelled: Option<TerminationReason>,
        /// When the unanswerable description of the instance is retried.
        retry_cloud_at: Option<Timestamp>,
    },
    Launched {
        node: NodeProgress,
    },
    Registered {
        node: NodeProgress,
    },
    Initialized {
        node: NodeProgress,
    },
    Draining {
        reason: TerminationReason,
        /// When pods are deleted regardless of budgets; `None` has no deadline.
        deadline: Option<Timestamp>,
        interrupted: bool,
        /// The earlier stage, entered again if the API server lists pods on the Node; set for
        /// removals of empty nodes.
        if_occupied: Option<Box<Stage>>,
        /// The earlier stage, entered again if the NodeClaim is observed again; set for machines whose NodeClaim
        /// disappeared, until the agent gets the instruction to drain.
        if_claimed: Option<Box<Stage>>,
    },
    Terminating {
        reason: TerminationReason,
        /// When the refused or unanswerable termination is retried.
        retry_cloud_at: Option<Timestamp>,
    },
    Deleting {
        reason: TerminationReason,
    },
}

/// What happened to the Node of a launched NodeClaim that stays. It is kept from launch to the end
/// of a cancelled drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NodeProgress {
    /// When the API server listed pods on the Node, which the snapshot showed as empty.
    pub occupied_at: Option<Timestamp>,
}

/// How the Node of a terminating NodeClaim is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DrainTerms {
    /// When pods are deleted regardless of budgets; `None` has no deadline.
    pub deadline: Option<Timestamp>,
    pub interrupted: bool,
    /// The drain does not begin if the API server lists pods on the Node.
    pub only_if_empty: bool,
}

impl Stage {
    pub(super) fn kind(&self) -> StageKind {
        match self {
            Self::Planned { .. } => StageKind::Planned,
            Self::Creating { .. } => StageKind::Creating,
            Self::Launching { .. } => StageKind::Launching,
            Self::Launched { .. } => StageKind::Launched,
            Self::Registered { .. } => StageKind::Registered,
            Self::Initialized { .. } => StageKind::Initialized,
            Self::Draining { .. } => StageKind::Draining,
            Self::Terminating { .. } => StageKind::Terminating,
            Self::Deleting { .. } => StageKind::Deleting,
        }
    }

    /// Why the NodeClaim is terminated, or will be once it is created or launched; `None` while it
    /// stays.
    pub(super) fn termination_reason(&self) -> Option<&TerminationReason> {
        match self {
            Self::Creating { cancelled, .. } | Self::Launching { cancelled, .. } => cancelled.as_ref(),
            Self::Draining { reason, .. } | Self::Terminating { reason, .. } | Self::Deleting { reason } => {
                Some(reason)
            }
            Self::Planned { .. } | Self::Launched { .. } | Self::Registered { .. } | Self::Initialized { .. } => None,
        }
    }

    /// Progress of the Node, while the NodeClaim is launched and stays.
    pub(super) fn node(&self) -> Option<&NodeProgress> {
        match self {
            Self::Launched { node } | Self::Registered { node } | Self::Initialized { node } => Some(node),
            _ => None,
        }
    }

    /// See [`Stage::node`].
    pub(super) fn node_mut(&mut self) -> Option<&mut NodeProgress> {
        match self {
            Self::Launched { node } | Self::Registered { node } | Self::Initialized { node } => Some(node),
            _ => None,
        }
    }

    /// When the cloud call of this stage is retried.
    pub(super) fn cloud_retry(&self) -> Option<Timestamp> {
        match self {
            Self::Launching { retry_cloud_at, .. } | Self::Terminating { retry_cloud_at, .. } => *retry_cloud_at,
            _ => None,
        }
    }

    /// Sets when the cloud call of this stage is retried; returns whether the stage has one.
    pub(super) fn set_cloud_retry(&mut self, at: Option<Timestamp>) -> bool {
        match self {
            Self::Launching { retry_cloud_at, .. } | Self::Terminating { retry_cloud_at, .. } => {
                *retry_cloud_at = at;
                true
            }
            _ => false,
        }
    }
}
