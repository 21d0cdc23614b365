//! Random clusters of a few nodes, as manifests and as objects of an API server.

use std::collections::BTreeMap;

use anyhow::Context;
use e2e::kubernetes::machine::{Machine, Types};
use serde_json::{Value, json};

use super::text;

pub(super) const REGION: &str = "us-east-1";
/// The time of a plan. All objects are from half a day before.
pub(super) const NOW: &str = "2026-01-01T12:00:00Z";
const SINCE: &str = "2026-01-01T00:00:00Z";

/// The label of nodes and the selector of pods of one cluster.
const LABEL: &str = "fleetwright.test/replay";
const CLASS: &str = "replay";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// What the NodePools may launch, with the millicores for pods.
const TYPES: [(&str, u64); 3] = [("m5.large", 1_930), ("m5.xlarge", 3_920), ("m5.2xlarge", 7_910)];

/// Pods of this app are spread over zones.
const SPREAD: u64 = 1;
/// Pods of this app exclude each other from a node.
const EXCLUSIVE: u64 = 2;
/// Pods of this app run in the zone of the node that they are on first.
const ZONED: u64 = 3;
/// Pods of app 0 have no rule.
const APPS: u64 = 4;

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T; 3]) -> T {
        choices[usize::try_from(self.below(3)).unwrap_or(0)]
    }
}

/// A node as its kubelet registers it.
pub(super) struct NodeCase {
    pub(super) machine: Machine,
    is_drifted: bool,
}

#[derive(Clone)]
pub(super) struct PodCase {
    pub(super) name: String,
    /// Empty for a pod that waits.
    pub(super) node: String,
    pub(super) app: u64,
    pub(super) millicores: u64,
    pub(super) zone: &'static str,
}

pub(super) struct Case {
    /// Name of the cluster: the value of its label.
    name: String,
    pub(super) nodes: Vec<NodeCase>,
    pub(super) pods: Vec<PodCase>,
}

impl NodeCase {
    /// The node of a replacement: its first option in its first zone.
    pub(super) fn launched(launch: &Value, types: &Types) -> anyhow::Result<Self> {
        let instance_type = launch["instanceTypes"][0].as_str().context("a replacement without an instance type")?;
        let mut machine = types.machine(text(launch, "name")?, instance_type, text(launch, "zone")?)?;
        let labels = launch["labels"].as_object().context("a replacement without labels")?;
        let labels = labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        machine.labels.extend(labels);
        machine.labels.extend(of_joined());
        Ok(Self { machine: Machine { unregistered: false, ..machine }, is_drifted: false })
    }

    fn label(&self, key: &str) -> &str {
        self.machine.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    fn objects(&self) -> [Value; 2] {
        let Machine { id, provider_id, labels, capacity, allocatable, .. } = &self.machine;
        let mut of_node = labels.clone();
        of_node.insert("kubernetes.io/hostname".to_owned(), id.clone());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": id, "labels": of_node, "creationTimestamp": SINCE },
            "spec": { "providerID": provider_id },
            "status": { "capacity": capacity, "allocatable": allocatable, "conditions": [condition("Ready")] },
        });
        let is = |key: &str| json!({ "key": key, "operator": "In", "values": [self.label(key)] });
        let mut conditions =
            ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"].map(condition).to_vec();
        if self.is_drifted {
            conditions.push(condition("Drifted"));
        }
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": format!("claim-{id}"), "labels": labels, "creationTimestamp": SINCE,
                          "finalizers": ["karpenter.sh/termination"] },
            "spec": {
                "nodeClassRef": class_ref(), "expireAfter": "Never",
                "requirements": [
                    is("node.kubernetes.io/instance-type"), is("karpenter.sh/capacity-type"),
                    is("topology.kubernetes.io/zone"), is("karpenter.sh/nodepool"),
                ],
            },
            "status": {
                "providerID": provider_id, "nodeName": id, "imageID": "ami-1", "capacity": capacity,
                "allocatable": allocatable, "conditions": conditions,
            },
        });
        [node, claim]
    }
}

impl PodCase {
    fn labels(&self, case: &str) -> Value {
        json!({ "app": self.app_name(case) })
    }

    fn app_name(&self, case: &str) -> String {
        format!("{case}-app{}", self.app)
    }

    fn spec(&self, case: &str) -> Value {
        let requests = json!({ "cpu": format!("{}m", self.millicores), "memory": "256Mi" });
        let mut spec = json!({
            "containers": [{ "name": "main", "image": "none", "resources": { "requests": requests } }],
            "nodeSelector": { LABEL: case },
        });
        let alike = json!({ "matchLabels": self.labels(case) });
        match self.app {
            SPREAD => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": alike,
                }]);
            }
            EXCLUSIVE => {
                let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": alike });
                let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
                spec["affinity"] = json!({ "podAntiAffinity": terms });
            }
            ZONED => spec["nodeSelector"]["topology.kubernetes.io/zone"] = json!(self.zone),
            _ => {}
        }
        spec
    }
}

