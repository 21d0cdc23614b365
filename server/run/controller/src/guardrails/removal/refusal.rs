//! Why the removal gate blocks a removal, as values. The sentences for operators are their
//! [`Display`](fmt::Display).

use std::fmt;

use crate::guardrails::Freeze;
use crate::guardrails::quarantine::QuarantineReason;
use crate::guardrails::rate_limits::ExceededLimit;
use model::interruption::InterruptionKind;
use model::{ClusterName, ProviderId, Text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalRefusal {
    /// The cloud reports that the instance has ended, while its Node is ready and holds pods.
    EndedUnderReadyNode { pods: usize },
    /// The cloud does not know the instance, while its Node is ready.
    UnknownUnderReadyNode,
    /// The cloud does not know the instance, and that does not suffice at the moment.
    Unknown(RemovalObstacle),
    /// Its Node is not reported any more, with pods bound to it.
    NodeVanished { pods: usize },
    /// Neither its Node nor most others are reported any more.
    MostNodesVanished,
    /// Too many machines were deleted by hand, and voluntary removals are not admitted either.
    Bulk(BulkDeletion, RemovalObstacle),
    /// Too many machines were deleted by hand, and the budgets of its NodePool are exhausted.
    BulkOverBudget(BulkDeletion),
    /// The instance is in another region, whose API this server does not call for the cluster.
    OtherRegion {
        provider_id: ProviderId,
        /// The region whose API is called.
        region: Text,
    },
    /// A notice says so, and the cloud itself does not.
    NoticeUnconfirmed {
        /// What the notice says.
        kind: InterruptionKind,
    },
    /// The tags of the instance name another cluster.
    ForeignInstance {
        provider_id: ProviderId,
        /// The cluster that its tags should name.
        cluster: ClusterName,
        cluster_uid: Text,
    },
}

/// A limit that blocks removals on weak evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalObstacle {
    /// The evidence is not trusted as a whole.
    Distrusted(Distrust),
    /// A freeze covers the machine's NodePool.
    Frozen(Freeze),
    /// The rate limits on removals admit none.
    RateLimited(ExceededLimit),
}

/// Why the agent's snapshot, or the cloud's listing, is not trusted as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    Quarantine(QuarantineReason),
    /// The cloud's listing lacks most instances.
    Listing(ListingLoss),
}

/// A listing of the cloud lacks most instances that are known to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingLoss {
    pub cluster: ClusterName,
    pub missing: usize,
    /// Number of instances known to run.
    pub of: usize,
}

/// More machines were deleted by hand than may be removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkDeletion {
    pub deleted: usize,
    /// Machines at the start of the window.
    pub machines: usize,
    /// Length of the window, in minutes.
    pub window_minutes: i64,
    /// How many may be removed at once.
    pub most: usize,
}

impl RemovalRefusal {
    /// What ends the block in `cluster`; a phrase that continues the reason.
    #[must_use]
    pub fn release(&self, cluster: &ClusterName) -> String {
        match self {
            Self::EndedUnderReadyNode { .. } => "until its Node is not ready, or holds no pods".to_owned(),
            Self::UnknownUnderReadyNode => "until its Node is not ready".to_owned(),
            Self::Unknown(obstacle) | Self::Bulk(_, obstacle) => or_confirmed(obstacle.release(), cluster),
            Self::NodeVanished { .. } | Self::MostNodesVanished => {
                or_confirmed("its Node is reported again, or the cloud reports that the machine has ended", cluster)
            }
            Self::BulkOverBudget(_) => or_confirmed("others are removed", cluster),
            Self::NoticeUnconfirmed { .. } => or_confirmed("the cloud confirms it", cluster),
            Self::OtherRegion { .. } => or_confirmed("the cluster's account and region are corrected", cluster),
            Self::ForeignInstance { cluster, cluster_uid, .. } => format!(
                "until the tags are restored (fleetwright.dev/cluster={cluster}, \
                 fleetwright.dev/cluster-uid={cluster_uid}, fleetwright.dev/managed=true), or the instance has ended"
            ),
        }
    }
}

impl RemovalObstacle {
    fn release(&self) -> &'static str {
        match self {
            Self::Distrusted(_) => "that is over",
            Self::Frozen(_) => "the freeze ends",
            Self::RateLimited(_) => "the window moves on",
        }
    }
}

fn or_confirmed(end: &str, cluster: &ClusterName) -> String {
    format!("until {end}, or until `{}`", confirm_command(cluster))
}

/// CLI command that confirms the held removals of `cluster`.
fn confirm_command(cluster: &ClusterName) -> String {
    format!("fleetwright removals confirm {cluster}")
}

impl fmt::Display for RemovalRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNKNOWN: &str = "the cloud knows no machine of this id with these credentials";
        match self {
            Self::EndedUnderReadyNode { pods } => {
                write!(f, "the cloud reports that the machine has ended, while its Node is ready and holds {pods} pods")
            }
            Self::UnknownUnderReadyNode => {
                write!(f, "{UNKNOWN}, while its Node is ready: check that they belong to the right account and region")
            }
            Self::Unknown(obstacle) => write!(f, "{UNKNOWN}, and {obstacle}"),
            Self::NodeVanished { pods } => {
                write!(f, "its Node is not reported any more, and {pods} pods are bound to it")
            }
            Self::MostNodesVanished => f.write_str("its Node is not reported any more, and neither are most others"),
            Self::Bulk(bulk, obstacle) => write!(f, "{bulk}, and {obstacle}"),
            Self::BulkOverBudget(bulk) => {
                write!(f, "{bulk}: the others are removed within its NodePool's budget")
            }
            Self::NoticeUnconfirmed { kind } => {
                write!(f, "a notice says that {kind}, and the cloud, asked about the instance, does not")
            }
            Self::OtherRegion { provider_id, region } => {
                write!(f, "instance {provider_id} is not in {region}, the region whose API is called for this cluster")
            }
            Self::ForeignInstance { provider_id, cluster, .. } => {
                write!(f, "the tags of instance {provider_id} do not name cluster {cluster}")
            }
        }
    }
}

impl fmt::Display for RemovalObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distrusted(distrust) => distrust.fmt(f),
            Self::Frozen(freeze) => freeze.fmt(f),
            Self::RateLimited(limit) => limit.fmt(f),
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quarantine(reason) => reason.fmt(f),
            Self::Listing(loss) => loss.fmt(f),
        }
    }
}

impl fmt::Display for ListingLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, missing, of } = self;
        write!(
            f,
            "the cloud's listing lacks {missing} of {of} instances known to run: listings are ignored until one \
             contains them, the cloud states for each id that it has ended, or an operator runs `{}`",
            confirm_command(cluster)
        )
    }
}

impl fmt::Display for BulkDeletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deleted, machines, window_minutes, most } = self;
        write!(
            f,
            "{deleted} of {machines} machines were deleted by hand or with their NodePool within {window_minutes} min, \
             more than the {most} that may be removed at once"
        )
    }
}
