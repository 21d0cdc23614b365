//! Clusters that are full, and bursts of pods that fit nowhere.

use std::sync::Arc;
use std::time::Duration;

use agent::Target;
use engine::cluster::PodPhase;
use engine::control::{ClaimOrder, Instruction, LaunchedFacts};
use engine::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE};
use engine::model::resources::{CPU, MEMORY, PODS};
use engine::model::{Labels, PodShape, Requirements, Resources, Text, Timestamp};
use fleetwright_proto::v1;
use simulator::SimulatedCluster;
use simulator::cluster::{ClusterSettings, Workload};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Plan;
use crate::clock;
use crate::demo::SimulatedApi;
use crate::demo::owner::{self, one_of};

/// Between two bursts of a cluster; at the half of it the pods of the last one go.
const PERIOD: Duration = Duration::from_secs(60);

/// How long ago the clusters came to be, in milliseconds: everything in them has settled.
const AGE_MS: i64 = 3_600_000;

/// The clusters.
pub(super) struct Clusters {
    all: Vec<Arc<SimulatedApi>>,
    bursting: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Clusters {
    pub(super) fn start(plan: &Plan) -> Self {
        let (bursting, _) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        let run = clock::now().0;
        for number in 0..plan.clusters {
            let name = format!("load-{run:x}-{number}");
            let api = Arc::new(SimulatedApi::new(&name, full(plan, number), manifests()));
            all.push(Arc::clone(&api));
            // Bursts are spread over the period, as minutes of different clusters are.
            let offset = PERIOD.mul_f64(number as f64 / plan.clusters.max(1) as f64);
            let target = Target {
                server: plan.target.clone(),
                credentials: agent::config::Credentials::default(),
                cluster_name: name,
                region: "us-east-1".to_owned(),
                seed: plan.seed.wrapping_add(number as u64),
            };
            tasks.spawn(live(api, target, offset, plan.burst, bursting.subscribe()));
        }
        Self { all, bursting, _tasks: tasks }
    }

    /// Bursts come from here on.
    pub(super) fn burst(&self) {
        self.bursting.send_replace(true);
    }

    /// Pods that ran since the clusters came to be, those that they came to be with apart, and pods that wait.
    pub(super) fn pods(&self) -> (u64, usize) {
        let of_one = |api: &Arc<SimulatedApi>| {
            api.with(|cluster| {
                let burst = |name: &str| name.starts_with("burst-");
                let waiting =
                    cluster.pods().filter(|pod| burst(&pod.key.name) && pod.phase == PodPhase::Pending).count();
                (cluster.book().pods_created, waiting)
            })
        };
        self.all.iter().map(of_one).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

async fn live(
    api: Arc<SimulatedApi>,
    target: Target,
    offset: Duration,
    burst: usize,
    mut bursting: watch::Receiver<bool>,
) {
    let bursts = async {
        if bursting.wait_for(|begun| *begun).await.is_err() {
            return std::future::pending().await;
        }
        tokio::time::sleep(offset).await;
        loop {
            api.with(|cluster| cluster.scale(&workload("burst", 2_000), burst, clock::now()));
            tokio::time::sleep(PERIOD / 2).await;
            api.with(|cluster| cluster.scale(&workload("burst", 2_000), 0, clock::now()));
            tokio::time::sleep(PERIOD / 2).await;
        }
    };
    tokio::select! {
        () = api.drive() => {}
        () = bursts => {}
        _never = agent::run(Arc::clone(&api), target, std::future::pending()) => {}
    }
}

/// A cluster whose nodes are full of pods that run.
fn full(plan: &Plan, number: usize) -> SimulatedCluster {
    let seed = plan.seed.wrapping_mul(10_000).wrapping_add(number as u64);
    let mut cluster = SimulatedCluster::new(ClusterSettings { seed, ..ClusterSettings::default() });
    let born = Timestamp(clock::now().0 - AGE_MS);
    for node in 0..plan.nodes {
        let claim = Text::from(format!("base-{node}"));
        for instruction in [create(&claim), launched(&claim, number, node)] {
            let _told = cluster.instruct(&instruction, born);
        }
    }
    // Machines join within a minute; then they are taken in as a server would.
    let joined = Timestamp(born.0 + 120_000);
    drop(cluster.tick(joined));
    let names: Vec<(Text, Text)> =
        cluster.nodes().map(|node| (Text::from(node.name.trim_start_matches("ip-")), node.name.clone())).collect();
    for (claim, node) in names {
        let register = Instruction::RegisterNode {
            claim: claim.clone(),
            node: node.clone(),
            labels: Labels::new(),
            taints: Vec::new(),
            hints: Vec::new(),
        };
        for instruction in [register, Instruction::InitializeNode { claim, node }] {
            let _told = cluster.instruct(&instruction, joined);
        }
    }
    let each = 15_000 * i64::try_from(plan.nodes).unwrap_or(0) / i64::try_from(plan.pods.max(1)).unwrap_or(1);
    cluster.scale(&workload("base", each), plan.pods, joined);
    drop(cluster.tick(Timestamp(joined.0 + 120_000)));
    cluster
}

/// A machine with 16 processors, of which pods can use 15.5.
fn create(claim: &Text) -> Instruction {
    Instruction::CreateClaim(ClaimOrder {
        name: claim.clone(),
        pool: Text::from("load"),
        node_class: Text::from("default"),
        labels: labels(&[(NODEPOOL, "load"), (NODECLASS, "default"), (CAPACITY_TYPE, "on-demand")]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::new(),
        requests: Resources::new(),
        expire_after_ms: None,
        termination_grace_period_ms: None,
    })
}

fn launched(claim: &Text, cluster: usize, node: usize) -> Instruction {
    let amounts = Resources::from_iter([(CPU, 15_500), (MEMORY, 60 << 30), (PODS, 110)]);
    Instruction::MarkLaunched {
        claim: claim.clone(),
        facts: LaunchedFacts {
            provider_id: Text::from(format!("aws:///us-east-1a/i-{cluster:08x}{node:08x}")),
            labels: labels(&[(INSTANCE_TYPE, "m5.4xlarge"), (ZONE, "us-east-1a"), (CAPACITY_TYPE, "on-demand")]),
            capacity: amounts.clone(),
            allocatable: amounts,
        },
    }
}

fn workload(name: &str, millicores: i64) -> Workload {
    let requests = Resources::from_iter([(CPU, millicores), (MEMORY, 1 << 28), (PODS, 1)]);
    Workload {
        namespace: Text::from("load"),
        name: Text::from(name),
        shape: Arc::new(PodShape { requests, ..PodShape::default() }),
        labels: Arc::new(labels(&[("app", name)])),
        do_not_disrupt: None,
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

fn manifests() -> Vec<v1::ManifestRecord> {
    let requirements = [
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    owner::manifests(&[owner::pool("load", &requirements, "5s")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_begins_full_and_at_rest() {
        let plan = Plan {
            clusters: 1,
            nodes: 3,
            pods: 60,
            burst: 10,
            target: String::new(),
            page: "127.0.0.1:1".parse().unwrap(),
            server_pid: None,
            database_url: None,
            lasts: Duration::ZERO,
            seed: 1,
        };
        let cluster = full(&plan, 0);
        assert_eq!(cluster.nodes().filter(|node| node.ready && node.is_initialized()).count(), 3);
        // 3 nodes with 15.5 processors each; 60 pods of 45/60 = 0.75 take 45 of 46.5.
        assert_eq!(cluster.pods().filter(|pod| pod.phase == PodPhase::Running).count(), 60);
    }
}
