//! Guards that a run can be made without, so that it is proved that somebody would notice.

use clap::ValueEnum;

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guard {
    /// The cloud gives one machine per token.
    Tokens,
    /// An agent refuses epochs that are over, also after its own restart.
    AgentEpoch,
    /// The store refuses writes under epochs that are over.
    StoreEpoch,
    /// A process calls nobody under a lease that may have run out.
    Fence,
    /// Snapshots that lack most of a cluster are not believed at once.
    Quarantine,
    /// NodePools have limits.
    Limits,
    /// NodePools have disruption budgets.
    Budgets,
    /// Evictions ask PodDisruptionBudgets.
    PodBudgets,
    /// Agents tell the end of a drain.
    Answers,
    /// Every process hears of freezes.
    Freezes,
    /// Pending pods are planned.
    Planning,
}