impl Case {
    /// Three to six nodes, each with up to three pods that fit on it. Nothing says that the pods are spread well.
    pub(super) fn random(seed: u64, types: &Types) -> anyhow::Result<Self> {
        let mut numbers = Numbers(seed);
        let mut case = Self { name: format!("replay-{seed}"), nodes: Vec::new(), pods: Vec::new() };
        for at in 0..3 + numbers.below(4) {
            let ((instance_type, millicores), zone) = (numbers.of(&TYPES), numbers.of(&ZONES));
            let (is_flexible, is_spot) = (numbers.below(2) == 0, numbers.below(2) == 0);
            let mut machine = types.machine(&format!("{}-n{at}", case.name), instance_type, zone)?;
            let capacity_type = if is_flexible && is_spot { "spot" } else { "on-demand" };
            let labels = [
                (LABEL, case.name.clone()),
                ("karpenter.sh/nodepool", case.pool(is_flexible)),
                ("karpenter.sh/capacity-type", capacity_type.to_owned()),
                ("karpenter.k8s.aws/ec2nodeclass", CLASS.to_owned()),
            ];
            machine.labels.extend(labels.map(|(key, value)| (key.to_owned(), value)));
            machine.labels.extend(of_joined());
            let machine = Machine { unregistered: false, ..machine };
            case.fill(&machine.id, millicores, zone, &mut numbers);
            case.nodes.push(NodeCase { machine, is_drifted: numbers.below(6) == 0 });
        }
        Ok(case)
    }

    fn pool(&self, is_flexible: bool) -> String {
        format!("{}-{}", self.name, if is_flexible { "flex" } else { "firm" })
    }

    /// Adds pods to a node with so many millicores.
    fn fill(&mut self, node: &str, mut free: u64, zone: &'static str, numbers: &mut Numbers) {
        for _ in 0..numbers.below(4) {
            let (app, millicores) = (numbers.below(APPS), 250 * (1 + numbers.below(6)));
            let is_excluded = app == EXCLUSIVE && self.pods.iter().any(|pod| pod.app == EXCLUSIVE && pod.node == node);
            if millicores <= free && !is_excluded {
                free -= millicores;
                let name = format!("app{app}-{}", self.pods.len());
                self.pods.push(PodCase { name, node: node.to_owned(), app, millicores, zone });
            }
        }
    }

    /// The pod before it is bound, as it is sent to the API server. There it has no owner: a controller would make pods by
    /// itself.
    pub(super) fn unbound(&self, pod: &PodCase) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod.name, "labels": pod.labels(&self.name) },
            "spec": pod.spec(&self.name),
        })
    }

    /// All objects of the cluster, with the owners of its pods.
    pub(super) fn objects(&self, namespace: &str) -> Vec<Value> {
        let mut objects = vec![node_class(), self.node_pool(false), self.node_pool(true)];
        objects.extend(self.nodes.iter().flat_map(NodeCase::objects));
        let mut replicas: BTreeMap<String, (usize, &PodCase)> = BTreeMap::new();
        for pod in &self.pods {
            // Pods of one owner are alike.
            let owner = format!("app{}-{}-{}", pod.app, pod.millicores, pod.zone);
            let mut object = self.unbound(pod);
            object["metadata"]["namespace"] = json!(namespace);
            object["metadata"]["creationTimestamp"] = json!(SINCE);
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": format!("uid-of-{owner}"),
                "controller": true, "blockOwnerDeletion": true,
            }]);
            if !pod.node.is_empty() {
                object["spec"]["nodeName"] = json!(pod.node);
                let conditions = ["PodScheduled", "Ready"].map(condition);
                object["status"] = json!({ "phase": "Running", "startTime": SINCE, "conditions": conditions });
            }
            objects.push(object);
            replicas.entry(owner).or_insert((0, pod)).0 += 1;
        }
        objects.extend(replicas.iter().map(|(owner, (replicas, pod))| {
            let labels = pod.labels(&self.name);
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": { "name": owner, "namespace": namespace, "creationTimestamp": SINCE,
                              "uid": format!("uid-of-{owner}") },
                "spec": {
                    "replicas": replicas, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": pod.spec(&self.name) },
                },
            })
        }));
        objects
    }

    fn node_pool(&self, is_flexible: bool) -> Value {
        let is = |key: &str, values: &[&str]| json!({ "key": key, "operator": "In", "values": values });
        let capacity_types: &[&str] = if is_flexible { &["spot", "on-demand"] } else { &["on-demand"] };
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": self.pool(is_flexible) },
            "spec": {
                "template": {
                    "metadata": { "labels": { LABEL: self.name } },
                    "spec": {
                        "nodeClassRef": class_ref(), "expireAfter": "Never",
                        "requirements": [
                            is("node.kubernetes.io/instance-type", &TYPES.map(|(name, _)| name)),
                            is("karpenter.sh/capacity-type", capacity_types),
                        ],
                    },
                },
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                    "budgets": [{ "nodes": "100%" }],
                },
            },
        })
    }
}

/// The labels of a node that has joined.
fn of_joined() -> [(String, String); 2] {
    ["karpenter.sh/registered", "karpenter.sh/initialized"].map(|key| (key.to_owned(), "true".to_owned()))
}

fn condition(kind: &str) -> Value {
    json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": SINCE })
}

fn class_ref() -> Value {
    json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS })
}

fn node_class() -> Value {
    let tags = json!([{ "tags": { "purpose": "replay" } }]);
    let subnet = |zone: &str| json!({ "id": format!("subnet-{zone}"), "zone": zone });
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": CLASS },
        "spec": {
            "role": "nodes", "amiSelectorTerms": [{ "alias": "al2023@latest" }], "subnetSelectorTerms": tags,
            "securityGroupSelectorTerms": tags,
        },
        "status": { "conditions": [condition("Ready")], "subnets": ZONES.map(subnet) },
    })
}
