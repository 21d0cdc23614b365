//! Clusters with full nodes, and bursts of pods that do not fit.
//!
//! All clusters are copies of one and share its strings: a cluster costs only what differs. An idle
//! cluster uses no processor time.

use std::sync::Arc;
use std::time::Duration;

use agent::Cluster;

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{ClusterSettings, Workload, pod_spec};
use crate::kube::settled::{Machine, settled};
use fleetwright_proto::{simulation, v1};
use model::labels::INSTANCE_TYPE;
use model::resources::{CPU, MEMORY, PODS};
use model::{ClaimName, ClusterName, Millis, PodKey, ProviderId, Resources};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::plan::Plan;
use crate::demo::SimulatedApi;
use crate::demo::manifests::{self, one_of};
use store::clock;

/// The NodePool of the full nodes, and their instance type.
const BASE_POOL: &str = "base";
const BASE_TYPE: &str = "m5.4xlarge";
const BASE_ZONE: &str = "us-east-1a";
const BASE_CAPACITY_TYPE: &str = "on-demand";

/// Age of the clusters: everything in them has settled.
const AGE: Millis = Millis::from_hours(1);

pub(super) struct Clusters {
    all: Vec<Arc<SimulatedApi>>,
    /// Whether bursts are generated; the pods of the last one stay.
    bursting: watch::Sender<Option<bool>>,
    tasks: JoinSet<()>,
}

impl Clusters {
    /// The clusters of `plan`, without their agents.
    pub(super) fn create(plan: &Plan) -> Self {
        let (bursting, _) = watch::channel(None);
        let run = clock::now().as_millis();
        let first = full_cluster(plan);
        let one = |number: usize| {
            let name = ClusterName::from(format!("load-{run:x}-{number}"));
            let mut cluster = first.copy(seed_of(plan, number));
            cluster.replace_provider_ids(|claim| provider_id(run, number * plan.nodes, claim));
            Arc::new(SimulatedApi::new(&name, cluster, manifests()))
        };
        Self { all: (0..plan.clusters).map(one).collect(), bursting, tasks: JoinSet::new() }
    }

    /// The machines of the full nodes, by cluster.
    pub(super) fn instances(&self) -> impl Iterator<Item = Vec<simulation::v1::Instance>> {
        self.all.iter().map(|api| {
            let of_claim = |((cluster, claim), provider): ((ClusterName, ClaimName), ProviderId)| {
                instance(&cluster, &api.identity().uid, &claim, &provider)
            };
            api.launched_claims().into_iter().map(of_claim).collect()
        })
    }

    /// Starts the agents, with the server at `target`.
    pub(super) fn start(&mut self, plan: &Plan, target: &str) {
        for (number, api) in self.all.iter().enumerate() {
            // Bursts of different clusters are spread evenly over the period.
            let offset = plan.period.mul_f64(number as f64 / plan.clusters.max(1) as f64);
            let pattern = ArrivalPattern { offset, period: plan.period, pods: plan.burst };
            let (api, seed) = (Arc::clone(api), seed_of(plan, number));
            self.tasks.spawn(run_cluster(api, target.to_owned(), seed, pattern, self.bursting.subscribe()));
        }
    }

    pub(super) fn burst(&self) {
        self.bursting.send_replace(Some(true));
    }

    /// Stops the bursts; existing pods stay.
    pub(super) fn stop_bursts(&self) {
        self.bursting.send_replace(Some(false));
    }

    /// Longest time from a pod's creation to its running, in milliseconds.
    pub(super) fn longest_wait(&self) -> i64 {
        let of_one = |api: &Arc<SimulatedApi>| api.with(|cluster| cluster.ledger().longest_wait_ms);
        self.all.iter().map(of_one).max().unwrap_or(0)
    }

