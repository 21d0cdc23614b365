//! What money is spent on.

/// What money is spent on: pods that run, or a cause of waste. In this order, the first cause that applies takes its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostCause {
    /// What pods request that run, those of DaemonSets apart.
    Useful,
    /// The machine is launched, and its node is not initialized.
    Booting,
    /// The node is drained, or decided to go.
    Draining,
    /// Room that a capacity hold keeps for pods to come.
    Hold,
    DaemonSets,
    /// Free room that no pod of the cluster fits into, because too little of one resource is left.
    Fragmentation,
    /// Free room of a node that something keeps: a PodDisruptionBudget, `karpenter.sh/do-not-disrupt`, a budget or
    /// `consolidateAfter` of its NodePool, a minimum, a freeze, a guardrail.
    Blocked,
    /// Free room of a node whose removal or replacement would not save anything.
    NoSavings,
    /// Free room without a known cause.
    Unexplained,
}

impl CostCause {
    /// All causes, in their order.
    pub const ALL: [Self; 9] = [
        Self::Useful,
        Self::Booting,
        Self::Draining,
        Self::Hold,
        Self::DaemonSets,
        Self::Fragmentation,
        Self::Blocked,
        Self::NoSavings,
        Self::Unexplained,
    ];

    /// The cause as printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Useful => "useful",
            Self::Booting => "booting",
            Self::Draining => "draining",
            Self::Hold => "hold",
            Self::DaemonSets => "daemonsets",
            Self::Fragmentation => "fragmentation",
            Self::Blocked => "blocked",
            Self::NoSavings => "no-savings",
            Self::Unexplained => "unexplained",
        }
    }
}
