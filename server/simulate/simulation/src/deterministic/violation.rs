//! Broken invariants, by name.

use std::fmt;

use model::{ClaimName, ClusterName, Millis, NodeName, PoolName, Text, Timestamp};

/// An instance without a NodeClaim must be gone after this: two rounds of garbage collection, the
/// cloud's own time, and what faults add to both.
pub(super) const COLLECTION_BOUND: Millis = Millis::from_mins(20);

/// A broken invariant; names are those of cluster and object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A launch was called for a NodeClaim that the cluster does not have.
    LaunchBeforeClaim {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// Two instances were launched for one NodeClaim.
    LaunchedTwice {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// An instance ran for long without a NodeClaim and without being drained, in a cluster with Nodes.
    Unclaimed {
        cluster: ClusterName,
        instance: Text,
    },
    /// A process called the cloud for a cluster whose lease another process held.
    FencedCall {
        cluster: ClusterName,
        what: String,
    },
    /// The store took a write under an expired epoch.
    LateWrite {
        cluster: ClusterName,
    },
    /// A launch or removal was decided while the fleet was frozen.
    DecidedFrozen {
        cluster: ClusterName,
    },
    /// An agent carried out an instruction of an expired epoch.
    OldEpoch {
        cluster: ClusterName,
        instruction: Text,
        epoch: u64,
        highest: u64,
    },
    /// Two processes sent instructions in one epoch.
    TwoOwners {
        cluster: ClusterName,
        epoch: u64,
    },
    OverLimit {
        cluster: ClusterName,
        pool: PoolName,
    },
    /// More nodes are removed at one time than the NodePool's budgets allow.
    OverBudget {
        cluster: ClusterName,
        claims: Vec<ClaimName>,
        allowed: usize,
    },
    /// More nodes are removed at one time than the budget of the cluster allows.
    OverClusterBudget {
        cluster: ClusterName,
        claims: Vec<ClaimName>,
        allowed: usize,
    },
    /// A voluntary drain began while no window or budget of its NodePool permitted one.
    OutsideWindow {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// A voluntary drain began while its pods had no room on initialized Nodes.
    NoCapacity {
        cluster: ClusterName,
        claim: ClaimName,
        pod: String,
    },
    /// A workload that is spread over zones stands less evenly after a voluntary removal.
    SpreadLost {
        cluster: ClusterName,
        workload: Text,
    },
    /// There are more new machines in a NodePool than pods and replaced nodes require.
    TwoReplacements {
        cluster: ClusterName,
        pool: PoolName,
        machines: usize,
        needed: usize,
    },
    /// A pod was evicted although its PodDisruptionBudget allowed no disruption.
    PodBudgetBroken {
        cluster: ClusterName,
    },
    /// A pod was moved again within 24 hours.
    MovedAgain {
        cluster: ClusterName,
        moves: usize,
    },
    /// More instances were launched or removed within a window than allowed.
    OverCap {
        cluster: ClusterName,
        what: &'static str,
    },
    /// A removal was decided although its launches fail.
    RemovedWhileFailing {
        cluster: ClusterName,
    },
    /// A removal was decided by a process that had read of the failing launches of others.
    RemovedWhileOthersFail {
        cluster: ClusterName,
    },
    /// A NodeClaim was deleted while its instance ran on.
    Orphaned {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// A NodeClaim was deleted, with its Node, while pods ran on its instance.
    RemovedInUse {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// An instance was terminated while pods ran on it that had not been evicted.
    GivenBackInUse {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// A drain without cause began while pods ran on the node.
    DrainedInUse {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// Events repeat without time passing.
    Stuck {
        at: Timestamp,
    },
    /// At rest: a pod does not run.
    NeverRan {
        cluster: ClusterName,
        pod: String,
    },
    /// At rest: an instance has no NodeClaim.
    Leaked {
        cluster: ClusterName,
        instance: Text,
    },
    /// At rest: a NodeClaim has no instance.
    Hollow {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// At rest: an empty node remains.
    StillEmpty {
        cluster: ClusterName,
        node: NodeName,
    },
    /// At rest: a node does not match the template of its NodePool.
    StillDrifted {
        cluster: ClusterName,
        claim: ClaimName,
    },
    /// Empty nodes exist and none of them is removed.
    EmptyTooLong {
        cluster: ClusterName,
        nodes: Vec<NodeName>,
    },
    /// At rest: an instruction has no answer.
    Unanswered {
        cluster: ClusterName,
        instructions: usize,
    },
    /// At rest: a cluster has no owner.
    Unowned {
        cluster: ClusterName,
    },
}

impl Violation {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LaunchBeforeClaim { .. } => "LaunchBeforeClaim",
            Self::LaunchedTwice { .. } => "LaunchedTwice",
            Self::Unclaimed { .. } => "Unclaimed",
            Self::FencedCall { .. } => "FencedCall",
            Self::LateWrite { .. } => "LateWrite",
            Self::DecidedFrozen { .. } => "DecidedFrozen",
            Self::OldEpoch { .. } => "OldEpoch",
            Self::TwoOwners { .. } => "TwoOwners",
            Self::OverLimit { .. } => "OverLimit",
            Self::OverBudget { .. } => "OverBudget",
            Self::OverClusterBudget { .. } => "OverClusterBudget",
            Self::OutsideWindow { .. } => "OutsideWindow",
            Self::NoCapacity { .. } => "NoCapacity",
            Self::SpreadLost { .. } => "SpreadLost",
            Self::TwoReplacements { .. } => "TwoReplacements",
            Self::PodBudgetBroken { .. } => "PodBudgetBroken",
            Self::MovedAgain { .. } => "MovedAgain",
            Self::OverCap { .. } => "OverCap",
            Self::RemovedWhileFailing { .. } => "RemovedWhileFailing",
            Self::RemovedWhileOthersFail { .. } => "RemovedWhileOthersFail",
            Self::Orphaned { .. } => "Orphaned",
            Self::RemovedInUse { .. } => "RemovedInUse",
            Self::GivenBackInUse { .. } => "GivenBackInUse",
            Self::DrainedInUse { .. } => "DrainedInUse",
            Self::Stuck { .. } => "Stuck",
            Self::NeverRan { .. } => "NeverRan",
            Self::Leaked { .. } => "Leaked",
            Self::Hollow { .. } => "Hollow",
            Self::StillEmpty { .. } => "StillEmpty",
            Self::StillDrifted { .. } => "StillDrifted",
            Self::EmptyTooLong { .. } => "EmptyTooLong",
            Self::Unanswered { .. } => "Unanswered",
            Self::Unowned { .. } => "Unowned",
        }
    }
}

impl Violation {
    /// The sentence of an invariant that holds when the system is at rest.
    fn fmt_at_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRan { cluster, pod } => write!(f, "{pod} in {cluster} does not run"),
            Self::Leaked { cluster, instance } => write!(f, "{instance} of {cluster} is left without a NodeClaim"),
            Self::Hollow { cluster, claim } => write!(f, "NodeClaim {claim} of {cluster} is left without an instance"),
            Self::StillEmpty { cluster, node } => write!(f, "{node} in {cluster} is empty and is not removed"),
            Self::StillDrifted { cluster, claim } => {
                write!(f, "the node of {cluster}/{claim} has drifted and is not replaced")
            }
            Self::EmptyTooLong { cluster, nodes } => {
                write!(f, "{} of {cluster} are empty and none of them is removed", nodes.join(" and "))
            }
            Self::Unanswered { cluster, instructions } => {
                write!(f, "{instructions} instructions to {cluster} are not answered")
            }
            Self::Unowned { cluster } => write!(f, "{cluster} has no owner"),
            Self::SpreadLost { cluster, workload } => {
                write!(f, "{workload} of {cluster} is spread less evenly over zones after a voluntary removal")
            }
            _ => f.write_str(self.kind()),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One sentence per invariant: object first, then what was violated.
        match self {
            Self::LaunchBeforeClaim { cluster, claim } => {
                write!(f, "a launch was called for {cluster}/{claim}, which is no NodeClaim")
            }
            Self::LaunchedTwice { cluster, claim } => write!(f, "two instances were launched for {cluster}/{claim}"),
            Self::Unclaimed { cluster, instance } => {
                let minutes = COLLECTION_BOUND.as_mins();
                write!(f, "{instance} of {cluster} has run for {minutes} min without a NodeClaim or a drain")
            }
            Self::FencedCall { cluster, what } => {
                write!(f, "a process without the lease of {cluster} called the cloud to {what}")
            }
            Self::LateWrite { cluster } => {
                write!(f, "the store took a write for {cluster} under an expired epoch")
            }
            Self::DecidedFrozen { cluster } => {
                write!(f, "{cluster}: a launch or removal was decided during a freeze")
            }
            Self::OldEpoch { cluster, instruction, epoch, highest } => {
                write!(f, "{cluster} carried out {instruction} of epoch {epoch} after one of epoch {highest}")
            }
            Self::TwoOwners { cluster, epoch } => write!(f, "two processes instruct {cluster} in epoch {epoch}"),
            Self::OverLimit { cluster, pool } => write!(f, "NodePool {pool} of {cluster} is over its limits"),
            Self::OverBudget { cluster, claims, allowed } => {
                write!(f, "{} of {cluster} are removed at once; the budgets allow {allowed}", claims.join(" and "))
            }
            Self::OverClusterBudget { cluster, claims, allowed } => {
                write!(f, "{} of {cluster} are removed at once; its budget allows {allowed}", claims.join(" and "))
            }
            Self::OutsideWindow { cluster, claim } => {
                write!(f, "the drain of {cluster}/{claim} began while its NodePool permitted none")
            }
            Self::NoCapacity { cluster, claim, pod } => {
                write!(f, "the drain of {cluster}/{claim} began without room for its pods, such as {pod}")
            }
            Self::TwoReplacements { cluster, pool, machines, needed } => {
                write!(f, "NodePool {pool} of {cluster} has {machines} new machines, and requires {needed} at most")
            }
            Self::PodBudgetBroken { cluster } => {
                write!(f, "a pod in {cluster} was evicted against its PodDisruptionBudget")
            }
            Self::MovedAgain { cluster, moves } => write!(f, "a pod in {cluster} was evicted {moves} times in 24 h"),
            Self::OverCap { cluster, what } => {
                write!(f, "more instances {what} in {cluster} than the rate limit allows")
            }
            Self::RemovedWhileFailing { cluster } => {
                write!(f, "a removal was decided in {cluster} by a process whose launches fail")
            }
            Self::RemovedWhileOthersFail { cluster } => {
                write!(f, "a removal was decided in {cluster} although launches of others fail")
            }
            Self::Orphaned { cluster, claim } => {
                write!(f, "NodeClaim {claim} of {cluster} was deleted while its instance ran on")
            }
            Self::RemovedInUse { cluster, claim } => {
                write!(f, "NodeClaim {claim} of {cluster} was deleted under running pods")
            }
            Self::GivenBackInUse { cluster, claim } => {
                write!(f, "the instance of {cluster}/{claim} was terminated under its pods")
            }
            Self::DrainedInUse { cluster, claim } => {
                write!(f, "the node of {cluster}/{claim} is drained without cause under its pods")
            }
            Self::Stuck { at } => write!(f, "time does not advance beyond {} ms", at.as_millis()),
            _ => self.fmt_at_rest(f),
        }
    }
}
