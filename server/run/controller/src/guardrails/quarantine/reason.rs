//! Why a cluster is in quarantine, as values. The sentences for operators are their
//! [`Display`](fmt::Display).

use std::fmt;

use model::ClusterName;

/// A kind of objects that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedKind {
    Machines,
    Nodes,
    Claims,
    Pools,
    Pods,
}

impl fmt::Display for CountedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machines => "machines that run",
            Self::Nodes => "nodes",
            Self::Claims => "NodeClaims",
            Self::Pools => "NodePools",
            Self::Pods => "bound pods",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingObjects {
    /// Too large a share of a kind.
    Share {
        kind: CountedKind,
        lost: usize,
        /// Number of objects before.
        of: usize,
    },
    NodesAndPods,
    Pools,
    /// All pods, whatever was there before.
    PodsOfReadyNodes {
        nodes: usize,
    },
}

impl fmt::Display for MissingObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { kind, lost, of } => write!(f, "lacks {lost} of {of} {kind}"),
            Self::NodesAndPods => f.write_str("shows neither nodes nor pods, where there were some"),
            Self::Pools => f.write_str("shows no NodePool, where there were some"),
            Self::PodsOfReadyNodes { nodes } => write!(f, "shows {nodes} ready nodes and DaemonSets, and not one pod"),
        }
    }
}

/// Where a loss was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossEvidence {
    Snapshot,
    /// In deletions without announcement.
    UnannouncedDeletions {
        /// The window in which they are counted, in seconds.
        window_s: i64,
    },
}

/// The source that confirms a loss, independent of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondSource {
    /// A complete listing of the cloud.
    Listing,
    /// The pods of DaemonSets on the ready Nodes.
    DaemonPods,
    /// The deletion timestamps of the NodeClaims of missing NodePools.
    DeletedClaims,
}

/// What ends a quarantine; an operator ends any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineRelease {
    /// Only an operator.
    Operator,
    /// Time, in minutes.
    AfterMinutes(i64),
    /// Another snapshot with the same loss, confirmed by a second source.
    Confirmed {
        /// Minimum time between the snapshots, in seconds.
        after_s: i64,
        source: SecondSource,
    },
}

/// Why a cluster is in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineReason {
    pub cluster: ClusterName,
    /// Where the loss was found.
    pub evidence: LossEvidence,
    pub what: MissingObjects,
    pub release: QuarantineRelease,
}

impl fmt::Display for LossEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot => f.write_str("the agent's snapshot"),
            Self::UnannouncedDeletions { window_s } => {
                write!(f, "the agent deleted objects unannounced within {window_s} s and now")
            }
        }
    }
}

impl fmt::Display for SecondSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listing => "the cloud's listing",
            Self::DaemonPods => "its list of DaemonSet pods",
            Self::DeletedClaims => "the deletion of their NodeClaims",
        })
    }
}

impl fmt::Display for QuarantineRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("until an operator releases it"),
            Self::AfterMinutes(minutes) => write!(f, "for {minutes} min, or until an operator releases it"),
            Self::Confirmed { after_s, source } => write!(
                f,
                "until another snapshot matches after {after_s} s and {source} confirms it, or an operator releases it"
            ),
        }
    }
}

/// Sentence for operators, with the command that releases the quarantine.
impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, evidence, what, release } = self;
        write!(f, "{evidence} {what}: no decisions are made {release} (fleetwright quarantine release {cluster})")
    }
}
