//! The load: simulated clusters whose workloads are scaled at random. Every pod fills an instance, so each new pod is a
//! launch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cloud::simulated::SeededRng;
use tokio::task::JoinSet;

use super::plan::Plan;
use crate::demo::SimulatedApi;
use crate::fleet::Fleet;
use crate::kube::cluster::{Workload, pod_spec};
use store::clock;

/// Interval between two scale changes, in milliseconds.
const CHANGE_MS: (i64, i64) = (150, 900);

/// Replicas of a workload under load, and after it stops.
const REPLICAS: (i64, i64) = (0, 7);
const AT_REST: usize = 3;

/// Workloads per cluster.
const WORKLOADS: u64 = 2;

pub(super) struct Clusters {
    pub(super) fleet: Fleet,
    loads: Vec<Arc<ClusterLoad>>,
    _tasks: JoinSet<()>,
}

struct ClusterLoad {
    api: Arc<SimulatedApi>,
    rng: SeededRng,
    changes: AtomicU64,
    stopped: AtomicBool,
}

impl Clusters {
    pub(super) fn start(run: &str, plan: &Plan, server: &str) -> Self {
        let mut fleet = Fleet::of_fast_clusters(run, plan.clusters, plan.options.seed);
        let load = |(api, seed): &(Arc<SimulatedApi>, u64)| {
            Arc::new(ClusterLoad {
                api: Arc::clone(api),
                rng: SeededRng::new(*seed).child("load"),
                changes: AtomicU64::new(0),
                stopped: AtomicBool::new(false),
            })
        };
        let loads: Vec<Arc<ClusterLoad>> = fleet.clusters.iter().map(load).collect();
        fleet.connect(&[server.to_owned()]);
        let tasks = loads.iter().map(|load| Arc::clone(load).run()).collect();
        Self { fleet, loads, _tasks: tasks }
    }

    /// Scales every workload at once, so that launches in flight may be obsolete when a server is
    /// back.
    pub(super) fn change_workloads(&self) {
        for load in &self.loads {
            for workload in 0..WORKLOADS {
                load.change(workload);
            }
        }
    }

    /// Removes one NodeClaim by force in each cluster that has an instance; returns how many were
    /// removed. Servers accept one or two; if most of a cluster's NodeClaims are missing, they
    /// quarantine it.
    pub(super) fn remove_claims_by_force(&self) -> usize {
        self.loads.iter().filter(|load| load.remove_claim_by_force()).count()
    }

    /// Stops the load; every workload keeps its replicas from here on.
    pub(super) fn stop_load(&self) {
        for load in &self.loads {
            load.stopped.store(true, Ordering::Relaxed);
            for number in 0..WORKLOADS {
                load.api.with(|api| api.scale(&workload(number), AT_REST, clock::now()));
            }
        }
    }

    /// Pods that ever ran, and pods that do not run.
    pub(super) fn pods(&self) -> (u64, usize) {
        let ran = self.loads.iter().map(|load| load.api.with(|api| api.ledger().pods_ran)).sum();
        (ran, self.fleet.waiting())
    }
}

impl ClusterLoad {
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

    async fn run(self: Arc<Self>) {
        loop {
            let change = self.changes.load(Ordering::Relaxed);
            let rng = self.rng.child("wait").child_number(change);
            tokio::time::sleep(Duration::from_millis(rng.between(CHANGE_MS).unsigned_abs())).await;
            self.change(rng.child("which").value() % WORKLOADS);
        }
    }
}

/// A pod requests three of the four processors of an instance.
fn workload(number: u64) -> Workload {
    Workload::new("crashes", &format!("load-{number}"), &pod_spec(3_000, 1 << 30))
}
