//! The plain input that every feature changes in one respect: Deployments of many sizes, one
//! NodePool, all of EC2.

use anyhow::{Result, anyhow};
use manifests::Source;
use model::Timestamp;
use model::input::PlanningInput;
use planning_input::Options;
use serde_json::{Value, json};

/// `topology.kubernetes.io/zone`.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// `kubernetes.io/hostname`.
pub const HOST: &str = "kubernetes.io/hostname";
/// `node.kubernetes.io/instance-type`.
pub const TYPE: &str = "node.kubernetes.io/instance-type";
/// Zones that the pools may use.
pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// Workloads of the smallest scenario, and of every scenario that grows by replicas.
pub const WORKLOADS: usize = 40;
/// Pods of each workload in scenarios that grow by workloads.
pub const REPLICAS: usize = 25;
/// The time of the decision, 2026-01-01T00:30:00Z: half an hour after the oldest pod was created.
const NOW: Timestamp = Timestamp::from_millis(1_767_227_400_000);

/// How a scenario reaches its number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// [`WORKLOADS`] workloads, more replicas of each.
    Replicas,
    /// More workloads of [`REPLICAS`] replicas each.
    Workloads,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub pods: usize,
    pub workloads: Vec<Value>,
    /// NodePools; the first is `default`.
    pub pools: Vec<Value>,
    /// The EC2NodeClass and other objects.
    pub others: Vec<Value>,
    /// Whether the workloads' pods are listed one by one, as in a cluster.
    pub alone: bool,
    /// Whether each pod has a label of its own, as those of a StatefulSet have; requires `alone`.
    pub own_labels: bool,
    /// Whether each pod mounts a claim of its own name; requires `alone`.
    own_claims: bool,
    /// Instances left in capacity reservations, by id.
    pub reservations: Vec<(String, i64)>,
}

impl Scenario {
    /// `pods` pods without any constraint.
    pub fn plain(pods: usize, growth: Growth) -> Self {
        let workloads = match growth {
            Growth::Replicas => WORKLOADS,
            Growth::Workloads => pods.div_ceil(REPLICAS).max(1),
        };
        Self {
            pods,
            workloads: self::workloads(pods, workloads),
            pools: vec![pool("default")],
            others: vec![class()],
            alone: false,
            own_labels: false,
            own_claims: false,
            reservations: Vec::new(),
        }
    }

    /// Changes the pod specification of every workload; the number is the workload's.
    pub fn each_spec(&mut self, change: impl Fn(usize, &mut Value)) {
        for (at, workload) in self.workloads.iter_mut().enumerate() {
            change(at, &mut workload["spec"]["template"]["spec"]);
        }
    }

    /// Replaces the workloads by `count` workloads, at most one per pod, no two of one size.
    pub fn set_workloads(&mut self, count: usize) {
        self.set_plain_workloads(count.min(self.pods));
        self.each_spec(|at, pod| {
            let requests =
                json!({"cpu": format!("{}m", 100 + 9 * (at % 200)), "memory": format!("{}Mi", 128 + 15 * (at / 200))});
            pod["containers"][0]["resources"]["requests"] = requests;
        });
    }

    /// Replaces the workloads by `least` plain ones or more.
    pub fn set_plain_workloads(&mut self, least: usize) {
        let count = least.max(self.workloads.len());
        self.workloads = workloads(self.pods, count);
    }

    /// Gives each pod a claim of its own name. `objects` makes the objects of a claim from its name
    /// and a number.
    pub fn add_claims(&mut self, objects: impl Fn(&str, usize) -> Vec<Value>) {
        (self.alone, self.own_claims) = (true, true);
        let names: Vec<String> = self.workloads.iter().flat_map(names).collect();
        self.others.extend(names.iter().enumerate().flat_map(|(at, name)| objects(name, at)));
    }

    /// Adds a requirement to the first pool.
    pub fn add_requirement(&mut self, requirement: Value) {
        add_requirement(&mut self.pools[0], requirement);
    }

    /// Sets an annotation of the first pool.
    pub fn annotate(&mut self, name: &str, value: &str) {
        self.pools[0]["metadata"]["annotations"][format!("fleetwright.dev/{name}")] = value.into();
    }

