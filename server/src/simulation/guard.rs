//! Guards that a run can be made without, so that it is proved that somebody would notice.

use clap::ValueEnum;

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Guard {
    /// An agent answers an instruction to make a NodeClaim when it has made it.
    Claims,
    /// The cloud gives one machine per token.
    Tokens,
    /// A successor takes up the launches that its predecessor left.
    Adoption,
    /// Machines without a NodeClaim are collected.
    GarbageCollection,
    /// A listing that broke off is no listing.
    Lists,
    /// The cloud is asked by id about machines that a listing lacks, and one that lacks most of them is not believed.
    Inspection,
    /// An agent refuses epochs that are over, also after its own restart.
    AgentEpoch,
    /// The store refuses writes under epochs that are over.
    StoreEpoch,
    /// A process calls nobody under a lease that may have run out.
    Fence,
    /// Pictures that lack most of a cluster are not believed at once, and cost no machine.
    Quarantine,
    /// What an agent takes back without having announced its end is counted.
    Losses,
    /// How much there is in a cluster outlives the process that saw it.
    Extents,
    /// An agent is no witness to what it says itself.
    Witness,
    /// An agent asks the API server for the pods of a Node that is to be drained because it is empty.
    EmptyCheck,
    /// So many machines at most come and go within a while.
    Caps,
    /// Nothing is removed while launches fail.
    Brake,
    /// Every process hears of what came and went in clusters of the others.
    Hearing,
    /// Every process hears of freezes.
    Freezes,
    /// NodePools have limits.
    Limits,
    /// NodePools have disruption budgets.
    Budgets,
    /// Evictions ask PodDisruptionBudgets.
    PodBudgets,
    /// Agents tell the end of a drain.
    Answers,
    /// Pending pods are planned.
    Planning,
    /// Empty nodes are removed.
    Emptiness,
    /// It stands in NodeClaims when the last pod event was.
    PodEvents,
    /// An agent that has lost its connection makes another one.
    Reconnect,
    /// It waits before it does.
    Backoff,
}
