//! What a cloud announces, or reports, about an instance that ends or fails.

use std::fmt;

/// Why an instance ends or fails (Karpenter's AWS provider: interruption messages and instance status).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterruptionKind {
    /// The cloud reclaims a spot instance two minutes later.
    SpotInterrupted,
    /// A spot instance is at elevated risk of an interruption; nothing ends yet.
    RebalanceRecommendation,
    /// The owner of a capacity reservation takes its capacity back two minutes later.
    CapacityReservationInterrupted,
    /// The cloud stops, reboots or retires the instance for maintenance at an announced time.
    ScheduledChange,
    /// The instance is stopping or stopped.
    InstanceStopped,
    /// The instance is shutting down.
    InstanceTerminated,
    /// A status check of the instance or of its host has failed for two minutes.
    StatusCheckFailed,
}

impl InterruptionKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::SpotInterrupted,
        Self::RebalanceRecommendation,
        Self::CapacityReservationInterrupted,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::StatusCheckFailed,
    ];

    /// The kind in logs (Karpenter: interruption message kinds).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::StatusCheckFailed => "instance_status",
        }
    }

    /// The kind with this name in logs.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the cloud lacks the capacity that it takes back, so that the same offering is not
    /// launched again for a while.
    #[must_use]
    pub fn takes_capacity_back(self) -> bool {
        matches!(self, Self::SpotInterrupted | Self::RebalanceRecommendation | Self::CapacityReservationInterrupted)
    }
}

impl fmt::Display for InterruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpotInterrupted => "the cloud reclaims the spot instance",
            Self::RebalanceRecommendation => "the spot instance is at elevated risk of an interruption",
            Self::CapacityReservationInterrupted => "the owner of the capacity reservation takes its capacity back",
            Self::ScheduledChange => "the cloud has scheduled maintenance of the instance",
            Self::InstanceStopped => "the instance is stopping",
            Self::InstanceTerminated => "the instance is shutting down",
            Self::StatusCheckFailed => "a status check of the instance fails",
        })
    }
}
