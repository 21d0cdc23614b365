//! The load: simulated clusters with real agents, whose workloads come and go by chance. Every pod fills a machine, so that
//! every pod that comes is a launch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agent::Target;
use cloud::simulated::SeededRng;
use engine::cluster::PodPhase;
use engine::model::resources::{CPU, MEMORY, PODS};
use engine::model::{Labels, PodShape, Resources, Text};
use fleetwright_proto::v1;
use simulator::SimulatedCluster;
use simulator::cluster::{ClusterSettings, Workload};
use tokio::task::JoinSet;

use super::Plan;
use crate::clock;
use crate::demo::SimulatedApi;
use crate::demo::owner::{self, one_of};

/// Between two changes of a workload, in milliseconds.
const CHANGE_MS: (i64, i64) = (150, 900);

/// Replicas of a workload while the load lasts, and when it rests.
const REPLICAS: (i64, i64) = (0, 7);
const AT_REST: usize = 3;

/// Workloads of each cluster.
const WORKLOADS: u64 = 2;

/// The clusters.
pub(super) struct Clusters {
    all: Vec<Arc<Cluster>>,
    _tasks: JoinSet<()>,
}

struct Cluster {
    name: String,
    api: Arc<SimulatedApi>,
    dice: SeededRng,
    changes: AtomicU64,
    rests: AtomicBool,
}

impl Clusters {
    pub(super) fn start(run: &str, plan: &Plan, server: &str) -> Self {
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        for number in 0..plan.clusters {
            let seed = plan.seed.wrapping_mul(100).wrapping_add(u64::from(number));
            let name = format!("{run}-{number}");
            let cluster = Arc::new(Cluster {
                api: Arc::new(SimulatedApi::new(&name, SimulatedCluster::new(settings(seed)), manifests())),
                name,
                dice: SeededRng::new(seed).child("load"),
                changes: AtomicU64::new(0),
                rests: AtomicBool::new(false),
            });
            all.push(Arc::clone(&cluster));
            tasks.spawn(live(cluster, server.to_owned(), seed));
        }
        Self { all, _tasks: tasks }
    }

    /// Every workload changes at once: what was bought may not be needed any more when a server is back.
    pub(super) fn stir(&self) {
        for cluster in &self.all {
            for workload in 0..WORKLOADS {
                cluster.change(workload);
            }
        }
    }

    /// In each cluster that has a machine somebody takes the finalizers of one NodeClaim off and deletes it; says how many went.
    /// Servers take one or two for what they are: where most of a cluster's NodeClaims are missing they wait for a person's
    /// word.
    pub(super) fn lose_claims(&self) -> usize {
        self.all.iter().filter(|cluster| cluster.lose_claim()).count()
    }

    /// The load stops; every workload keeps the same number of pods from here on.
    pub(super) fn rest(&self) {
        for cluster in &self.all {
            cluster.rests.store(true, Ordering::Relaxed);
            for number in 0..WORKLOADS {
                cluster.api.with(|api| api.scale(&workload(number), AT_REST, clock::now()));
            }
        }
    }

    /// NodeClaims (cluster/name) with the provider id of their machine.
    pub(super) fn claims(&self) -> BTreeMap<String, String> {
        let of_one = |cluster: &Arc<Cluster>| {
            let name = &cluster.name;
            cluster.api.with(|api| {
                let launched = api.claims().filter(|claim| !claim.provider_id.is_empty());
                launched
                    .map(|claim| (format!("{name}/{}", claim.name), claim.provider_id.to_string()))
                    .collect::<Vec<_>>()
            })
        };
        self.all.iter().flat_map(of_one).collect()
    }

    /// Pods that ever ran, and pods that do not run.
    pub(super) fn pods(&self) -> (u64, usize) {
        let of_one = |cluster: &Arc<Cluster>| {
            cluster.api.with(|api| {
                let waiting = api.pods().filter(|pod| pod.phase != PodPhase::Running || pod.terminating).count();
                (api.book().pods_ran, waiting)
            })
        };
        self.all.iter().map(of_one).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Cluster {
    /// Gives a workload another number of pods.
    fn change(&self, number: u64) {
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let replicas = self.dice.child("replicas").child_number(change).between(REPLICAS);
        if !self.rests.load(Ordering::Relaxed) {
            let replicas = usize::try_from(replicas).unwrap_or(0);
            self.api.with(|api| api.scale(&workload(number), replicas, clock::now()));
        }
    }

    fn lose_claim(&self) -> bool {
        self.api.with(|api| {
            let launched = api.claims().find(|claim| !claim.provider_id.is_empty()).map(|claim| claim.name.clone());
            launched.is_some_and(|claim| api.remove_claim(&claim))
        })
    }

    async fn load(&self) {
        loop {
            let change = self.changes.load(Ordering::Relaxed);
            let die = self.dice.child("wait").child_number(change);
            tokio::time::sleep(Duration::from_millis(die.between(CHANGE_MS).unsigned_abs())).await;
            self.change(die.child("which").value() % WORKLOADS);
        }
    }
}

async fn live(cluster: Arc<Cluster>, server: String, seed: u64) {
    let target = Target {
        server,
        credentials: agent::config::Credentials::default(),
        cluster_name: cluster.name.clone(),
        region: "us-east-1".to_owned(),
        karpenter_absent: false,
        seed,
    };
    let api = Arc::clone(&cluster.api);
    tokio::select! {
        () = cluster.api.drive() => {}
        () = cluster.load() => {}
        _never = agent::run(api, target, std::future::pending()) => {}
    }
}

/// Everything is quick: it is the server that is looked at.
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
    let name = format!("load-{number}");
    let requests = Resources::from_iter([(CPU, 3_000), (MEMORY, 1 << 30), (PODS, 1)]);
    let labels = Labels::from([(Text::from("app"), Text::from(name.as_str()))]);
    Workload {
        namespace: Text::from("crashes"),
        name: Text::from(name),
        shape: Arc::new(PodShape { requests, ..PodShape::default() }),
        labels: Arc::new(labels),
        do_not_disrupt: None,
    }
}

/// One pool of machines with four processors, of which a pod of the load takes three.
fn manifests() -> Vec<v1::ManifestRecord> {
    let requirements = [
        one_of("karpenter.k8s.aws/instance-cpu", &["4"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    owner::manifests(&[owner::pool("load", &requirements, "1s")])
}
