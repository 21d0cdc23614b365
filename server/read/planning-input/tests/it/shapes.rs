//! Requests and constraints of pods.

use model::{SelectorOperator, TolerationOperator};

use crate::{input, pod, shape};

/// The effective request of a pod with this specification.
fn requests(spec: &str) -> String {
    let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n");
    shape(&text).requests.to_string()
}

#[test]
fn containers_add_up_and_limits_replace_missing_requests() {
    let spec = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Gi}}}, {name: b, resources: {limits: {cpu: 0.5}}}]";
    assert_eq!(requests(spec), "cpu=600m memory=1Gi pods=1");
}

#[test]
fn sidecars_run_beside_and_init_containers_before() {
    // Running: 1 + sidecar 0.2 = 1.2. Init phase "late" runs beside the sidecar: 1.1 + 0.2 = 1.3.
    // "early" runs before it: 1.25.
    let spec = "containers: [{name: a, resources: {requests: {cpu: '1'}}}], initContainers: [
        {name: early, resources: {requests: {cpu: 1250m}}},
        {name: side, restartPolicy: Always, resources: {requests: {cpu: 200m}}},
        {name: late, resources: {requests: {cpu: 1100m, memory: 1Gi}}}]";
    assert_eq!(requests(spec), "cpu=1300m memory=1Gi pods=1");
}

#[test]
fn pod_level_requests_override_and_overhead_is_added() {
    // cpu: 2 at pod level + 0.25 overhead. memory: the limit of the pod, because no container
    // requests memory.
    let spec = "containers: [{name: a, resources: {requests: {cpu: '1'}}}], overhead: {cpu: 250m},
        resources: {requests: {cpu: '2'}, limits: {memory: 4Gi}}";
    assert_eq!(requests(spec), "cpu=2250m memory=4Gi pods=1");
}

#[test]
fn devices_are_requested_by_their_limit() {
    assert_eq!(
        requests("containers: [{name: a, resources: {limits: {nvidia.com/gpu: 2}}}]"),
        "nvidia.com/gpu=2 pods=1"
    );
}

#[test]
fn ports_of_the_hosts_network_are_host_ports() {
    let ports = |network: &str| {
        let spec = format!(
            "hostNetwork: {network}, containers: [{{name: a, ports: [{{containerPort: 80}}, {{containerPort: 53, protocol: UDP, hostPort: 53, hostIP: 10.0.0.1}}]}}]"
        );
        let shape = shape(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n"));
        shape.host_ports.iter().map(|port| format!("{}:{}/{}", port.ip, port.port, port.protocol)).collect::<Vec<_>>()
    };
    assert_eq!(ports("false"), ["10.0.0.1:53/UDP"]);
    assert_eq!(ports("true"), [":80/TCP", "10.0.0.1:53/UDP"]);
}

#[test]
fn match_label_keys_add_the_pods_own_values() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [app, absent]}]";
    let shape = shape(&pod("p", spread));
    let terms = &shape.spread[0].selector.as_ref().expect("a selector").terms;
    assert_eq!(terms.len(), 1);
    assert_eq!(
        (terms[0].key.as_ref(), terms[0].operator, terms[0].values[0].as_ref()),
        ("app", SelectorOperator::In, "p")
    );
}

#[test]
fn mismatch_label_keys_exclude_the_pods_own_values() {
    let affinity = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {a: b}}, mismatchLabelKeys: [app]}]}}";
    let shape = shape(&pod("p", affinity));
    let terms = &shape.pod_anti_affinity[0].selector.as_ref().expect("a selector").terms;
    let rendered: Vec<String> =
        terms.iter().map(|term| format!("{} {:?} {}", term.key, term.operator, term.values[0])).collect();
    assert_eq!(rendered, ["a In b", "app NotIn p"]);
}

#[test]
fn spread_constraints_have_the_defaults_of_the_api() {
    let spread = "topologySpreadConstraints: [{maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]";
    let constraint = shape(&pod("p", spread)).spread[0].clone();
    assert_eq!(constraint.selector, None);
    assert_eq!((constraint.hard, constraint.honor_node_affinity, constraint.honor_node_taints), (false, true, false));
}

#[test]
fn tolerations_default_to_equal_and_every_effect() {
    let toleration = shape(&pod("p", "tolerations: [{key: a, value: b}]")).tolerations[0].clone();
    assert_eq!((toleration.operator, toleration.effect), (TolerationOperator::Equal, None));
}

#[test]
fn priority_comes_from_the_number_the_class_or_the_default_class() {
    let classes = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: normal}\nvalue: 10\nglobalDefault: true\n---\n";
    let priority = |spec: &str| shape(&format!("{classes}{}", pod("p", spec))).priority;
    assert_eq!(priority("priority: 5, priorityClassName: high"), 5);
    assert_eq!(priority("priorityClassName: high"), 1000);
    assert_eq!(priority(""), 10);
    assert_eq!(priority("priorityClassName: system-node-critical"), 2_000_001_000);
    let input = input(&pod("p", "priorityClassName: missing"));
    assert!(input.pods[0].invalid.as_ref().is_some_and(|reason| reason.contains("PriorityClass/missing")));
}

#[test]
fn pods_with_resource_claims_are_invalid_and_not_an_error() {
    let input = input(&pod("p", "resourceClaims: [{name: gpu, resourceClaimName: x}]"));
    assert!(input.pods[0].invalid.is_some());
}

#[test]
fn old_label_keys_become_canonical() {
    let shape = shape(&pod("p", "nodeSelector: {beta.kubernetes.io/arch: arm64}"));
    assert_eq!(shape.node_selector.get("kubernetes.io/arch").map(AsRef::as_ref), Some("arm64"));
}
