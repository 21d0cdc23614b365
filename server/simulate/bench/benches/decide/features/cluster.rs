//! Features of the cluster besides the pods: volumes, DaemonSets, existing nodes, pods that fit
//! nowhere.

use serde_json::{Value, json};

use super::feature::Feature;
use super::nodes::{request_resource, require_node_affinity};
use super::scenario::{HOST, Scenario, ZONE, ZONES, selector};

pub fn all() -> Vec<Feature> {
    [volumes(), daemons(), nodes(), unschedulable_pods()].into_iter().flatten().collect()
}

fn volumes() -> Vec<Feature> {
    vec![
        Feature::new("a zonal volume for every pod", |s| {
            s.add_claims(|name, at| vec![bound(name), volume(name, ZONES[at % 3])]);
        }),
        Feature::new("a claim for every pod, WaitForFirstConsumer", |s| {
            s.others.push(class(json!(null)));
            s.add_claims(|name, _| vec![claim(name)]);
        }),
        Feature::new("a claim for every pod, class of two zones", |s| {
            let zones = json!([{"matchLabelExpressions": [{"key": ZONE, "values": &ZONES[..2]}]}]);
            s.others.push(class(zones));
            s.add_claims(|name, _| vec![claim(name)]);
        }),
        Feature::new("a volume shared by each workload", |s| {
            for at in 0..s.workloads.len() {
                let name = format!("shared-{at}");
                s.others.extend([bound(&name), volume(&name, ZONES[at % 3])]);
            }
            s.each_spec(|at, pod| pod["volumes"] = mount(&format!("shared-{at}")));
        }),
    ]
}

