//! Number of objects in a cluster, by which losses are measured.

use cluster::{ClusterSnapshot, ClusterState};

/// Number of objects in a cluster, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectCounts {
    pub nodes: usize,
    /// Number of launched NodeClaims; for a snapshot, of all: one may not show the instance of a launch yet. Those
    /// without an instance come and go with launches that fail.
    pub claims: usize,
    pub pools: usize,
    /// Pods that have a Node, are neither terminal nor terminating, and belong to no DaemonSet and
    /// are not static. A list restricted to namespaces loses all of them and, where Nodes have many
    /// DaemonSets, less than half of all pods.
    pub pods: usize,
    /// Such pods without a Node. An increase offsets a loss of bound pods: a Deployment with
    /// strategy `Recreate` creates its new pods first.
    pub pending: usize,
    /// Managed machines that run; for a snapshot, those whose NodeClaim it contains.
    pub machines: usize,
}

impl ObjectCounts {
    /// Counts of the accepted state, with `machines` known to run.
    #[must_use]
    pub fn of_state(state: &ClusterState, machines: usize) -> Self {
        let (nodes, claims, pools) = state.counts();
        let (pods, pending) = state.workload_pods();
        Self { nodes, claims, pools, pods, pending, machines }
    }

    /// Counts of a snapshot that contains `machines` of those known to run.
    #[must_use]
    pub fn of_snapshot(snapshot: &ClusterSnapshot, machines: usize) -> Self {
        Self {
            nodes: snapshot.nodes.len(),
            claims: snapshot.claims.len(),
            pools: snapshot.pools.len(),
            pods: snapshot.pods.iter().filter(|pod| pod.is_bound_workload()).count(),
            pending: snapshot.pods.iter().filter(|pod| pod.is_pending_workload()).count(),
            machines,
        }
    }

    /// The larger count of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.combine(other, usize::max)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, usize::saturating_add)
    }

    /// The difference for each kind, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.combine(other, usize::saturating_sub)
    }

    fn combine(self, other: Self, join: impl Fn(usize, usize) -> usize) -> Self {
        Self {
            nodes: join(self.nodes, other.nodes),
            claims: join(self.claims, other.claims),
            pools: join(self.pools, other.pools),
            pods: join(self.pods, other.pods),
            pending: join(self.pending, other.pending),
            machines: join(self.machines, other.machines),
        }
    }
}
