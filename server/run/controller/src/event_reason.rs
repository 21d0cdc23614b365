//! Reasons of Kubernetes Events: all that this server records. `deploy/events.md` explains them, and a test compares it.
//!
//! The agent records further Events, of what only it sees: pods that it evicts, and volumes.

use std::fmt;

use model::interruption::InterruptionKind;

/// `reason` of an Event. The names are Karpenter's where the meaning is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventReason {
    /// A pod is planned onto a node.
    Nominated,
    /// A pod has no place.
    FailedScheduling,
    /// The requirements of a NodePool exclude all of its instance types.
    NoCompatibleInstanceTypes,
    /// The instance of a NodeClaim is launched.
    Launched,
    /// The Node of a NodeClaim is registered.
    Registered,
    /// The Node of a NodeClaim is initialized.
    Initialized,
    /// The cloud has no capacity for the launch of a NodeClaim.
    InsufficientCapacityError,
    /// A Node joined without the taint that keeps pods away until it is registered.
    UnregisteredTaintMissing,
    /// A Node has less than its NodeClaim promised.
    FailedConsistencyCheck,
    /// Something keeps a node from being disrupted, or the nodes of a NodePool.
    DisruptionBlocked,
    /// Consolidation cannot save anything by a node, or is off for it.
    Unconsolidatable,
    /// Consolidation removes or replaces a node, and saves money by it.
    ConsolidationCandidate,
    /// A removal by consolidation is not carried out.
    ConsolidationRejected,
    /// The policy `Balanced` accepts a removal by consolidation.
    ConsolidationApproved,
    /// A machine that replaces another one is being launched.
    DisruptionLaunching,
    /// A machine that replaces another one is launched and not initialized.
    DisruptionWaitingReadiness,
    DisruptionTerminating,
    /// The eviction of a pod is blocked while its node drains.
    FailedDraining,
    /// The drain of a node ends at a deadline, regardless of PodDisruptionBudgets.
    TerminationGracePeriodExpiring,
    /// Unhealthy nodes are not repaired.
    NodeRepairBlocked,
    /// The removal of a machine waits for evidence or for an operator.
    RemovalHeld,
    /// The tags of an instance name another cluster.
    ForeignInstance,
    /// A deleted EC2NodeClass waits for its NodeClaims.
    WaitingOnNodeClaimTermination,
    /// The value of `karpenter.sh/do-not-disrupt` of a pod cannot be read.
    InvalidDoNotDisruptAnnotation,
    /// A pod protects its node for some time.
    DoNotDisruptUntil,
    /// The time is over for which a pod protected its node.
    DoNotDisruptGracePeriodElapsed,
    /// The cloud reclaims a spot instance.
    SpotInterrupted,
    /// A spot instance is at elevated risk of an interruption.
    SpotRebalanceRecommendation,
    /// The owner of a capacity reservation takes its capacity back.
    CapacityReservationInstanceInterrupted,
    /// An instance fails its status checks, or maintenance of it is scheduled.
    InstanceUnhealthy,
    InstanceStopping,
    InstanceTerminating,
    /// A machine is removed for what the cloud says.
    TerminatingOnInterruption,
    /// The status of the condition of this type has changed.
    Condition(&'static str),
}

impl EventReason {
    /// All reasons but those that are types of conditions.
    pub const ALL: [Self; 33] = [
        Self::Nominated,
        Self::FailedScheduling,
        Self::NoCompatibleInstanceTypes,
        Self::Launched,
        Self::Registered,
        Self::Initialized,
        Self::InsufficientCapacityError,
        Self::UnregisteredTaintMissing,
        Self::FailedConsistencyCheck,
        Self::DisruptionBlocked,
        Self::Unconsolidatable,
        Self::ConsolidationCandidate,
        Self::ConsolidationRejected,
        Self::ConsolidationApproved,
        Self::DisruptionLaunching,
        Self::DisruptionWaitingReadiness,
        Self::DisruptionTerminating,
        Self::FailedDraining,
        Self::TerminationGracePeriodExpiring,
        Self::NodeRepairBlocked,
        Self::RemovalHeld,
        Self::ForeignInstance,
        Self::WaitingOnNodeClaimTermination,
        Self::InvalidDoNotDisruptAnnotation,
        Self::DoNotDisruptUntil,
        Self::DoNotDisruptGracePeriodElapsed,
        Self::SpotInterrupted,
        Self::SpotRebalanceRecommendation,
        Self::CapacityReservationInstanceInterrupted,
        Self::InstanceUnhealthy,
        Self::InstanceStopping,
        Self::InstanceTerminating,
        Self::TerminatingOnInterruption,
    ];

