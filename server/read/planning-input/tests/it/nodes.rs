//! Nodes and NodeClaims.

use planning_input::Options;

use crate::{captured, input, nodes};

const STATUS: &str =
    "status: {allocatable: {cpu: '4', memory: 8Gi, pods: '58'}, capacity: {cpu: '4', memory: 16Gi, pods: '58'}}";

fn node(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: us-east-1a{labels}}}}}\nspec: {{{spec}}}\n{STATUS}\n---\n"
    )
}

fn claim(name: &str, status: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}, labels: {{karpenter.sh/nodepool: default}}}}\nspec:\n  nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\n  requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}}]\n  startupTaints: [{{key: example.com/starting, effect: NoSchedule}}]\nstatus: {{{status}}}\n---\n"
    )
}

const TAINTS: &str = "taints: [{key: example.com/starting, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: team, value: a, effect: NoSchedule}]";

#[test]
fn unmanaged_nodes_are_initialized_with_all_their_taints() {
    let input = input(&node("one", "", TAINTS));
    assert_eq!(
        nodes(&input),
        "one initialized taints [\"example.com/starting\", \"node.kubernetes.io/not-ready\", \"team\"] pods []"
    );
    assert_eq!(input.nodes[0].pool, None);
    assert_eq!(input.nodes[0].labels.get("kubernetes.io/hostname").map(AsRef::as_ref), Some("one"));
}

#[test]
fn startup_taints_of_the_pool_are_ignored_until_the_node_is_initialized() {
    let starting = node("one", ", karpenter.sh/nodepool: default", TAINTS);
    assert_eq!(nodes(&input(&starting)), "one registered taints [\"team\"] pods []");
    let started = node("one", ", karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true'", TAINTS);
    assert_eq!(
        nodes(&input(&started)),
        "one initialized taints [\"example.com/starting\", \"node.kubernetes.io/not-ready\", \"team\"] pods []"
    );
}

#[test]
fn resources_that_a_starting_node_lacks_come_from_its_claim() {
    let text = node("one", ", karpenter.sh/nodepool: default, karpenter.sh/registered: 'true'", "")
        + &claim("c", "nodeName: one, allocatable: {cpu: '3', nvidia.com/gpu: 1}");
    let input = input(&text);
    assert_eq!(nodes(&input), "one registered taints [] pods []");
    assert_eq!(input.nodes[0].allocatable.to_string(), "cpu=4 memory=8Gi nvidia.com/gpu=1 pods=58");
}

#[test]
fn claims_without_a_node_are_in_flight() {
    let input = input(&claim("c", "allocatable: {cpu: '2'}, capacity: {cpu: '2', memory: 8Gi}"));
    assert_eq!(nodes(&input), "c in flight taints [] pods []");
    let labels = &input.nodes[0].labels;
    assert_eq!(labels.get("node.kubernetes.io/instance-type").map(AsRef::as_ref), Some("m5.large"));
    assert_eq!(labels.get("topology.kubernetes.io/zone").map(AsRef::as_ref), Some("us-east-1a"));
    assert_eq!(labels.get("kubernetes.io/hostname").map(AsRef::as_ref), Some("c"));
    assert_eq!(input.nodes[0].pool, Some("default".into()));
}

#[test]
fn a_claim_without_status_has_the_capacity_of_its_type() {
    let input = input(&claim("c", ""));
    // m5.large has 2 vCPUs; Karpenter's reservation for two cores is 6% of the first and 1% of the
    // second: 70m.
    assert_eq!(input.nodes[0].capacity.get("cpu"), 2000);
    assert_eq!(input.nodes[0].allocatable.get("cpu"), 1930);
    assert_eq!(input.nodes[0].labels.get("kubernetes.io/arch").map(AsRef::as_ref), Some("amd64"));
}