fn daemons() -> Vec<Feature> {
    vec![
        Feature::new("30 DaemonSets", |s| s.others.extend((0..30).map(|at| daemon(at, &json!({}))))),
        Feature::new("30 DaemonSets for some nodes", |s| {
            s.others.extend((0..30).map(|at| {
                daemon(
                    at,
                    &json!({
                        "karpenter.k8s.aws/instance-family": (["m5", "c5", "r5", "m6i", "c6i"][at % 5]),
                    }),
                )
            }));
        }),
        Feature::new("DaemonSet with a host port", |s| {
            let mut one = daemon(0, &json!({}));
            one["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 1, "hostPort": 9100}]);
            s.others.push(one);
        }),
    ]
}

fn nodes() -> Vec<Feature> {
    // Every feature adds nodes; the number of pods on a node determines its free capacity.
    vec![
        Feature::new("500 nodes, full", |s| (0..500).for_each(|at| add_node(s, at, 20, "380m"))),
        Feature::new("500 nodes with free capacity", |s| (0..500).for_each(|at| add_node(s, at, 4, "380m"))),
        Feature::new("500 empty nodes", |s| (0..500).for_each(|at| add_node(s, at, 0, "0"))),
        Feature::new("500 nodes with free capacity, zone spread", |s| {
            (0..500).for_each(|at| add_node(s, at, 4, "380m"));
            super::between::add_spread(s, ZONE, "DoNotSchedule", 1);
        }),
        Feature::new("500 nodes with free capacity, host spread", |s| {
            (0..500).for_each(|at| add_node(s, at, 4, "380m"));
            super::between::add_spread(s, HOST, "DoNotSchedule", 1);
        }),
        Feature::new("500 nodes with free capacity, preferences", |s| {
            (0..500).for_each(|at| add_node(s, at, 4, "380m"));
            super::between::add_spread(s, ZONE, "ScheduleAnyway", 1);
            super::between::add_spread(s, HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("500 tainted nodes", |s| {
            for at in 0..500 {
                add_node(s, at, 4, "380m");
                if let Some(node) = s.others.iter_mut().rev().find(|object| object["kind"] == "Node") {
                    node["spec"]["taints"] =
                        json!([{"key": format!("t{}", at % 50), "value": "x", "effect": "NoSchedule"}]);
                }
            }
        }),
        Feature::new("10,000 bound pods with rules", |s| {
            for at in 0..500 {
                add_node(s, at, 20, "350m");
            }
            for pod in s.others.iter_mut().filter(|object| object["kind"] == "Pod") {
                let labels = json!({"matchLabels": pod["metadata"]["labels"]});
                let term = json!([{"labelSelector": labels, "topologyKey": "rack"}]);
                pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = term;
            }
        }),
        Feature::new("200 nodes on their way", |s| s.others.extend((0..200).map(in_flight_claim))),
        Feature::new("a node of 8 vCPU for every two pods", |s| {
            for at in 0..s.pods / 2 {
                add_node(s, at, 4, "380m");
            }
        }),
    ]
}

fn unschedulable_pods() -> Vec<Feature> {
    // Each feature makes pods unschedulable for a different reason, because each reason has a
    // separate explanation.
    vec![
        Feature::new("pods too large for anything", |s| {
            s.each_spec(|at, pod| request_resource(pod, "cpu", &(2_000 + at).to_string()))
        }),
        Feature::new("pods too large, one by one", |s| {
            s.each_spec(|at, pod| request_resource(pod, "cpu", &(2_000 + at).to_string()));
            s.alone = true;
            s.own_labels = true;
        }),
        Feature::new("half of the pods too large", |s| {
            s.each_spec(|at, pod| {
                if at % 2 == 0 {
                    request_resource(pod, "cpu", &(2_000 + at).to_string());
                }
            })
        }),
        Feature::new("too large, each by its own amount", |s| {
            s.set_workloads(usize::MAX);
            s.each_spec(|at, pod| request_resource(pod, "cpu", &(2_000 + at).to_string()));
        }),
        Feature::new("a selector that nothing meets", |s| {
            s.each_spec(|_, pod| pod["nodeSelector"] = json!({"team": "nobody"}))
        }),
        Feature::new("a zone that is not there", |s| {
            s.each_spec(|_, pod| pod["nodeSelector"] = json!({ZONE: "us-east-1z"}))
        }),
        Feature::new("terms that contradict each other", |s| {
            s.each_spec(|_, pod| {
                pod["nodeSelector"] = json!({"kubernetes.io/arch": "amd64"});
                require_node_affinity(
                    pod,
                    &[json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]})],
                );
            })
        }),
        Feature::new("affinity that no pod matches", |s| {
            s.each_spec(|_, pod| {
                pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([{"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": ZONE}]);
            })
        }),
        Feature::new("claims that are missing", |s| s.each_spec(|_, pod| pod["volumes"] = mount("missing"))),
        Feature::new("no toleration for the only pool", |s| {
            s.pools[0]["spec"]["template"]["spec"]["taints"] =
                json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
        }),
        Feature::new("too large, 500 nodes, zone spread", |s| {
            s.each_spec(|at, pod| request_resource(pod, "cpu", &(2_000 + at).to_string()));
            (0..500).for_each(|at| add_node(s, at, 4, "380m"));
            super::between::add_spread(s, ZONE, "DoNotSchedule", 1);
        }),
        Feature::new("a NodeClass that is not ready", |s| {
            s.others[0]["status"] =
                json!({"conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "y"}]});
        }),
    ]
}

fn mount(claim: &str) -> Value {
    json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
}

fn class(topologies: Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ssd"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    if !topologies.is_null() {
        class["allowedTopologies"] = topologies;
    }
    class
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": "ssd", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn bound(name: &str) -> Value {
    let mut claim = claim(name);
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = format!("pv-{name}").into();
    claim
}

fn volume(claim: &str, zone: &str) -> Value {
    let name = format!("pv-{claim}");
    let here = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}, "nodeAffinity": {"required": {"nodeSelectorTerms": here}},
        },
    })
}

fn daemon(at: usize, node_selector: &Value) -> Value {
    let labels = json!({"app": format!("daemon-{at}")});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": format!("daemon-{at}"), "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "tolerations": [{"operator": "Exists"}], "nodeSelector": node_selector,
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}],
        }}},
    })
}

/// Adds a node of 8 vCPU with `pods` pods of the workloads in turn.
fn add_node(scenario: &mut Scenario, at: usize, pods: usize, cpu: &str) {
    let number = u32::try_from(at).unwrap_or(u32::MAX);
    scenario.others.push(crate::existing_cluster::node(number));
    let name = crate::existing_cluster::node_name(number);
    let workloads = scenario.workloads.len();
    for nth in 0..pods {
        let labels = &selector((at * 7 + nth) % workloads)["matchLabels"];
        scenario.others.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("there-{at}-{nth}"), "namespace": "default", "labels": labels},
            "spec": {"nodeName": name, "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}]},
            "status": {"phase": "Running"},
        }));
    }
}

/// A NodeClaim without a Node.
fn in_flight_claim(at: usize) -> Value {
    let amounts = json!({"cpu": "7910m", "memory": "30Gi", "pods": "58"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{at:03}"), "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.2xlarge", ZONE: ZONES[at % 3],
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": [],
        },
        "status": {
            "allocatable": amounts, "capacity": amounts, "providerID": format!("aws:///{}/i-{at:017x}", ZONES[at % 3]),
            "conditions": [{"type": "Launched", "status": "True"}],
        },
    })
}
