//! Guards that a run can switch off, which proves that an invariant detects their absence.

use clap::ValueEnum;

/// A safety mechanism; its value name is the argument of `--without`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Guard {
    /// An agent acknowledges the creation of a NodeClaim after creating it.
    #[value(name = "claims")]
    ClaimFirst,
    /// The cloud launches one instance per client token.
    Tokens,
    /// The next owner of a cluster recovers the launches of the previous one.
    #[value(name = "adoption")]
    Recovery,
    /// The next owner of a cluster resumes the replacements of the previous one.
    Replacements,
    /// Instances without a NodeClaim are garbage collected.
    #[value(name = "collection")]
    GarbageCollection,
    /// A listing that failed halfway is discarded.
    Lists,
    /// Instances missing from a listing are described by id, and a listing that lacks most
    /// instances is rejected.
    Inspection,
    /// An agent rejects expired epochs, also after a restart.
    AgentEpoch,
    /// The store rejects writes under expired epochs.
    StoreEpoch,
    /// A process makes no call under a lease that may have expired.
    Fence,
    /// A snapshot that lacks most of a cluster quarantines the cluster and removes no instance.
    Quarantine,
    /// Unannounced deletions by an agent are counted.
    Losses,
    /// The object counts of a cluster outlive the process that observed them.
    Extents,
    /// A repeated report of the same agent does not confirm its first one.
    #[value(name = "witness")]
    SecondWitness,
    /// An agent lists the pods of a Node at the API server before draining it as empty.
    EmptyCheck,
    /// Launches and removals within a window are limited.
    #[value(name = "caps")]
    RateLimits,
    /// The circuit breaker: nothing is removed while launches fail.
    #[value(name = "brake")]
    CircuitBreaker,
    /// Every process reads the counters of the others.
    #[value(name = "hearing")]
    RemoteCounters,
    /// Every process applies changed freezes.
    Freezes,
    /// NodePool limits apply.
    Limits,
    /// NodePool disruption budgets apply.
    Budgets,
    /// Disruption windows of NodePools apply.
    Windows,
    /// The budget of a cluster over all its NodePools applies.
    ClusterBudget,
    /// A Node is initialized before pods are moved to it.
    Initialization,
    /// Pods that consolidation moves keep their spread.
    Spread,
    /// Plans use machines that are launched and have not joined yet.
    InFlight,
    /// Nodes that do not match their NodePool are replaced.
    Drift,
    /// Evictions respect PodDisruptionBudgets.
    PodBudgets,
    /// Agents acknowledge the end of a drain.
    #[value(name = "answers")]
    DrainAnswers,
    Planning,
    Emptiness,
    /// Consolidation leaves a pod that it has moved where it is.
    MoveInterval,
    /// NodeClaims record the time of the last pod event.
    PodEvents,
    /// An agent reconnects after losing its connection.
    Reconnect,
    /// An agent backs off before it reconnects.
    Backoff,
}
