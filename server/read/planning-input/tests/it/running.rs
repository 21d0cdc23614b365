//! What runs on the nodes of a captured cluster, and the prices of these nodes. m5.large costs $0.096
//! in us-east-1, and its spot price is estimated at 0.35 of that: $0.0336.

use manifests::Source;
use model::running::RunningCluster;
use planning_input::{Captured, Options};

use crate::{POOL, captured, source};

fn running(text: &str) -> Captured {
    let pool = Source { name: "pool.yaml".into(), bytes: POOL.as_bytes().to_vec() };
    let options = Options { repack: true, ..Options::default() };
    planning_input::read([pool, source(text)], &options).unwrap_or_else(|errors| panic!("refused: {errors:?}"))
}

fn node(name: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: us-east-1a{labels}}}}}\n\
         status: {{allocatable: {{cpu: 2, memory: 6Gi, pods: 29}}}}\n---\n"
    )
}

const M5: &str = ", node.kubernetes.io/instance-type: m5.large";

/// Price of the only node in micro-dollars; `None` if it is not known.
fn price(labels: &str) -> Option<i64> {
    running(&node("n-1", labels)).running.nodes.first().map(|node| node.price.0)
}

#[test]
fn a_node_costs_what_its_labels_say() {
    assert_eq!(price(&format!("{M5}, karpenter.sh/capacity-type: on-demand")), Some(96_000));
    assert_eq!(price(&format!("{M5}, karpenter.sh/capacity-type: spot")), Some(33_600));
    // Reserved capacity is paid for already.
    assert_eq!(price(&format!("{M5}, karpenter.sh/capacity-type: reserved")), Some(0));
    assert_eq!(price(&format!("{M5}, eks.amazonaws.com/capacityType: ON_DEMAND")), Some(96_000));
    assert_eq!(price(&format!("{M5}, eks.amazonaws.com/capacityType: SPOT")), Some(33_600));
    assert_eq!(price(", node.kubernetes.io/instance-type: mainframe"), None);
    assert_eq!(price(""), None);
}

#[test]
fn what_is_assumed_about_a_price_is_noted() {
    let noted = |labels: &str, note: &str| running(&node("n-1", labels)).notes.iter().any(|line| line == note);
    assert!(noted(M5, "nodes have no label of their capacity type and are counted as on-demand: n-1"));
    let spot = format!("{M5}, karpenter.sh/capacity-type: spot");
    assert!(noted(&spot, "the prices of nodes are estimates: n-1"));
    let on_demand = format!("{M5}, karpenter.sh/capacity-type: on-demand");
    assert!(!noted(&on_demand, "the prices of nodes are estimates: n-1"));
    let unknown = "the price of nodes is unknown: they stay, provide capacity, and are in none of the costs: n-1";
    assert!(noted("", unknown));
}

#[test]
fn an_overlay_changes_the_price_of_the_nodes_of_its_pool() {
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: discount}\nspec: {requirements: [], \
                   priceAdjustment: \"-10%\"}\n---\n";
    let labels = format!("{M5}, karpenter.sh/capacity-type: on-demand, karpenter.sh/nodepool: default");
    // 0.096 less a tenth.
    let price = |text: &str| running(text).running.nodes[0].price.0;
    assert_eq!(price(&(overlay.to_owned() + &node("n-1", &labels))), 86_400);
    let of_no_pool = format!("{M5}, karpenter.sh/capacity-type: on-demand");
    assert_eq!(price(&(overlay.to_owned() + &node("n-1", &of_no_pool))), 96_000);
}

#[test]
fn claims_without_a_node_are_not_judged() {
    let claim = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c, labels: {karpenter.sh/nodepool: default, \
                 node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: on-demand}}\nspec: {nodeClassRef: \
                 {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}\nstatus: {allocatable: {cpu: \
                 2, memory: 6Gi, pods: 29}}\n---\n";
    let read = running(claim);
    assert_eq!((read.input.nodes.len(), read.running.nodes.len()), (1, 0));
    let note = "NodeClaims without a Node stay, provide capacity, and are in none of the costs: c";
    assert!(read.notes.iter().any(|line| line == note), "{:?}", read.notes);
}

#[test]
fn nothing_that_runs_is_read_unless_it_is_asked_for() {
    assert_eq!(captured(&node("n-1", M5)).running, RunningCluster::default());
}

