//! Simulated clusters with real agents, for runs on real servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::PodPhase;
use fleetwright_proto::v1;
use model::{ClaimName, ClusterName, ProviderId};
use tokio::task::JoinSet;

use crate::demo::SimulatedApi;
use crate::demo::manifests::{self, one_of};
use crate::kube::SimulatedCluster;
use crate::kube::cluster::ClusterSettings;

/// The clusters, each with the seed that it was made with.
pub(crate) struct Fleet {
    pub(crate) clusters: Vec<(Arc<SimulatedApi>, u64)>,
    agents: JoinSet<()>,
}

impl Fleet {
    pub(crate) fn new(clusters: Vec<(Arc<SimulatedApi>, u64)>) -> Self {
        Self { clusters, agents: JoinSet::new() }
    }

    /// Empty clusters in which everything is fast: servers are under test. Each has one NodePool of instances with four
    /// processors.
    pub(crate) fn of_fast_clusters(run: &str, clusters: u8, seed: u64) -> Self {
        let cluster = |number: u8| {
            let seed = seed.wrapping_mul(100).wrapping_add(u64::from(number));
            let name = ClusterName::from(format!("{run}-{number}"));
            (Arc::new(SimulatedApi::new(&name, SimulatedCluster::new(fast(seed)), manifests())), seed)
        };
        Self::new((0..clusters).map(cluster).collect())
    }

    /// Connects each cluster to one of `servers`, in turn.
    pub(crate) fn connect(&mut self, servers: &[String]) {
        for ((api, seed), server) in self.clusters.iter().zip(servers.iter().cycle()) {
            self.agents.spawn(Arc::clone(api).run_with_agent(server.clone(), *seed));
        }
    }

    /// NodeClaims and the provider ids of their instances.
    pub(crate) fn claims(&self) -> BTreeMap<(ClusterName, ClaimName), ProviderId> {
        self.clusters.iter().flat_map(|(api, _)| api.launched_claims()).collect()
    }

    /// Pods that do not run.
    pub(crate) fn waiting(&self) -> usize {
        let is_waiting = |pod: &&cluster::PodRecord| pod.phase != PodPhase::Running || pod.terminating;
        self.clusters.iter().map(|(api, _)| api.with(|cluster| cluster.pods().filter(is_waiting).count())).sum()
    }
}

fn fast(seed: u64) -> ClusterSettings {
    ClusterSettings {
        seed,
        join_ms: (100, 400),
        ready_ms: (50, 150),
        startup_ms: (20, 50),
        start_ms: (20, 100),
        grace_ms: (20, 100),
        ..ClusterSettings::default()
    }
}

fn manifests() -> Vec<v1::ManifestRecord> {
    let requirements = [
        one_of("karpenter.k8s.aws/instance-cpu", &["4"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    manifests::manifests(&[manifests::pool("load", &requirements, "1s")])
}
