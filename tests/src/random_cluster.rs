//! Random clusters, as an API server has them: each state of Nodes, NodeClaims and pods that decisions tell apart.

use serde_json::{Map, Value, json};

/// A catalogue of one instance type, which the nodes have.
pub const CATALOGUE: &str = r#"{"apiVersion": "fleetwright.dev/v1", "kind": "Catalogue",
    "regions": [{"name": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}],
    "types": [{"name": "m9.large", "labels": {"kubernetes.io/arch": "amd64"},
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": 20}, "overhead": {"cpu": "100m"},
        "offerings": [{"zone": "us-east-1a", "capacityType": "on-demand", "priceUsdPerHour": 0.2},
                      {"zone": "us-east-1b", "capacityType": "spot", "priceUsdPerHour": 0.1}]}]}"#;

/// Hours before noon of 2026-06-01 at which something happened.
fn hours_ago(hours: u64) -> String {
    format!("2026-06-01T{:02}:{:02}:00Z", 11 - hours.min(11), 30)
}

/// SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// True in one of `n` cases.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// How far the machine of a NodeClaim is, and how its Node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Launched, without a Node.
    InFlight,
    Unregistered,
    Registered,
    Initialized,
    NodeDeleted,
    ClaimDeleted,
    /// The Node records a drain of its NodeClaim.
    Drained,
    /// The Node records a drain of another NodeClaim.
    DrainOfAnother,
    /// The taint of a removal, and no record.
    ForeignTaint,
}

const STAGES: [Stage; 11] = [
    Stage::InFlight,
    Stage::Unregistered,
    Stage::Registered,
    Stage::Initialized,
    Stage::Initialized,
    Stage::Initialized,
    Stage::NodeDeleted,
    Stage::ClaimDeleted,
    Stage::Drained,
    Stage::DrainOfAnother,
    Stage::ForeignTaint,
];

/// A cluster whose objects follow from a seed.
#[derive(Debug)]
pub struct RandomCluster {
    random: Random,
    objects: Vec<Value>,
    /// Names that pods can have as their node.
    nodes: Vec<String>,
}