/// The reason of the drift of a node of type m5.large, whose NodeClaim has these annotations and this image; `None` when it
/// has not drifted. Its EC2NodeClass has an image for each architecture.
fn drift(annotations: &str, image: &str) -> Option<String> {
    let of = |id: &str, arch: &str| {
        format!("{{id: {id}, requirements: [{{key: kubernetes.io/arch, operator: In, values: [{arch}]}}]}}")
    };
    let (arm, x86) = (of("ami-arm", "arm64"), of("ami-x86", "amd64"));
    let pool = format!("{}\nstatus: {{amis: [{arm}, {x86}]}}\n", POOL.trim_end().trim_end_matches("---"));
    let labels = format!("karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand{M5}");
    let claim = format!(
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: c, creationTimestamp: 2026-01-01T00:00:00Z, labels: \
         {{topology.kubernetes.io/zone: us-east-1a, {labels}}}, annotations: {{{annotations}}}}}\nspec: {{nodeClassRef: {{group: \
         karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}\nstatus: {{nodeName: n-1, imageID: {image}}}\n---\n"
    );
    let pool = Source { name: "pool.yaml".into(), bytes: pool.into_bytes() };
    let options = Options { disrupt: true, ..Options::default() };
    let text = node("n-1", &format!(", {labels}")) + &claim;
    let read = planning_input::read([pool, source(&text)], &options);
    let running = read.unwrap_or_else(|errors| panic!("refused: {errors:?}")).running;
    let claim = running.nodes[0].claim.as_ref();
    claim.and_then(|claim| claim.drift.as_ref()).map(|drift| drift.reason.to_string())
}

#[test]
fn a_node_with_another_image_than_that_of_its_instance_type_has_drifted() {
    assert_eq!(drift("", "ami-x86"), None);
    assert_eq!(drift("", "ami-old").as_deref(), Some("AMIDrift"));
    assert_eq!(drift("", "ami-arm").as_deref(), Some("AMIDrift"), "it is the image of other instance types");
    assert_eq!(drift("", "\"\""), None);
}

#[test]
fn a_node_with_another_hash_of_this_server_s_node_class_has_drifted() {
    let with = |version: &str| {
        let hash = "fleetwright.dev/ec2nodeclass-hash: \"0\", fleetwright.dev/ec2nodeclass-hash-version";
        drift(&format!("{hash}: {version}"), "ami-x86")
    };
    assert_eq!(with("fleetwright-1").as_deref(), Some("NodeClassDrift"));
    assert_eq!(with("fleetwright-0"), None);
}

#[test]
fn an_ephemeral_volume_does_not_bind_the_pod_that_is_made_in_place_of_a_running_one() {
    let storage = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3}\nprovisioner: ebs.csi.aws.com\n\
                   volumeBindingMode: WaitForFirstConsumer\n---\n\
                   apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol}, \
                   nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: \
                   In, values: [us-east-1a]}]}]}}}\n---\n";
    let claim = |name: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, annotations: \
             {{pv.kubernetes.io/bind-completed: 'yes'}}}}\nspec: {{storageClassName: gp3, volumeName: pv}}\n---\n"
        )
    };
    // The alternatives of the volumes of pod web, which runs on n-1 and mounts this volume.
    let alternatives = |volume: &str| {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: u}}\nspec: {{nodeName: n-1, containers: [{{name: a}}], \
             volumes: [{volume}]}}\nstatus: {{phase: Running}}\n---\n"
        );
        let labels = format!("{M5}, karpenter.sh/capacity-type: on-demand");
        let read = running(&(storage.to_owned() + &claim("web-v") + &node("n-1", &labels) + &pod));
        let moved = read.running.nodes[0].pods[0].pod.clone();
        let volumes = moved.and_then(|pod| pod.volumes).map(|set| read.input.volume_sets[set as usize].clone());
        volumes.map(|volumes| (volumes.any_of.len(), volumes.blocked))
    };
    assert_eq!(alternatives("{name: v, persistentVolumeClaim: {claimName: web-v}}"), Some((1, None)));
    let ephemeral = "{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gp3}}}}";
    assert_eq!(alternatives(ephemeral), Some((0, None)));
}