    /// Created pods, including the initial ones, and pods of bursts that do not run.
    pub(super) fn pods(&self) -> (u64, usize) {
        let is_burst = |key: &PodKey| key.name.starts_with("burst-");
        let of_one = |api: &Arc<SimulatedApi>| {
            api.with(|cluster| {
                let waiting = cluster.ledger().never_ran().filter(|key| is_burst(key)).count();
                (cluster.ledger().pods_created, waiting)
            })
        };
        self.all.iter().map(of_one).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Timing and size of a cluster's bursts.
#[derive(Debug, Clone, Copy)]
struct ArrivalPattern {
    /// Delay of the first burst.
    offset: Duration,
    period: Duration,
    pods: usize,
}

async fn run_cluster(
    api: Arc<SimulatedApi>,
    server: String,
    seed: u64,
    pattern: ArrivalPattern,
    bursting: watch::Receiver<Option<bool>>,
) {
    tokio::select! {
        () = bursts(&api, pattern, bursting) => {}
        () = Arc::clone(&api).run_with_agent(server, seed) => {}
    }
}

/// Creates and deletes bursts until they are stopped.
async fn bursts(api: &SimulatedApi, pattern: ArrivalPattern, mut bursting: watch::Receiver<Option<bool>>) {
    if bursting.wait_for(Option::is_some).await.is_err() {
        return std::future::pending().await;
    }
    let mut ended = async move || bursting.wait_for(|wanted| *wanted == Some(false)).await.is_ok();
    let mut wait = pattern.offset;
    loop {
        for replicas in [pattern.pods, 0] {
            if tokio::time::timeout(wait, ended()).await.is_ok() {
                return std::future::pending().await;
            }
            wait = pattern.period / 2;
            api.with(|cluster| cluster.scale(&workload("burst", 2_000), replicas, clock::now()));
        }
    }
}

fn seed_of(plan: &Plan, cluster: usize) -> u64 {
    plan.seed.wrapping_mul(10_000).wrapping_add(cluster as u64)
}

/// Provider id of the machine of `claim`, whose cluster comes after `earlier` machines of others, in a run that started at
/// `run`, in milliseconds: a cloud may have the machines of several runs.
fn provider_id(run: i64, earlier: usize, claim: &ClaimName) -> ProviderId {
    let node: usize = claim.trim_start_matches("base-").parse().unwrap_or_default();
    ProviderId::from(format!("aws:///{BASE_ZONE}/i-{run:011x}{:06x}", earlier + node))
}

fn instance(
    cluster: &ClusterName,
    cluster_uid: &str,
    claim: &ClaimName,
    provider_id: &ProviderId,
) -> simulation::v1::Instance {
    let id = provider_id.rsplit('/').next().unwrap_or_default();
    simulation::v1::Instance {
        id: id.to_owned(),
        provider_id: provider_id.to_string(),
        instance_type: BASE_TYPE.to_owned(),
        zone: BASE_ZONE.to_owned(),
        capacity_type: BASE_CAPACITY_TYPE.to_owned(),
        cluster: cluster.to_string(),
        cluster_uid: cluster_uid.to_owned(),
        claim: claim.to_string(),
        pool: BASE_POOL.to_owned(),
        launched_ms: (clock::now() - AGE).as_millis(),
        ..simulation::v1::Instance::default()
    }
}

/// A cluster with nodes full of running pods. A node has 15.5 of 16 processors allocatable.
fn full_cluster(plan: &Plan) -> SimulatedCluster {
    let machine = |node: usize| Machine {
        claim: ClaimName::from(format!("base-{node}")),
        pool: BASE_POOL,
        // Each copy of the cluster has its own.
        provider_id: ProviderId::from(format!("aws:///{BASE_ZONE}/i-{node:017x}")),
        instance_type: BASE_TYPE,
        zone: BASE_ZONE,
        capacity_type: BASE_CAPACITY_TYPE,
        allocatable: Resources::from_iter([(CPU, 15_500), (MEMORY, 60 << 30), (PODS, 110)]),
    };
    let machines: Vec<Machine<'_>> = (0..plan.nodes).map(machine).collect();
    let (mut cluster, joined) = settled(settings(plan.seed), &machines, clock::now() - AGE);
    let each = 15_000 * i64::try_from(plan.nodes).unwrap_or(0) / i64::try_from(plan.pods.max(1)).unwrap_or(1);
    cluster.scale(&workload("base", each), plan.pods, joined);
    drop(cluster.tick(joined + Millis::from_mins(2)));
    cluster
}

/// The whole lifecycle of an instance, from pending pods to removal, fits into the minute between
/// two bursts.
fn settings(seed: u64) -> ClusterSettings {
    ClusterSettings {
        seed,
        join_ms: (3_000, 8_000),
        ready_ms: (500, 2_000),
        startup_ms: (500, 1_000),
        start_ms: (500, 1_500),
        grace_ms: (500, 1_500),
        node_gone_ms: (500, 1_500),
        ..ClusterSettings::default()
    }
}

fn workload(name: &str, millicores: i64) -> Workload {
    Workload::new("load", name, &pod_spec(millicores, 1 << 28))
}

/// NodePools whose nodes are consolidated: every change of a cluster makes the server examine all its nodes. Those of the
/// full nodes offer nothing cheaper, so that they stay.
fn manifests() -> Vec<v1::ManifestRecord> {
    let of_bursts = [
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    let of_full = [one_of(INSTANCE_TYPE, &[BASE_TYPE]), one_of("karpenter.sh/capacity-type", &["on-demand"])];
    let pools = [manifests::pool("load", &of_bursts, "5s"), manifests::pool(BASE_POOL, &of_full, "5s")];
    let consolidated = pools.map(|mut pool| {
        pool["spec"]["disruption"]["consolidationPolicy"] = "WhenEmptyOrUnderutilized".into();
        pool
    });
    manifests::manifests(&consolidated)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cluster::PodPhase;

    use super::*;

    fn plan(clusters: usize) -> Plan {
        Plan { clusters, nodes: 3, pods: 60, burst: 10, seed: 1, ..Plan::default() }
    }

    #[test]
    fn a_cluster_begins_full_and_at_rest() {
        let cluster = full_cluster(&plan(1)).copy(7);
        assert_eq!(cluster.nodes().filter(|node| node.ready && node.is_initialized()).count(), 3);
        // 3 nodes with 15.5 processors each; 60 pods of 45/60 = 0.75 take 45 of 46.5.
        assert_eq!(cluster.pods().filter(|pod| pod.phase == PodPhase::Running).count(), 60);
    }

    #[test]
    fn each_cluster_has_machines_of_its_own() {
        let clusters = Clusters::create(&plan(2));
        let instances: Vec<simulation::v1::Instance> = clusters.instances().flatten().collect();
        let ids: BTreeSet<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        // 2 clusters of 3 nodes.
        assert_eq!((instances.len(), ids.len()), (6, 6));
        let nodes: Vec<ProviderId> = (clusters.all.iter())
            .flat_map(|api| {
                api.with(|cluster| cluster.nodes().map(|node| node.provider_id.clone()).collect::<Vec<_>>())
            })
            .collect();
        let provided: Vec<&str> = instances.iter().map(|instance| instance.provider_id.as_str()).collect();
        assert_eq!(nodes.iter().map(|id| id.as_ref()).collect::<Vec<&str>>(), provided);
        assert!(instances.iter().all(|one| one.provider_id == format!("aws:///us-east-1a/{}", one.id)));
        assert!(instances[0].cluster_uid == format!("simulated-{}", instances[0].cluster), "{:?}", instances[0]);
    }
}
