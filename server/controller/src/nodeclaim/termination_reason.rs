//! Why a NodeClaim is terminated.

use std::fmt;

use model::Text;

/// Why a machine is terminated; its [`Display`](fmt::Display) is a sentence for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminationReason {
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

impl TerminationReason {
    /// Whether something else than this server deleted the machine, so that this server finishes what was begun.
    pub fn is_external(&self) -> bool {
        matches!(self, Self::DeletedByHand | Self::ClaimRemoved | Self::InstanceGone)
    }
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
