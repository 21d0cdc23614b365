//! Simulated clusters with real agents. Every booked pod fills an instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::holds::HOLD;
use fleetwright_proto::v1;
use model::{ClaimName, ClusterName, ProviderId};
use tokio::task::JoinSet;

use super::plan::Plan;
use crate::demo::SimulatedApi;
use crate::demo::manifests::{self, one_of};
use crate::kube::SimulatedCluster;
use crate::kube::cluster::ClusterSettings;

pub(super) struct Clusters {
    all: Vec<Arc<SimulatedApi>>,
    _tasks: JoinSet<()>,
}

impl Clusters {
    /// Connects each cluster to one of `servers`, in turn.
    pub(super) fn start(run: &str, plan: &Plan, servers: &[String]) -> Self {
        let (mut tasks, mut all) = (JoinSet::new(), Vec::new());
        for number in 0..plan.clusters {
            let seed = plan.seed.wrapping_mul(100).wrapping_add(u64::from(number));
            let name = ClusterName::from(format!("{run}-{number}"));
            let api = Arc::new(SimulatedApi::new(&name, SimulatedCluster::new(settings(seed)), manifests()));
            all.push(Arc::clone(&api));
            tasks.spawn(api.run_with_agent(servers[usize::from(number) % servers.len()].clone(), seed));
        }
        Self { all, _tasks: tasks }
    }

    /// NodeClaims and the provider ids of their instances.
    pub(super) fn launched(&self) -> BTreeMap<(ClusterName, ClaimName), ProviderId> {
        self.all.iter().flat_map(|api| api.launched_claims()).collect()
    }

    /// Names of all NodeClaims, with the hold that each was launched for.
    pub(super) fn holds_of_claims(&self) -> BTreeMap<ClaimName, Option<String>> {
        let of_one = |api: &Arc<SimulatedApi>| {
            api.with(|cluster| {
                let claim = |claim: &cluster::ClaimRecord| {
                    (claim.name.clone(), claim.labels.get(HOLD).map(ToString::to_string))
                };
                cluster.claims().map(claim).collect::<Vec<_>>()
            })
        };
        self.all.iter().flat_map(of_one).collect()
    }
}

/// Everything is fast: the servers are under test, not the clusters.
fn settings(seed: u64) -> ClusterSettings {
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

/// One NodePool of instances with four processors, of which a booked pod requests three.
fn manifests() -> Vec<v1::ManifestRecord> {
    let requirements = [
        one_of("karpenter.k8s.aws/instance-cpu", &["4"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    manifests::manifests(&[manifests::pool("load", &requirements, "1s")])
}
