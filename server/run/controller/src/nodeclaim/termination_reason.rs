//! Why a NodeClaim is terminated.

use std::collections::BTreeSet;
use std::fmt;

use crate::DecisionId;
use model::{RefusedOption, Text};

/// Why a machine is terminated; its [`Display`](fmt::Display) is a sentence for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminationReason {
    Decided {
        /// The reason, a sentence.
        why: Text,
        decision: DecisionId,
    },
    /// Its NodeClaim or Node was deleted in the cluster.
    DeletedByHand,
    /// Its NodeClaim disappeared while the instance runs.
    ClaimRemoved,
    /// The cloud has insufficient capacity for every launch option.
    InsufficientCapacity {
        /// Refusals that an operator can mend, each with its remedy; empty without any.
        remedies: Text,
    },
    LaunchRejected {
        code: Text,
        message: Text,
    },
    /// A previous process recorded that the launch failed.
    LaunchFailed(Text),
    /// A previous process did not launch it, and no pod needs it.
    NotLaunched,
    /// No instance was launched in time.
    LaunchTimeout {
        minutes: i64,
    },
    /// No Node was registered in time.
    RegistrationTimeout {
        minutes: i64,
    },
    /// A previous process began to remove it.
    BegunBeforeTakeover {
        /// Why, as the drain annotation of its Node says, with the decision; empty when unknown.
        why: Text,
    },
    InstanceGone,
}

impl TerminationReason {
    /// None of the launch options had capacity, and the cloud refused these.
    pub fn insufficient_capacity(refused: &[RefusedOption]) -> Self {
        let remedies = refused.iter().filter_map(|option| Some((&option.code, option.remedy.as_ref()?)));
        let remedies: BTreeSet<String> = remedies.map(|(code, remedy)| format!("{code}: {remedy}")).collect();
        let remedies = remedies.into_iter().collect::<Vec<_>>().join("; ");
        Self::InsufficientCapacity { remedies: Text::from(remedies) }
    }

    /// The decision that removes it; `None` if none does, or a previous process knew it.
    pub fn decision(&self) -> Option<DecisionId> {
        match self {
            Self::Decided { decision, .. } => Some(*decision),
            _ => None,
        }
    }

    /// Whether something else than this server deleted the machine, so that this server finishes what was begun.
    pub fn is_external(&self) -> bool {
        matches!(self, Self::DeletedByHand | Self::ClaimRemoved | Self::InstanceGone)
    }
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided { why, .. } => f.write_str(why),
            Self::DeletedByHand => f.write_str("the NodeClaim or its Node was deleted in the cluster"),
            Self::ClaimRemoved => f.write_str("its NodeClaim was removed while the instance runs"),
            Self::InsufficientCapacity { remedies } if remedies.is_empty() => {
                f.write_str("the cloud has no capacity for any launch option")
            }
            Self::InsufficientCapacity { remedies } => {
                write!(f, "the cloud launches none of the launch options: {remedies}")
            }
            Self::LaunchRejected { code, message } => write!(f, "the cloud rejected the launch: {code}: {message}"),
            Self::LaunchFailed(why) => write!(f, "the launch failed: {why}"),
            Self::NotLaunched => f.write_str("it was not launched before the takeover, and no pod needs it"),
            Self::LaunchTimeout { minutes } => write!(f, "no instance was launched within {minutes} minutes"),
            Self::RegistrationTimeout { minutes } => write!(f, "the node did not register within {minutes} minutes"),
            Self::BegunBeforeTakeover { why } if why.is_empty() => f.write_str("its removal began before the takeover"),
            Self::BegunBeforeTakeover { why } => f.write_str(why),
            Self::InstanceGone => f.write_str("the instance is gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{InstanceTypeName, RefusalCause, Zone};

    fn refused(zone: &str, code: &str, remedy: Option<&str>) -> RefusedOption {
        RefusedOption {
            instance_type: InstanceTypeName::from("m5.large"),
            zone: Zone::from(zone),
            cause: RefusalCause::Account,
            code: Text::from(code),
            remedy: remedy.map(Text::from),
        }
    }

    #[test]
    fn a_launch_without_capacity_says_each_remedy_once() {
        let full = refused("a", "InsufficientInstanceCapacity", None);
        let quota = ["b", "c"].map(|zone| refused(zone, "VcpuLimitExceeded", Some("request more")));
        let [b, c] = quota;
        assert_eq!(
            TerminationReason::insufficient_capacity(&[full.clone(), b, c]).to_string(),
            "the cloud launches none of the launch options: VcpuLimitExceeded: request more"
        );
        let all_full = TerminationReason::insufficient_capacity(&[full]);
        assert_eq!(all_full.to_string(), "the cloud has no capacity for any launch option");
    }
}