    /// Replaces the requirement of the first pool on capacity types.
    pub fn set_capacity_types(&mut self, types: &[&str]) {
        let requirements = &mut self.pools[0]["spec"]["template"]["spec"]["requirements"];
        if let Some(all) = requirements.as_array_mut() {
            all.retain(|requirement| requirement["key"] != "karpenter.sh/capacity-type");
            all.push(one_of("karpenter.sh/capacity-type", types));
        }
    }

    /// The pods of `workload`, as its controller creates them.
    fn pods_of(&self, workload: &Value) -> impl Iterator<Item = Value> {
        names(workload).enumerate().map(move |(nth, name)| {
            let mut pod = workload["spec"]["template"].clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["namespace"] = "default".into();
            let created = format!("2026-01-01T00:{:02}:{:02}Z", nth / 60 % 30, nth % 60);
            pod["metadata"]["creationTimestamp"] = created.into();
            if self.own_labels {
                pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name.as_str().into();
            }
            if self.own_claims {
                pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
            }
            pod["metadata"]["name"] = name.into();
            pod
        })
    }

    pub fn input(&self) -> Result<PlanningInput> {
        let pods = self.alone.then(|| self.workloads.iter().flat_map(|workload| self.pods_of(workload)));
        let workloads = (!self.alone).then(|| self.workloads.iter().cloned());
        let items: Vec<Value> = pods
            .into_iter()
            .flatten()
            .chain(workloads.into_iter().flatten())
            .chain(self.pools.iter().cloned())
            .chain(self.others.iter().cloned())
            .collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let source = Source { name: "scenario".to_owned(), bytes: serde_json::to_vec(&list)? };
        let options = Options {
            region: Some("us-east-1".to_owned()),
            reservations: self.reservations.clone(),
            now: NOW,
            ..Options::default()
        };
        let captured = planning_input::read(&[source], &options)
            .map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
        Ok(captured.input)
    }
}

/// Adds a requirement to `pool`.
pub fn add_requirement(pool: &mut Value, requirement: Value) {
    if let Some(all) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut() {
        all.push(requirement);
    }
}

/// `key In values`.
pub fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// A NodePool for on-demand linux instances, amd64, in three zones.
pub fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "annotations": {}},
        "spec": {"template": {"metadata": {"labels": {}}, "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                one_of("kubernetes.io/os", &["linux"]), one_of("kubernetes.io/arch", &["amd64"]),
                one_of("karpenter.sh/capacity-type", &["on-demand"]), one_of(ZONE, &ZONES),
            ],
        }}},
    })
}

/// A pool for arm64.
pub fn arm_pool() -> Value {
    let mut pool = pool("arm");
    pool["spec"]["template"]["spec"]["requirements"][1] = one_of("kubernetes.io/arch", &["arm64"]);
    pool
}

/// The label selector of workload `at`.
pub fn selector(at: usize) -> Value {
    json!({"matchLabels": {"app": format!("app-{at}")}})
}

/// The requests of workload `at`: 13 amounts of CPU, seven of memory.
pub fn requests(at: usize) -> Value {
    let (cpu, memory) = (100 + 150 * (at % 13), 128 + 384 * (at % 7));
    json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")})
}

fn deployment(at: usize, replicas: usize) -> Value {
    let labels = &selector(at)["matchLabels"];
    let containers = json!([{"name": "main", "image": "x", "resources": {"requests": requests(at)}}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("app-{at}"), "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

fn workloads(pods: usize, count: usize) -> Vec<Value> {
    (0..count).map(|at| deployment(at, pods / count + usize::from(at < pods % count))).collect()
}

/// The names of the pods of `workload`.
fn names(workload: &Value) -> impl Iterator<Item = String> + use<> {
    let name = workload["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    (0..workload["spec"]["replicas"].as_u64().unwrap_or(0)).map(move |nth| format!("{name}-{nth}"))
}

fn class() -> Value {
    let tags = json!([{"tags": {"karpenter.sh/discovery": "bench"}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "bench", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags,
        },
    })
}
