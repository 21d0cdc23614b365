//! What a run is made of.

use std::collections::BTreeMap;

use cloud::simulated::SimulatedCloud;
use engine::cluster::PoolRecord;
use engine::control::{ClusterId, Settings};

use crate::cluster::{SimulatedCluster, Workload};

/// One cluster of a run.
#[derive(Debug)]
pub struct Scene {
    /// The cluster.
    pub cluster: SimulatedCluster,
    /// Its NodePools.
    pub pools: Vec<PoolRecord>,
    /// Whether its agent is there; a run connects every agent at its beginning.
    pub connected: bool,
    /// Whether the controller has the cluster's lease.
    pub leased: bool,
}

impl Scene {
    /// A cluster with its NodePools.
    #[must_use]
    pub fn new(cluster: SimulatedCluster, pools: Vec<PoolRecord>) -> Self {
        Self { cluster, pools, connected: false, leased: false }
    }
}

/// Something that the script does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// An agent connects and sends its snapshot.
    Connect {
        /// Whose agent.
        cluster: ClusterId,
    },
    /// An agent is cut off.
    Disconnect {
        /// Whose agent.
        cluster: ClusterId,
    },
    /// A workload changes its replicas.
    Scale {
        /// Where.
        cluster: ClusterId,
        /// Which.
        workload: Workload,
        /// To how many.
        replicas: usize,
    },
    /// The cloud has something to sell from here on, or nothing at all.
    Capacity {
        /// Whether it has.
        available: bool,
    },
    /// The cloud takes one spot machine of the cluster back, if there is one.
    Interrupt {
        /// Where.
        cluster: ClusterId,
    },
}

/// A run before it begins.
#[derive(Debug)]
pub struct Setup {
    /// Seed of latencies and names.
    pub seed: u64,
    /// What the controller is told; its identity is the seed.
    pub settings: Settings,
    /// The cloud.
    pub cloud: SimulatedCloud,
    /// The clusters, by name.
    pub scenes: BTreeMap<ClusterId, Scene>,
    /// What happens, by milliseconds from the start, in any order.
    pub script: Vec<(i64, Act)>,
}
