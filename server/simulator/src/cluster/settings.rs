//! How fast things go in a simulated cluster. Ranges are least and most, in milliseconds; chance picks by seed.

/// How fast things go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Seed of everything that chance decides.
    pub seed: u64,
    /// From the launch's being known to the node's joining.
    pub join_ms: (i64, i64),
    /// From joining to `Ready`.
    pub ready_ms: (i64, i64),
    /// From registration to the end of startup taints.
    pub startup_ms: (i64, i64),
    /// From binding to running.
    pub start_ms: (i64, i64),
    /// From eviction or deletion to the end of a pod.
    pub grace_ms: (i64, i64),
    /// From the end of a machine to the end of its Node.
    pub node_gone_ms: (i64, i64),
    /// Pods are deleted where they should be evicted: no PodDisruptionBudget is asked. For proving that a check notices.
    pub evicts_by_force: bool,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            join_ms: (20_000, 40_000),
            ready_ms: (2_000, 6_000),
            startup_ms: (1_000, 3_000),
            start_ms: (500, 2_500),
            grace_ms: (500, 3_000),
            node_gone_ms: (5_000, 30_000),
            evicts_by_force: false,
        }
    }
}
