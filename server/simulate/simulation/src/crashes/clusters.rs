//! The load: simulated clusters with real agents, whose workloads are scaled at random. Every pod
//! fills an instance, so each new pod is a launch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{ClusterSettings, Workload, pod_spec};
use cloud::simulated::SeededRng;
use cluster::PodPhase;
use fleetwright_proto::v1;
use model::{ClaimName, ClusterName, ProviderId};
use tokio::task::JoinSet;

use super::plan::Plan;
use crate::demo::SimulatedApi;
use crate::demo::manifests::{self, one_of};
use store::clock;

/// Interval between two scale changes, in milliseconds.
const CHANGE_MS: (i64, i64) = (150, 900);

/// Replicas of a workload under load, and after it stops.
const REPLICAS: (i64, i64) = (0, 7);
const AT_REST: usize = 3;

/// Workloads per cluster.
const WORKLOADS: u64 = 2;

pub(super) struct Clusters {
    all: Vec<Arc<Cluster>>,
    _tasks: JoinSet<()>,
}

struct Cluster {
    api: Arc<SimulatedApi>,
    rng: SeededRng,
    changes: AtomicU64,
    stopped: AtomicBool,
}

impl Clusters {
    pub(super) fn start(run: &str, plan: &Plan, server: &str) -> Self {
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        for number in 0..plan.clusters {
            let seed = plan.seed.wrapping_mul(100).wrapping_add(u64::from(number));
            let name = ClusterName::from(format!("{run}-{number}"));
            let cluster = Arc::new(Cluster {
                api: Arc::new(SimulatedApi::new(&name, SimulatedCluster::new(settings(seed)), manifests())),
                rng: SeededRng::new(seed).child("load"),
                changes: AtomicU64::new(0),
                stopped: AtomicBool::new(false),
            });
            all.push(Arc::clone(&cluster));
            tasks.spawn(run_cluster(cluster, server.to_owned(), seed));
        }
        Self { all, _tasks: tasks }
    }

    /// Scales every workload at once, so that launches in flight may be obsolete when a server is
    /// back.
    pub(super) fn change_workloads(&self) {
        for cluster in &self.all {
            for workload in 0..WORKLOADS {
                cluster.change(workload);
            }
        }
    }

    /// Removes one NodeClaim by force in each cluster that has an instance; returns how many were
    /// removed. Servers accept one or two; if most of a cluster's NodeClaims are missing, they
    /// quarantine it.
    pub(super) fn remove_claims_by_force(&self) -> usize {
        self.all.iter().filter(|cluster| cluster.remove_claim_by_force()).count()
    }

    /// Stops the load; every workload keeps its replicas from here on.
    pub(super) fn stop_load(&self) {
        for cluster in &self.all {
            cluster.stopped.store(true, Ordering::Relaxed);
            for number in 0..WORKLOADS {
                cluster.api.with(|api| api.scale(&workload(number), AT_REST, clock::now()));
            }
        }
    }

    /// NodeClaims and the provider ids of their instances.
    pub(super) fn claims(&self) -> BTreeMap<(ClusterName, ClaimName), ProviderId> {
        self.all.iter().flat_map(|cluster| cluster.api.launched_claims()).collect()
    }

    /// Pods that ever ran, and pods that do not run.
    pub(super) fn pods(&self) -> (u64, usize) {
        let of_one = |cluster: &Arc<Cluster>| {
            cluster.api.with(|api| {
                let waiting = api.pods().filter(|pod| pod.phase != PodPhase::Running || pod.terminating).count();
                (api.ledger().pods_ran, waiting)
            })
        };
        self.all.iter().map(of_one).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Cluster {
    fn change(&self, number: u64) {
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let replicas = self.rng.child("replicas").child_number(change).between(REPLICAS);
        if !self.stopped.load(Ordering::Relaxed) {
            let replicas = usize::try_from(replicas).unwrap_or(0);
            self.api.with(|api| api.scale(&workload(number), replicas, clock::now()));
        }
    }

    fn remove_claim_by_force(&self) -> bool {
        self.api.with(|api| {
            let launched = api.claims().find(|claim| !claim.provider_id.is_empty()).map(|claim| claim.name.clone());
            launched.is_some_and(|claim| api.remove_claim(&claim))
        })
    }

    async fn load(&self) {
        loop {
            let change = self.changes.load(Ordering::Relaxed);
            let rng = self.rng.child("wait").child_number(change);
            tokio::time::sleep(Duration::from_millis(rng.between(CHANGE_MS).unsigned_abs())).await;
            self.change(rng.child("which").value() % WORKLOADS);
        }
    }
}

async fn run_cluster(cluster: Arc<Cluster>, server: String, seed: u64) {
    tokio::select! {
        () = cluster.load() => {}
        () = Arc::clone(&cluster.api).run_with_agent(server, seed) => {}
    }
}

/// Everything is fast: the server is under test, not the cluster.
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

fn workload(number: u64) -> Workload {
    Workload::new("crashes", &format!("load-{number}"), &pod_spec(3_000, 1 << 30))
}

/// One NodePool of instances with four processors, of which a pod requests three.
fn manifests() -> Vec<v1::ManifestRecord> {
    let requirements = [
        one_of("karpenter.k8s.aws/instance-cpu", &["4"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    manifests::manifests(&[manifests::pool("load", &requirements, "1s")])
}
