//! The scenario of a simulated cluster: a burst, mixed requirements, a scale-down, and the end. A
//! step begins when the previous one has ended, so the scenario is as fast as the system.

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{ClusterSettings, Workload, pod_spec};
use cluster::PodPhase;
use fleetwright_proto::v1;
use model::labels::{ARCH, CAPACITY_TYPE, ZONE};
use model::{Millis, Timestamp};
use serde_json::json;

use super::manifests::{self, one_of};

/// Pause after the end of a step.
const PAUSE: Millis = Millis::from_secs(2);

const GIB: i64 = 1 << 30;

/// The condition that ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepEnd {
    AllRun,
    /// Every pod runs and no node is empty.
    NoneEmpty,
    /// No NodeClaim and no node is left.
    NothingLeft,
}

/// A step: its name, the replicas of each workload (in the order of [`workloads`]), and its end.
struct Step {
    name: &'static str,
    replicas: [usize; 4],
    until: StepEnd,
}

const STEPS: [Step; 4] = [
    Step { name: "a burst of pods", replicas: [12, 0, 0, 0], until: StepEnd::AllRun },
    Step { name: "mixed requirements", replicas: [16, 3, 4, 6], until: StepEnd::AllRun },
    Step { name: "scaling down", replicas: [4, 0, 0, 0], until: StepEnd::NoneEmpty },
    Step { name: "scaling to nothing", replicas: [0, 0, 0, 0], until: StepEnd::NothingLeft },
];

/// The scenario of one cluster, and its current step.
pub(super) struct Scenario {
    workloads: [Workload; 4],
    step: usize,
    begun: bool,
    ended_since: Option<Timestamp>,
    /// The scenario repeats after its end.
    repeat: bool,
}

impl Scenario {
    pub(super) fn new(repeat: bool) -> Self {
        Self { workloads: workloads(), step: 0, begun: false, ended_since: None, repeat }
    }

    /// Starts the current step, or proceeds to the next one when it is due.
    pub(super) fn advance(&mut self, cluster: &mut SimulatedCluster, now: Timestamp) {
        let Some(step) = STEPS.get(self.step) else { return };
        if !self.begun {
            for (workload, replicas) in self.workloads.iter().zip(step.replicas) {
                cluster.scale(workload, replicas, now);
            }
            self.begun = true;
        }
        if !has_ended(cluster, step.until) {
            self.ended_since = None;
        } else if now.duration_since(*self.ended_since.get_or_insert(now)) >= PAUSE {
            (self.step, self.begun, self.ended_since) = (self.step + 1, false, None);
            if self.repeat {
                self.step %= STEPS.len();
            }
        }
    }

    pub(super) fn step_name(&self) -> &'static str {
        STEPS.get(self.step).map_or("the end", |step| step.name)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.step >= STEPS.len()
    }
}

fn has_ended(cluster: &SimulatedCluster, until: StepEnd) -> bool {
    let all_run =
        cluster.pods().all(|pod| pod.daemon.is_some() || (pod.phase == PodPhase::Running && !pod.terminating));
    match until {
        StepEnd::AllRun => all_run,
        StepEnd::NoneEmpty => all_run && cluster.empty_nodes().next().is_none(),
        StepEnd::NothingLeft => cluster.claims().next().is_none() && cluster.nodes().next().is_none(),
    }
}

/// Delays of the demo's clusters: seconds instead of a minute.
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

/// A DaemonSet with a pod on every node.
pub(super) fn daemon() -> Workload {
    let mut spec = pod_spec(100, GIB / 8);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    Workload::new("kube-system", "node-agent", &spec)
}

fn workloads() -> [Workload; 4] {
    let web = pod_spec(500, GIB);
    let mut cache = pod_spec(1_000, 6 * GIB);
    cache["topologySpreadConstraints"] = json!([{
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "cache"}},
    }]);
    let mut build = pod_spec(2_000, 4 * GIB);
    build["nodeSelector"] = json!({ARCH: "arm64"});
    let mut train = pod_spec(3_000, 6 * GIB);
    train["nodeSelector"] = json!({CAPACITY_TYPE: "spot"});
    train["tolerations"] = json!([{"key": "dedicated", "operator": "Equal", "value": "batch"}]);
    [("web", web), ("cache", cache), ("build", build), ("train", train)]
        .map(|(name, spec)| Workload::new("shop", name, &spec))
}

/// NodePools and their EC2NodeClass.
pub(super) fn manifests() -> Vec<v1::ManifestRecord> {
    let pool = |name: &str, arch: &str, paid: &[&str]| {
        let category = one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]);
        let mut pool = manifests::pool(name, &[category, one_of(ARCH, &[arch]), one_of(CAPACITY_TYPE, paid)], "2s");
        pool["spec"]["limits"] = json!({"cpu": "200"});
        pool
    };
    let mut batch = pool("batch", "amd64", &["spot"]);
    batch["spec"]["template"]["spec"]["taints"] =
        json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    manifests::manifests(&[
        pool("general", "amd64", &["spot", "on-demand"]),
        pool("arm", "arm64", &["on-demand"]),
        batch,
    ])
}
