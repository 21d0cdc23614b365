//! How urgent a call of the cloud's API is, where calls wait for one rate limit.

/// Priority lane of a call, most urgent first. Calls of a lower lane wait for those of a higher one, and keep a part of
/// the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PriorityLane {
    /// Capacity for pods of a machine that the cloud interrupts, and that machine's end: the cloud takes it back within
    /// minutes.
    Interruption,
    /// Capacity for pending pods, one of which has a positive priority.
    HighPriorityPending,
    /// Capacity for other pending pods, and what launches need to know about the account.
    #[default]
    Pending,
    /// What keeps no pod waiting: consolidation, drift, expiration, nodes without pods.
    Voluntary,
}

impl PriorityLane {
    /// All lanes, most urgent first.
    pub const ALL: [Self; 4] = [Self::Interruption, Self::HighPriorityPending, Self::Pending, Self::Voluntary];

    /// Position in [`PriorityLane::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Name in rows and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interruption => "interruption",
            Self::HighPriorityPending => "high-priority-pending",
            Self::Pending => "pending",
            Self::Voluntary => "voluntary",
        }
    }

    /// The lane with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_in_order_and_have_names() {
        for (index, lane) in PriorityLane::ALL.into_iter().enumerate() {
            assert_eq!((lane.index(), PriorityLane::parse(lane.as_str())), (index, Some(lane)));
        }
        assert!(PriorityLane::Interruption < PriorityLane::Voluntary);
        assert_eq!(PriorityLane::parse("urgent"), None);
    }
}
