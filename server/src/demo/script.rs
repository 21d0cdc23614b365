//! What happens in a simulated cluster: a burst, mixed requirements, a scale-down, and the end. A scene begins when the one
//! before has come to rest, so the script is as fast as the system that it shows.

use std::sync::Arc;

use engine::cluster::{DaemonRecord, PodPhase};
use engine::model::labels::{ARCH, CAPACITY_TYPE, SelectorOperator, SelectorTerm, ZONE};
use engine::model::resources::{CPU, MEMORY, PODS};
use engine::model::{
    LabelSelector, Labels, PodShape, Resources, SpreadConstraint, Text, Timestamp, Toleration, TolerationOperator,
};
use fleetwright_proto::v1;
use simulator::SimulatedCluster;
use simulator::cluster::{ClusterSettings, Workload};

use super::owner::{self, one_of};

/// How long a scene that has come to rest is left to look at.
const REST_MS: i64 = 2_000;

const GIB: i64 = 1 << 30;

/// What a scene waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Every pod runs.
    AllRun,
    /// Every pod runs and no node is empty.
    NoneEmpty,
    /// Nothing is left of what was bought.
    NothingLeft,
}

/// One scene: its name, the number of replicas of each workload (in the order of [`workloads`]), and its end.
struct Scene {
    name: &'static str,
    replicas: [usize; 4],
    rest: Rest,
}

const SCENES: [Scene; 4] = [
    Scene { name: "a burst of pods", replicas: [12, 0, 0, 0], rest: Rest::AllRun },
    Scene { name: "mixed requirements", replicas: [16, 3, 4, 6], rest: Rest::AllRun },
    Scene { name: "scaling down", replicas: [4, 0, 0, 0], rest: Rest::NoneEmpty },
    Scene { name: "scaling to nothing", replicas: [0, 0, 0, 0], rest: Rest::NothingLeft },
];

/// The script of one cluster, and where it stands.
pub(super) struct Script {
    workloads: [Workload; 4],
    scene: usize,
    begun: bool,
    rested_since: Option<Timestamp>,
    /// The script begins again when it has ended.
    repeat: bool,
}

impl Script {
    pub(super) fn new(repeat: bool) -> Self {
        Self { workloads: workloads(), scene: 0, begun: false, rested_since: None, repeat }
    }

    /// Goes on if it is time to.
    pub(super) fn advance(&mut self, cluster: &mut SimulatedCluster, now: Timestamp) {
        let Some(scene) = SCENES.get(self.scene) else { return };
        if !self.begun {
            for (workload, replicas) in self.workloads.iter().zip(scene.replicas) {
                cluster.scale(workload, replicas, now);
            }
            self.begun = true;
        }
        if !at_rest(cluster, scene.rest) {
            self.rested_since = None;
        } else if now.millis_since(*self.rested_since.get_or_insert(now)) >= REST_MS {
            (self.scene, self.begun, self.rested_since) = (self.scene + 1, false, None);
            if self.repeat {
                self.scene %= SCENES.len();
            }
        }
    }

    /// What is going on, for people.
    pub(super) fn scene(&self) -> &'static str {
        SCENES.get(self.scene).map_or("the end", |scene| scene.name)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.scene >= SCENES.len()
    }
}

fn at_rest(cluster: &SimulatedCluster, rest: Rest) -> bool {
    let all_run =
        cluster.pods().all(|pod| pod.daemon.is_some() || (pod.phase == PodPhase::Running && !pod.terminating));
    match rest {
        Rest::AllRun => all_run,
        Rest::NoneEmpty => all_run && cluster.empty_nodes().next().is_none(),
        Rest::NothingLeft => cluster.claims().next().is_none() && cluster.nodes().next().is_none(),
    }
}

/// How fast things go in the demo: seconds, where a real cluster takes a minute.
pub(super) fn settings(seed: u64) -> ClusterSettings {
    ClusterSettings {
        seed,
        join_ms: (1_500, 3_000),
        ready_ms: (300, 800),
        startup_ms: (100, 300),
        start_ms: (200, 800),
        grace_ms: (200, 600),
        ..ClusterSettings::default()
    }
}

/// The DaemonSet that stands on every node.
pub(super) fn daemon() -> DaemonRecord {
    let everything =
        Toleration { key: Text::default(), operator: TolerationOperator::Exists, value: Text::default(), effect: None };
    let shape = PodShape { tolerations: vec![everything], ..shape(100, GIB / 8) };
    DaemonRecord {
        namespace: Text::from("kube-system"),
        name: Text::from("node-agent"),
        shape: Arc::new(shape),
        labels: Arc::new(labels("node-agent")),
    }
}

fn workloads() -> [Workload; 4] {
    let web = shape(500, GIB);
    let mut cache = shape(1_000, 6 * GIB);
    cache.spread = vec![over_zones("cache")];
    let mut build = shape(2_000, 4 * GIB);
    build.node_selector.insert(Text::from(ARCH), Text::from("arm64"));
    let mut train = shape(3_000, 6 * GIB);
    train.node_selector.insert(Text::from(CAPACITY_TYPE), Text::from("spot"));
    train.tolerations = vec![Toleration {
        key: Text::from("dedicated"),
        operator: TolerationOperator::Equal,
        value: Text::from("batch"),
        effect: None,
    }];
    [workload("web", web), workload("cache", cache), workload("build", build), workload("train", train)]
}

fn workload(name: &str, shape: PodShape) -> Workload {
    Workload {
        namespace: Text::from("shop"),
        name: Text::from(name),
        shape: Arc::new(shape),
        labels: Arc::new(labels(name)),
        do_not_disrupt: None,
    }
}

fn shape(millicores: i64, bytes: i64) -> PodShape {
    let requests = Resources::from_iter([(CPU, millicores), (MEMORY, bytes), (PODS, 1)]);
    PodShape { requests, ..PodShape::default() }
}

fn labels(app: &str) -> Labels {
    Labels::from([(Text::from("app"), Text::from(app))])
}

fn over_zones(app: &str) -> SpreadConstraint {
    let own = SelectorTerm { key: Text::from("app"), operator: SelectorOperator::In, values: vec![Text::from(app)] };
    SpreadConstraint {
        topology_key: Text::from(ZONE),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: Some(LabelSelector::new(vec![own])),
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

/// NodePools and their NodeClass, as the cluster's owner wrote them.
pub(super) fn manifests() -> Vec<v1::ManifestRecord> {
    let pool = |name: &str, arch: &str, paid: &[&str]| {
        let category = one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]);
        let mut pool = owner::pool(name, &[category, one_of(ARCH, &[arch]), one_of(CAPACITY_TYPE, paid)], "2s");
        pool["spec"]["limits"] = serde_json::json!({"cpu": "200"});
        pool
    };
    let mut batch = pool("batch", "amd64", &["spot"]);
    batch["spec"]["template"]["spec"]["taints"] =
        serde_json::json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    owner::manifests(&[pool("general", "amd64", &["spot", "on-demand"]), pool("arm", "arm64", &["on-demand"]), batch])
}