#[test]
fn a_drain_of_its_claim_a_deletion_or_the_claim_marks_a_node_that_is_being_removed() {
    let deleted = node("a", "", "").replace("{name: a,", "{name: a, deletionTimestamp: '2026-01-01T00:00:00Z',");
    let tainted = |name: &str, drain: &str| {
        let taints = "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]";
        let labels = ", karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true'";
        let annotated = format!("metadata: {{annotations: {{fleetwright.dev/drain: '{drain}'}}, ");
        node(name, labels, taints).replace("metadata: {", &annotated)
            + &claim(&format!("x-{name}"), &format!("nodeName: {name}"))
    };
    let drained = tainted("b", r#"{"claim":"x-b","rank":"3/1","reason":"it is empty"}"#);
    // The taint alone proves no drain: a Karpenter that has ended leaves it, and anybody may set it.
    let others = tainted("d", "") + &tainted("e", r#"{"claim":"x-9","rank":"3/1","reason":"of another"}"#);
    let claimed = node("c", ", karpenter.sh/nodepool: default", "")
        + &claim("x", "nodeName: c").replace("{name: x,", "{name: x, deletionTimestamp: '2026-01-01T00:00:00Z',");
    let text = deleted + &drained + &claimed + &others;
    let stages: Vec<String> =
        nodes(&input(&text)).lines().map(|line| line.split(" taints").next().unwrap_or_default().to_owned()).collect();
    assert_eq!(stages, ["a deleting", "b deleting", "c deleting", "d initialized", "e initialized"]);
}

#[test]
fn attach_limits_come_from_the_csi_node() {
    let text = node("one", "", "")
        + "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: one}\nspec: {drivers: [{name: ebs.csi.aws.com, nodeID: i, allocatable: {count: 25}}, {name: efs.csi.aws.com, nodeID: i}]}\n";
    assert_eq!(input(&text).nodes[0].attach_limits, [("ebs.csi.aws.com".into(), 25)]);
}

#[test]
fn old_label_keys_of_nodes_have_their_canonical_spelling_beside_them() {
    let text = node("one", ", beta.kubernetes.io/arch: arm64", "");
    let labels = input(&text).nodes[0].labels.clone();
    assert_eq!(labels.get("kubernetes.io/arch").map(AsRef::as_ref), Some("arm64"));
}

#[test]
fn daemon_sets_tolerate_what_their_controller_adds() {
    let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec: {selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: {hostNetwork: true, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}}\n";
    let input = input(daemon);
    let shape = &input.shapes[input.daemons[0].shape as usize];
    let keys: Vec<&str> = shape.tolerations.iter().map(|toleration| toleration.key.as_ref()).collect();
    let names = [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    ];
    let expected: Vec<String> = names.iter().map(|name| format!("node.kubernetes.io/{name}")).collect();
    assert_eq!(keys, expected);
    assert_eq!(shape.requests.to_string(), "cpu=100m pods=1");
}

#[test]
fn a_node_without_allocatable_is_noted() {
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: bare}\n";
    let notes = captured(text).notes;
    assert!(notes.iter().any(|note| note.contains("bare")), "{notes:?}");
}

const EXTERNAL_POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: auto}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
";

#[test]
fn pools_of_another_api_group_are_not_planned_and_their_nodes_have_capacity() {
    let text = EXTERNAL_POOL.to_owned()
        + &node("theirs", ", karpenter.sh/nodepool: auto, karpenter.sh/initialized: 'true'", "");
    let captured = captured(&text);
    let pools: Vec<&str> = captured.input.pools.iter().map(|pool| pool.name.as_ref()).collect();
    assert_eq!(pools, ["default"]);
    assert_eq!(nodes(&captured.input), "theirs initialized taints [] pods []");
    assert_eq!(captured.input.nodes[0].pool, None);
    let note = |note: &String| note.contains("NodePool/auto (eks.amazonaws.com/NodeClass)");
    assert!(captured.notes.iter().any(note), "{:?}", captured.notes);
}

#[test]
fn with_a_custom_catalogue_and_no_ec2_node_class_every_pool_is_planned() {
    let file = br#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{"name":"r","zones":["r1"]}],"types":[
      {"name":"box","capacity":{"cpu":"4","memory":"16Gi"},"offerings":[{"zone":"r1","capacityType":"on-demand","priceUsdPerHour":1}]}]}"#;
    let catalogue = Some(manifests::Source { name: "machines.json".into(), bytes: file.to_vec() });
    let options = Options { catalogue, ..Options::default() };
    let read = |text: &str| planning_input::read(&[crate::source(text)], &options).expect("a valid pool").input.pools;
    let alone = read(EXTERNAL_POOL);
    assert_eq!((alone.len(), &alone[0].not_ready), (1, &None));
    let ours = crate::POOL.replace("us-east-1a", "r1");
    let beside = read(&(EXTERNAL_POOL.to_owned() + &ours));
    assert_eq!(beside.iter().map(|pool| pool.name.as_ref()).collect::<Vec<_>>(), ["default"]);
}

#[test]
fn another_kind_of_the_ec2_group_is_rejected() {
    let text = crate::POOL.replace("kind: EC2NodeClass, name", "kind: NodeClass, name");
    let refused = crate::refused(&text);
    assert!(
        refused.iter().any(|line| line.contains("nodeClassRef.kind") && line.contains("EC2NodeClass")),
        "{refused:?}"
    );
}
