//! Features of a pod and its node: labels, taints, resources, ports, priority.

use serde_json::{Value, json};

use super::feature::Feature;
use super::scenario::{self, HOST, Scenario, TYPE, ZONE, ZONES};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const CPUS: &str = "karpenter.k8s.aws/instance-cpu";

pub fn all() -> Vec<Feature> {
    let mut all = selectors();
    all.extend(resources());
    all
}

fn selectors() -> Vec<Feature> {
    // One operator or field of node selection in each feature, on plain pods.
    vec![
        Feature::new("nodeSelector arch", |s| {
            s.each_spec(|_, pod| pod["nodeSelector"] = json!({"kubernetes.io/arch": "amd64"}))
        }),
        Feature::new("nodeSelector zone", |s| {
            s.each_spec(|at, pod| pod["nodeSelector"] = json!({ZONE: ZONES[at % 3]}))
        }),
        Feature::new("nodeSelector instance type", |s| {
            let types = ["m5.2xlarge", "c5.4xlarge", "r5.2xlarge", "m6i.xlarge", "c6i.2xlarge"];
            s.each_spec(|at, pod| pod["nodeSelector"] = json!({TYPE: types[at % 5]}));
        }),
        Feature::new("node affinity In", |s| {
            s.each_spec(|_, pod| require_node_affinity(pod, &[values(FAMILY, "In", &["m5", "c5", "r5"])]))
        }),
        Feature::new("node affinity NotIn", |s| {
            s.each_spec(|_, pod| require_node_affinity(pod, &[values(FAMILY, "NotIn", &["t2", "t3", "t3a"])]))
        }),
        Feature::new("node affinity Exists", |s| {
            s.each_spec(|_, pod| {
                require_node_affinity(pod, &[values("karpenter.k8s.aws/instance-local-nvme", "Exists", &[])])
            });
        }),
        Feature::new("node affinity Gt", |s| {
            s.each_spec(|at, pod| require_node_affinity(pod, &[values(CPUS, "Gt", &[["1", "3", "7"][at % 3]])]))
        }),
        Feature::new("node affinity, five terms", |s| {
            s.each_spec(|_, pod| {
                require_node_affinity(
                    pod,
                    &["m5", "c5", "r5", "m6i", "c6i"].map(|family| values(FAMILY, "In", &[family])),
                )
            });
        }),
        Feature::new("node affinity hostname NotIn", |s| {
            s.each_spec(|_, pod| require_node_affinity(pod, &[values(HOST, "NotIn", &["node-1"])]))
        }),
        Feature::new("preferred node affinity, one", |s| s.each_spec(|at, pod| prefer_zones(pod, &[ZONES[at % 3]]))),
        Feature::new("preferred node affinity, five", |s| {
            s.each_spec(|at, pod| {
                let zone = ZONES[at % 3];
                let terms: Vec<Value> = [
                    (50, values(ZONE, "In", &[zone])),
                    (40, values(FAMILY, "In", &["m5"])),
                    (30, values(CPUS, "Gt", &["3"])),
                    (20, values(TYPE, "In", &["m5.large"])),
                    (10, values(FAMILY, "In", &["c5"])),
                ]
                .into_iter()
                .map(|(weight, wanted)| json!({"weight": weight, "preference": {"matchExpressions": [wanted]}}))
                .collect();
                pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
            });
        }),
        Feature::new("tolerations and a tainted pool", |s| {
            s.pools[0]["spec"]["template"]["spec"]["taints"] =
                json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
            s.each_spec(|_, pod| pod["tolerations"] = json!([{"key": "team", "operator": "Exists"}]));
        }),
        Feature::new("PreferNoSchedule on the pool", |s| {
            s.pools[0]["spec"]["template"]["spec"]["taints"] =
                json!([{"key": "team", "value": "a", "effect": "PreferNoSchedule"}]);
        }),
        Feature::new("arm64 by selector", |s| {
            s.pools.push(scenario::arm_pool());
            s.each_spec(|_, pod| pod["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"}));
        }),
    ]
}

fn resources() -> Vec<Feature> {
    // One resource or property of pods in each feature; the last ones increase the number of shapes
    // and labels.
    vec![
        Feature::new("GPUs", |s| s.each_spec(|at, pod| request_resource(pod, "nvidia.com/gpu", ["1", "2"][at % 2]))),
        Feature::new("ephemeral storage", |s| {
            s.each_spec(|at, pod| request_resource(pod, "ephemeral-storage", ["1Gi", "5Gi"][at % 2]))
        }),
        Feature::new("init containers and overhead", |s| {
            s.each_spec(|_, pod| {
                pod["overhead"] = json!({"cpu": "50m", "memory": "64Mi"});
                pod["initContainers"] = json!([{"name": "i", "image": "x", "resources": {"requests": {"cpu": "1"}}}]);
            })
        }),
        Feature::new("host ports", |s| {
            s.each_spec(|at, pod| {
                pod["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + at % 1000}]);
            })
        }),
        Feature::new("priorities", set_priorities),
        Feature::new("priorities and a tight limit", |s| {
            set_priorities(s);
            super::pools::limit_pool(s, "cpu", 2);
        }),
        Feature::new("1,000 shapes", |s| s.set_workloads(1_000)),
        Feature::new("a shape for every pod", |s| s.set_workloads(usize::MAX)),
        Feature::new("labels for every pod", |s| {
            s.alone = true;
            s.own_labels = true;
        }),
        Feature::new("labels for every pod, zone spread", |s| {
            s.alone = true;
            s.own_labels = true;
            super::between::add_spread(s, ZONE, "DoNotSchedule", 1);
        }),
    ]
}

/// Gives the workloads five priorities in turn.
fn set_priorities(scenario: &mut Scenario) {
    let class = |at: usize| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": format!("p{at}")},
            "value": at * 100,
        })
    };
    scenario.others.extend((0..5).map(class));
    scenario.each_spec(|at, pod| pod["priorityClassName"] = format!("p{}", at % 5).into());
}

/// Requests `amount` of `resource` in the first container.
pub fn request_resource(pod: &mut Value, resource: &str, amount: &str) {
    pod["containers"][0]["resources"]["requests"][resource] = amount.into();
    pod["containers"][0]["resources"]["limits"][resource] = amount.into();
}

fn values(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// Required node affinity to one of `terms`.
pub fn require_node_affinity(pod: &mut Value, terms: &[Value]) {
    let terms: Vec<Value> = terms.iter().map(|term| json!({"matchExpressions": [term]})).collect();
    pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
        json!(terms);
}

fn prefer_zones(pod: &mut Value, zones: &[&str]) {
    let term = json!([{"weight": 50, "preference": {"matchExpressions": [values(ZONE, "In", zones)]}}]);
    pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = term;
}