impl RandomCluster {
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut cluster = Self { random: Random(seed), objects: Vec::new(), nodes: Vec::new() };
        cluster.add_shared_objects();
        for number in 0..cluster.random.below(6) {
            cluster.add_machine(number);
        }
        for number in 0..cluster.random.below(3) {
            cluster.add_foreign_node(number);
        }
        for number in 0..cluster.random.below(14) {
            cluster.add_pod(number);
        }
        cluster
    }

    /// Its objects, as an API server returns them.
    #[must_use]
    pub fn objects(self) -> Vec<Value> {
        self.objects
    }

    fn add(&mut self, api: &str, kind: &str, metadata: Value, rest: Value) {
        let mut object = Map::new();
        object.insert("apiVersion".into(), api.into());
        object.insert("kind".into(), kind.into());
        object.insert("metadata".into(), metadata);
        object.extend(rest.as_object().cloned().unwrap_or_default());
        self.objects.push(Value::Object(object));
    }

    fn add_shared_objects(&mut self) {
        for name in ["default", "shop"] {
            let labels = json!({ "kubernetes.io/metadata.name": name, "tier": "a" });
            self.add("v1", "Namespace", json!({ "name": name, "labels": labels }), json!({}));
        }
        let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
        for (name, managed) in [("general", "true"), ("other", "false")] {
            let replicas = if name == "other" && self.random.one_in(3) { json!(2) } else { Value::Null };
            let mut spec = json!({ "template": { "spec": { "nodeClassRef": class, "requirements": [],
                "startupTaints": [{ "key": "cni", "effect": "NoSchedule" }] } },
                "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized" } });
            if !replicas.is_null() {
                spec["replicas"] = replicas;
            }
            let annotations =
                if self.random.one_in(4) { json!({ "fleetwright.dev/managed": managed }) } else { json!({}) };
            let metadata = json!({ "name": name, "uid": name, "generation": 1, "annotations": annotations });
            self.add("karpenter.sh/v1", "NodePool", metadata, json!({ "spec": spec }));
        }
        let subnets = json!([{ "id": "subnet-1", "zone": "us-east-1a" }, { "id": "subnet-2", "zone": "us-east-1b" }]);
        let spec = json!({ "role": "nodes", "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "a": "b" } }], "securityGroupSelectorTerms": [{ "tags": { "a": "b" } }] });
        let metadata = json!({ "name": "default", "uid": "class", "generation": 1 });
        self.add(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            metadata,
            json!({ "spec": spec, "status": { "subnets": subnets } }),
        );
        self.add_storage();
        self.add_budgets();
        let cpu = self.random.pick(&["100m", "250m"]);
        let template = json!({ "metadata": { "labels": { "app": "agent" } },
            "spec": { "containers": [container(cpu)], "tolerations": [{ "operator": "Exists" }] } });
        let spec = json!({ "selector": { "matchLabels": { "app": "agent" } }, "template": template });
        let metadata = json!({ "name": "agent", "namespace": "default", "uid": "agent" });
        self.add("apps/v1", "DaemonSet", metadata, json!({ "spec": spec }));
    }

    fn add_storage(&mut self) {
        let metadata = json!({ "name": "gp3", "creationTimestamp": hours_ago(9) });
        let class = json!({ "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer" });
        self.add("storage.k8s.io/v1", "StorageClass", metadata, class);
        for (name, bound) in [("data", true), ("new", false)] {
            let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
                                   "resources": { "requests": { "storage": "8Gi" } } });
            let annotations = if bound { json!({ "pv.kubernetes.io/bind-completed": "yes" }) } else { json!({}) };
            if bound {
                spec["volumeName"] = "pv-1".into();
            }
            let metadata = json!({ "name": name, "namespace": "default", "annotations": annotations });
            let phase = if bound { "Bound" } else { "Pending" };
            self.add("v1", "PersistentVolumeClaim", metadata, json!({ "spec": spec, "status": { "phase": phase } }));
        }
        let term = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"] });
        let volume = json!({ "capacity": { "storage": "8Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
            "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" },
            "claimRef": { "namespace": "default", "name": "data" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [term] }] } } });
        self.add(
            "v1",
            "PersistentVolume",
            json!({ "name": "pv-1" }),
            json!({ "spec": volume, "status": { "phase": "Bound" } }),
        );
    }

    fn add_budgets(&mut self) {
        for (name, app) in [("web", "web"), ("db", "db")] {
            if self.random.one_in(2) {
                continue;
            }
            let mut spec = json!({ "selector": { "matchLabels": { "app": app } } });
            let (field, value) = self.random.pick(&[
                ("maxUnavailable", "0"),
                ("maxUnavailable", "1"),
                ("minAvailable", "100%"),
                ("minAvailable", "50%"),
            ]);
            spec[field] = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
            if self.random.one_in(3) {
                spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
            }
            let generation = 2;
            let mut status = json!({ "disruptionsAllowed": self.random.below(2), "observedGeneration": generation,
                                     "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 });
            match self.random.below(10) {
                0 => status["observedGeneration"] = 1.into(),
                // An API server omits a generation of 0.
                1 => drop(status.as_object_mut().and_then(|status| status.remove("observedGeneration"))),
                _ => {}
            }
            let metadata = json!({ "name": name, "namespace": "default", "generation": generation });
            self.add("policy/v1", "PodDisruptionBudget", metadata, json!({ "spec": spec, "status": status }));
        }
    }

    fn protection(&mut self) -> Option<&'static str> {
        self.random.one_in(6).then(|| self.random.pick(&["true", "1h", "9h", "false", "never"]))
    }

    fn add_machine(&mut self, number: u64) {
        let (name, node) = (format!("general-{number}"), format!("ip-{number}"));
        let stage = self.random.pick(&STAGES);
        let (zone, capacity_type) = self.random.pick(&[("us-east-1a", "on-demand"), ("us-east-1b", "spot")]);
        let labels = json!({ "karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": capacity_type,
            "node.kubernetes.io/instance-type": "m9.large", "topology.kubernetes.io/zone": zone,
            "kubernetes.io/arch": "amd64", "karpenter.k8s.aws/ec2nodeclass": "default" });
        self.add_claim(&name, &node, stage, &labels);
        if stage != Stage::InFlight {
            self.add_node(&name, &node, stage, labels);
        }
    }

    fn add_claim(&mut self, name: &str, node: &str, stage: Stage, labels: &Value) {
        let created = hours_ago(3 + self.random.below(6));
        let mut metadata = json!({ "name": name, "uid": name, "labels": labels, "creationTimestamp": created,
            "annotations": { "fleetwright.dev/managed": "true", "karpenter.sh/nodepool-hash": "1",
                             "karpenter.sh/nodepool-hash-version": "v3" },
            "finalizers": ["karpenter.sh/termination"] });
        if stage == Stage::ClaimDeleted {
            metadata["deletionTimestamp"] = hours_ago(0).into();
        }
        let spec = json!({
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
            "taints": if self.random.one_in(3) { json!([{ "key": "team", "value": "a", "effect": "NoSchedule" }]) } else { json!([]) },
            "startupTaints": [{ "key": "cni", "effect": "NoSchedule" }],
            "resources": { "requests": { "cpu": "1", "pods": "3" } },
            "expireAfter": self.random.pick(&["720h", "Never"]),
        });
        let condition = |kind: &str| {
            json!({ "type": kind, "status": "True", "reason": kind, "message": "",
                                             "lastTransitionTime": created })
        };
        let mut conditions = vec![condition("Launched")];
        if !matches!(stage, Stage::InFlight | Stage::Unregistered) {
            conditions.push(condition("Registered"));
        }
        if !matches!(stage, Stage::InFlight | Stage::Unregistered | Stage::Registered) {
            conditions.push(condition("Initialized"));
        }
        let mut status = json!({ "providerID": format!("aws:///us-east-1a/i-{name}"), "imageID": "ami-1",
            "capacity": { "cpu": "4", "memory": "16Gi", "pods": "20", "example.com/gpu": "1" },
            "allocatable": { "cpu": "3900m", "memory": "16Gi", "pods": "20", "example.com/gpu": "1" },
            "conditions": conditions });
        if stage != Stage::InFlight {
            status["nodeName"] = node.into();
        }
        if self.random.one_in(2) {
            status["lastPodEventTime"] = hours_ago(2).into();
        }
        self.add("karpenter.sh/v1", "NodeClaim", metadata, json!({ "spec": spec, "status": status }));
    }

    fn add_node(&mut self, claim: &str, name: &str, stage: Stage, claim_labels: Value) {
        self.nodes.push(name.to_owned());
        let is_registered = stage != Stage::Unregistered;
        let is_initialized = is_registered && stage != Stage::Registered;
        let mut labels = if is_registered { claim_labels } else { json!({ "kubernetes.io/arch": "amd64" }) };
        labels["kubernetes.io/hostname"] = name.into();
        if self.random.one_in(3) {
            labels["beta.kubernetes.io/os"] = "linux".into();
        }
        let mut taints = Vec::new();
        let mut taint = |key: &str, effect: &str| taints.push(json!({ "key": key, "effect": effect }));
        if !is_registered {
            taint("karpenter.sh/unregistered", "NoExecute");
        } else {
            labels["karpenter.sh/registered"] = "true".into();
        }
        if is_initialized {
            labels["karpenter.sh/initialized"] = "true".into();
        } else {
            taint("cni", "NoSchedule");
            taint("node.kubernetes.io/not-ready", "NoSchedule");
        }
        if matches!(stage, Stage::Drained | Stage::DrainOfAnother | Stage::ForeignTaint) {
            taint("karpenter.sh/disrupted", "NoSchedule");
        }
        if self.random.one_in(5) {
            taint("dedicated", "NoExecute");
        }
        let mut annotations = Map::new();
        if let Some(value) = self.protection() {
            annotations.insert("karpenter.sh/do-not-disrupt".into(), value.into());
        }
        let of = match stage {
            Stage::Drained => Some(claim),
            Stage::DrainOfAnother => Some("general-99"),
            _ => None,
        };
        if let Some(claim) = of {
            let record = json!({ "claim": claim, "reason": "it is empty", "rank": "3/1" });
            annotations.insert("fleetwright.dev/drain".into(), record.to_string().into());
        }
        let mut metadata = json!({ "name": name, "uid": name, "labels": labels, "annotations": annotations,
                                   "creationTimestamp": hours_ago(2) });
        if stage == Stage::NodeDeleted {
            metadata["deletionTimestamp"] = hours_ago(0).into();
        }
        let gpu = if is_initialized || self.random.one_in(2) { "1" } else { "0" };
        let ready = if is_initialized && !self.random.one_in(6) { "True" } else { "Unknown" };
        let mut spec = json!({ "providerID": format!("aws:///us-east-1a/i-{claim}"), "taints": taints });
        if self.random.one_in(6) {
            spec["unschedulable"] = true.into();
        }
        let status = json!({
            "capacity": { "cpu": "4", "memory": "16Gi", "pods": "20", "example.com/gpu": gpu },
            "allocatable": { "cpu": "3900m", "memory": "16Gi", "pods": "20", "example.com/gpu": gpu },
            "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "", "lastTransitionTime": hours_ago(1) }],
        });
        self.add("v1", "Node", metadata, json!({ "spec": spec, "status": status }));
        if self.random.one_in(2) {
            let count = self.random.pick(&[2, 24]);
            // An API server sends null where a CSINode states no topology keys.
            let drivers = json!([{ "name": "ebs.csi.aws.com", "nodeID": name, "topologyKeys": null,
                                   "allocatable": { "count": count } }]);
            self.add(
                "storage.k8s.io/v1",
                "CSINode",
                json!({ "name": name }),
                json!({ "spec": { "drivers": drivers } }),
            );
        }
    }

    /// A Node of a managed node group, or of a NodePool that there is not.
    fn add_foreign_node(&mut self, number: u64) {
        let name = format!("foreign-{number}");
        self.nodes.push(name.clone());
        let mut labels = json!({ "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "us-east-1a",
                                 "node.kubernetes.io/instance-type": "m9.large" });
        if self.random.one_in(3) {
            labels["karpenter.sh/nodepool"] = "gone".into();
        }
        let amounts = json!({ "cpu": "2", "memory": "8Gi", "pods": "10" });
        let taints = if self.random.one_in(4) {
            json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }])
        } else {
            json!([])
        };
        let metadata = json!({ "name": name, "uid": name, "labels": labels, "creationTimestamp": hours_ago(8) });
        let spec = json!({ "providerID": format!("aws:///us-east-1a/i-{name}"), "taints": taints });
        let status = json!({ "capacity": amounts, "allocatable": amounts,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": hours_ago(7) }] });
        self.add("v1", "Node", metadata, json!({ "spec": spec, "status": status }));
    }

    fn add_pod(&mut self, number: u64) {
        let (owner, name, app) = match self.random.below(7) {
            0 => (Some(("apps/v1", "StatefulSet", "db")), format!("db-{number}"), "db"),
            1 => (Some(("apps/v1", "DaemonSet", "agent")), format!("agent-{number}"), "agent"),
            2 => (Some(("v1", "Node", "ip-0")), format!("kube-proxy-{number}"), "proxy"),
            3 => (Some(("batch/v1", "Job", "import")), format!("import-{number}"), "import"),
            4 => (None, format!("alone-{number}"), "alone"),
            _ => (Some(("apps/v1", "ReplicaSet", "web-5d")), format!("web-5d-{number}"), "web"),
        };
        let is_daemon = app == "agent";
        let mut labels = json!({ "app": app });
        if app == "web" && !self.random.one_in(4) {
            labels["pod-template-hash"] = "5d".into();
        }
        let mut annotations = Map::new();
        if let Some(value) = self.protection() {
            annotations.insert("karpenter.sh/do-not-disrupt".into(), value.into());
        }
        if self.random.one_in(6) {
            annotations.insert("controller.kubernetes.io/pod-deletion-cost".into(), "7".into());
        }
        let mut metadata = json!({ "name": name, "namespace": self.random.pick(&["default", "default", "shop"]), "uid": name,
            "labels": labels, "annotations": annotations, "creationTimestamp": hours_ago(self.random.below(5)) });
        if let Some((api, kind, owner)) = owner {
            metadata["ownerReferences"] =
                json!([{ "apiVersion": api, "kind": kind, "name": owner, "uid": owner, "controller": true }]);
        }
        if self.random.one_in(7) {
            metadata["deletionTimestamp"] = hours_ago(0).into();
        }
        let mut spec = self.pod_spec(app);
        let node = self.nodes.get(self.random.below(self.nodes.len() as u64 + 2) as usize).cloned();
        let bound = node.filter(|_| is_daemon || app == "proxy" || !self.random.one_in(3));
        let mut status = json!({ "phase": "Pending" });
        if let Some(node) = &bound {
            spec["nodeName"] = node.as_str().into();
            if is_daemon {
                let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
                spec["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
                    { "nodeSelectorTerms": [{ "matchFields": [field] }] } } });
            }
            let ready = self.random.pick(&["True", "True", "False"]);
            status = json!({ "phase": self.random.pick(&["Running", "Running", "Running", "Succeeded", "Failed"]),
                "startTime": hours_ago(self.random.below(4)),
                "conditions": [{ "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": ready }] });
            if self.random.one_in(8) {
                status["conditions"] = json!([{ "type": "PodScheduled", "status": "True" }]);
            }
        } else {
            let is_gated = self.random.one_in(8);
            let reason = if is_gated { "SchedulingGated" } else { "Unschedulable" };
            if is_gated {
                spec["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
            }
            status["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "reason": reason }]);
            if !is_gated && self.random.one_in(4) {
                let names = [self.nodes.as_slice(), &["general-0".to_owned(), "gone".to_owned()]].concat();
                let at = self.random.below(names.len() as u64) as usize;
                status["nominatedNodeName"] = names[at].as_str().into();
            }
        }
        self.add("v1", "Pod", metadata, json!({ "spec": spec, "status": status }));
    }

    fn pod_spec(&mut self, app: &str) -> Value {
        let mut spec = json!({ "containers": [container(self.random.pick(&["100m", "500m", "1"]))], "priority": 0,
                               "schedulerName": "default-scheduler" });
        if self.random.one_in(6) {
            spec["schedulerName"] = self.random.pick(&["volcano", "my-scheduler"]).into();
        }
        if self.random.one_in(4) {
            spec["priority"] = self.random.pick(&[100, -5]).into();
        }
        if self.random.one_in(6) {
            (spec["runtimeClassName"], spec["overhead"]) = ("sandbox".into(), json!({ "cpu": "50m" }));
        }
        if self.random.one_in(4) {
            spec["nodeSelector"] = json!({ "topology.kubernetes.io/zone": "us-east-1a" });
        }
        if self.random.one_in(3) {
            spec["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": self.random.pick(&["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": { "matchLabels": { "app": app } }, "matchLabelKeys": ["pod-template-hash"] }]);
        }
        if self.random.one_in(5) {
            spec["tolerations"] = json!([{ "key": "karpenter.sh/disrupted", "operator": "Exists" }]);
        }
        if self.random.one_in(5) {
            let claim = self.random.pick(&["data", "new", "missing"]);
            spec["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }]);
        } else if self.random.one_in(6) {
            spec["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
        }
        spec
    }
}

fn container(cpu: &str) -> Value {
    json!({ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } })
}