    /// The reason of the Events for what the cloud says about an instance (Karpenter's AWS provider: interruption).
    #[must_use]
    pub fn of_interruption(kind: InterruptionKind) -> Self {
        match kind {
            InterruptionKind::SpotInterrupted => Self::SpotInterrupted,
            InterruptionKind::RebalanceRecommendation => Self::SpotRebalanceRecommendation,
            InterruptionKind::CapacityReservationInterrupted => Self::CapacityReservationInstanceInterrupted,
            InterruptionKind::ScheduledChange | InterruptionKind::StatusCheckFailed => Self::InstanceUnhealthy,
            InterruptionKind::InstanceStopped => Self::InstanceStopping,
            InterruptionKind::InstanceTerminated => Self::InstanceTerminating,
        }
    }

    /// `reason`, in CamelCase.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nominated => "Nominated",
            Self::FailedScheduling => "FailedScheduling",
            Self::NoCompatibleInstanceTypes => "NoCompatibleInstanceTypes",
            Self::Launched => "Launched",
            Self::Registered => "Registered",
            Self::Initialized => "Initialized",
            Self::InsufficientCapacityError => "InsufficientCapacityError",
            Self::UnregisteredTaintMissing => "UnregisteredTaintMissing",
            Self::FailedConsistencyCheck => "FailedConsistencyCheck",
            Self::DisruptionBlocked => "DisruptionBlocked",
            Self::Unconsolidatable => "Unconsolidatable",
            Self::ConsolidationCandidate => "ConsolidationCandidate",
            Self::ConsolidationRejected => "ConsolidationRejected",
            Self::ConsolidationApproved => "ConsolidationApproved",
            Self::DisruptionLaunching => "DisruptionLaunching",
            Self::DisruptionWaitingReadiness => "DisruptionWaitingReadiness",
            Self::DisruptionTerminating => "DisruptionTerminating",
            Self::FailedDraining => "FailedDraining",
            Self::TerminationGracePeriodExpiring => "TerminationGracePeriodExpiring",
            Self::NodeRepairBlocked => "NodeRepairBlocked",
            Self::RemovalHeld => "RemovalHeld",
            Self::ForeignInstance => "ForeignInstance",
            Self::WaitingOnNodeClaimTermination => "WaitingOnNodeClaimTermination",
            Self::InvalidDoNotDisruptAnnotation => "InvalidDoNotDisruptAnnotation",
            Self::DoNotDisruptUntil => "DoNotDisruptUntil",
            Self::DoNotDisruptGracePeriodElapsed => "DoNotDisruptGracePeriodElapsed",
            Self::SpotInterrupted => "SpotInterrupted",
            Self::SpotRebalanceRecommendation => "SpotRebalanceRecommendation",
            Self::CapacityReservationInstanceInterrupted => "CapacityReservationInstanceInterrupted",
            Self::InstanceUnhealthy => "InstanceUnhealthy",
            Self::InstanceStopping => "InstanceStopping",
            Self::InstanceTerminating => "InstanceTerminating",
            Self::TerminatingOnInterruption => "TerminatingOnInterruption",
            Self::Condition(kind) => kind,
        }
    }

    /// Whether `type` is `Warning` rather than `Normal`.
    #[must_use]
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            Self::FailedScheduling
                | Self::NoCompatibleInstanceTypes
                | Self::InsufficientCapacityError
                | Self::UnregisteredTaintMissing
                | Self::FailedConsistencyCheck
                | Self::FailedDraining
                | Self::TerminationGracePeriodExpiring
                | Self::NodeRepairBlocked
                | Self::RemovalHeld
                | Self::ForeignInstance
                | Self::InvalidDoNotDisruptAnnotation
                | Self::SpotInterrupted
                | Self::SpotRebalanceRecommendation
                | Self::CapacityReservationInstanceInterrupted
                | Self::InstanceUnhealthy
                | Self::InstanceStopping
                | Self::InstanceTerminating
                | Self::TerminatingOnInterruption
        )
    }

    /// Whether its Events state what is, again and again and of many objects, rather than what happens once. They never
    /// crowd out the others.
    #[must_use]
    pub fn is_standing(self) -> bool {
        matches!(
            self,
            Self::NoCompatibleInstanceTypes
                | Self::DisruptionBlocked
                | Self::Unconsolidatable
                | Self::NodeRepairBlocked
                | Self::InvalidDoNotDisruptAnnotation
                | Self::DoNotDisruptUntil
                | Self::DoNotDisruptGracePeriodElapsed
                | Self::Condition(_)
        )
    }
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
