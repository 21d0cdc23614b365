//! Input of a run.

use std::collections::BTreeMap;

use cloud::simulated::SimulatedCloud;
use engine::cluster::PoolRecord;
use engine::control::{ClusterId, Settings};

use crate::cluster::{SimulatedCluster, Workload};

/// One cluster of a run, with its NodePools and its agent's connection.
#[derive(Debug)]
pub struct ManagedCluster {
    /// The cluster.
    pub cluster: SimulatedCluster,
    /// Its NodePools.
    pub pools: Vec<PoolRecord>,
    /// Whether its agent is connected; a run connects every agent at its start.
    pub connected: bool,
    /// Whether the controller owns the cluster's lease.
    pub leased: bool,
}

impl ManagedCluster {
    /// A cluster with its NodePools and without a connection.
    #[must_use]
    pub fn new(cluster: SimulatedCluster, pools: Vec<PoolRecord>) -> Self {
        Self { cluster, pools, connected: false, leased: false }
    }
}

/// A step of the scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioStep {
    /// The agent connects and sends a snapshot.
    Connect {
        /// Cluster of the agent.
        cluster: ClusterId,
    },
    /// The agent's connection is cut.
    Disconnect {
        /// Cluster of the agent.
        cluster: ClusterId,
    },
    /// A workload changes its number of replicas.
    Scale {
        /// Cluster of the workload.
        cluster: ClusterId,
        /// Workload to scale.
        workload: Workload,
        /// New number of replicas.
        replicas: usize,
    },
    /// The cloud's capacity becomes available or unavailable.
    Capacity {
        /// Whether capacity is available.
        available: bool,
    },
    /// The cloud interrupts one spot instance of the cluster, if there is one.
    Interrupt {
        /// Cluster that owns the instance.
        cluster: ClusterId,
    },
}

/// A run before it begins.
#[derive(Debug)]
pub struct Setup {
    /// Seed of latencies and names.
    pub seed: u64,
    /// Settings of the controller; its identity is the seed.
    pub settings: Settings,
    /// The cloud.
    pub cloud: SimulatedCloud,
    /// The clusters, by name.
    pub clusters: BTreeMap<ClusterId, ManagedCluster>,
    /// Steps by milliseconds since the start, in any order.
    pub steps: Vec<(i64, ScenarioStep)>,
}
