//! Findings: anomalies that are reported and not resolved by this program.

use std::fmt;

use model::interruption::InterruptionKind;
use model::{ClaimName, ProviderId, Text};
use verifier::RemovalViolation;

/// An anomaly that only an operator may resolve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A NodeClaim of this server has no instance and no launch record.
    ClaimWithoutRow {
        claim: ClaimName,
    },
    UnreadableLaunch {
        claim: ClaimName,
    },
    /// The snapshot lacks the NodeClaims of most launched instances.
    ClaimsMissing {
        missing: usize,
        of: usize,
    },
    /// A listing of the cloud lacks most instances known to run.
    ListingLacks {
        missing: usize,
        /// Number of instances known to run.
        of: usize,
    },
    /// Machines of the cluster are in another region than the one that its instances are launched in.
    OtherRegion {
        /// Number of such machines.
        elsewhere: usize,
        of: usize,
        provider_id: ProviderId,
        /// The region that instances are launched in.
        region: Text,
    },
    /// A Node was to be drained as empty, and the API server lists pods on it.
    NodeOccupied {
        claim: ClaimName,
        why: Text,
    },
    /// An instance has this cluster's name and another cluster's UID.
    ForeignInstance {
        provider_id: ProviderId,
        cluster_uid: Text,
    },
    /// Other capacity for the pods of a machine that was to be removed could not be had.
    ReplacementFailed {
        claim: ClaimName,
        why: Text,
    },
    /// A condition of an EC2NodeClass is not met: its NodePools launch nothing.
    NodeClassNotResolved {
        /// Name of the EC2NodeClass.
        node_class: Text,
        /// Type of the condition, such as `SubnetsReady`.
        condition: &'static str,
        /// What is missing, and what to do.
        why: Text,
    },
    /// A notice says of an instance what the cloud does not say of one that is paid so.
    ImpossibleNotice {
        claim: ClaimName,
        /// What the notice says.
        kind: InterruptionKind,
    },
    /// The cloud has not confirmed a notice, and it is too old by now.
    NoticeDropped {
        claim: ClaimName,
        /// What the notice says.
        kind: InterruptionKind,
    },
    /// The agent reported something for new nodes that cannot be used.
    UnusableFact {
        /// What it is, and what is allowed.
        why: Text,
    },
    RemovalRejected {
        /// The first rule that the removal breaks.
        violation: RemovalViolation,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimWithoutRow { claim } => {
                write!(f, "NodeClaim {claim} has neither an instance nor a launch record: it is not changed")
            }
            Self::UnreadableLaunch { claim } => {
                write!(f, "the launch record of NodeClaim {claim} is unreadable: it is not changed")
            }
            Self::ClaimsMissing { missing, of } => write!(
                f,
                "the agent's snapshot lacks the NodeClaims of {missing} of {of} launched instances: no instance is \
                 terminated until it contains them, or an operator releases the cluster's quarantine"
            ),
            Self::ListingLacks { missing, of } => write!(
                f,
                "the cloud's listing lacks {missing} of {of} instances known to run: it is ignored. Check whether \
                 tags were removed, and whether the credentials belong to the right account and region; if the \
                 instances are gone, run `fleetwright removals confirm`"
            ),
            Self::OtherRegion { elsewhere, of, provider_id, region } => write!(
                f,
                "{elsewhere} of {of} machines of this cluster are in another region than {region}, where its instances are \
                 launched; one of them is {provider_id}. None of these counts as gone, and none can be terminated. If the \
                 cluster belongs to their region, correct its entry in cloud.accounts-file, or cloud.region; if it has \
                 moved, drain their Nodes and terminate the instances by hand"
            ),
            Self::NodeOccupied { claim, why } => write!(
                f,
                "NodeClaim {claim} was to be removed because its Node is empty, and is not: {why}. It is kept. If \
                 this repeats, the agent's watch lacks pods: restart the agent"
            ),
            Self::ForeignInstance { provider_id, cluster_uid } => write!(
                f,
                "instance {provider_id} has this cluster's name and the UID {cluster_uid:?} of another: it is not \
                 changed"
            ),
            Self::ReplacementFailed { claim, why } => write!(
                f,
                "NodeClaim {claim} was to be replaced, and is not: {why}. Its machine is kept, and its NodePool waits \
                 before it replaces others"
            ),
            Self::NodeClassNotResolved { node_class, condition, why } => {
                write!(f, "EC2NodeClass {node_class} is not ready for launches, {condition}: {why}")
            }
            Self::ImpossibleNotice { claim, kind } => write!(
                f,
                "a notice about the instance of NodeClaim {claim} says that {kind}, which cannot be for its capacity type: it \
                 is ignored. Check who may send to the queue of interruption.queue"
            ),
            Self::NoticeDropped { claim, kind } => write!(
                f,
                "a notice about the instance of NodeClaim {claim} says that {kind}, and the cloud has not confirmed it: it is \
                 dropped. Check who may send to the queue of interruption.queue"
            ),
            Self::UnusableFact { why } => write!(
                f,
                "the agent's report of what new nodes need cannot be used as a whole: {why}. Correct `[cluster]` in the \
                 agent's configuration; until then it counts as unknown"
            ),
            Self::RemovalRejected { violation } => write!(
                f,
                "the verifier rejected a removal ({violation}): the node is kept. Please report this with the state of \
                 the cluster"
            ),
        }
    }
}
