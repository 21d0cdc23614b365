//! Latencies of a simulated cluster. Ranges are minimum and maximum in milliseconds; values are
//! drawn by seed.

/// Latencies of a simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Seed of all random values.
    pub seed: u64,
    /// From the launch's status write to the joining of the Node.
    pub(crate) join_ms: (i64, i64),
    /// From joining to `Ready`.
    pub(crate) ready_ms: (i64, i64),
    /// From registration to the removal of startup taints.
    pub(crate) startup_ms: (i64, i64),
    /// From binding to running.
    pub(crate) start_ms: (i64, i64),
    /// From eviction or deletion to the removal of a pod.
    pub grace_ms: (i64, i64),
    /// From the end of an instance to the removal of its Node.
    pub(crate) node_gone_ms: (i64, i64),
    /// kube-scheduler heeds nominations (Kubernetes 1.35).
    pub(crate) heeds_nominations: bool,
    /// Pods are deleted instead of evicted, so that no PodDisruptionBudget applies. For tests that
    /// prove that an invariant detects it.
    pub(crate) evicts_by_force: bool,
}

impl ClusterSettings {
    /// The same with Nodes that are ready within seconds instead of a minute, for tests on the system's clock.
    #[must_use]
    pub fn with_fast_nodes(self) -> Self {
        Self { join_ms: (500, 1_000), ready_ms: (100, 300), startup_ms: (100, 300), ..self }
    }
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
            heeds_nominations: true,
            evicts_by_force: false,
        }
    }
}
