use cluster::{ClaimRecord, NodeRecord, Object, Observation, PodRecord};
use model::{Labels as ObjectLabels, PodShape};

use super::*;
use metrics::series;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn resources(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::from_iter([("cpu", cpu), ("memory", memory), ("pods", pods), ("ephemeral-storage", 0)])
}

/// A node of 4 cores and 8 GiB, of which a quarter of a core and 1 GiB are reserved.
fn node(name: &str, provider_id: &str, labels: &[(&str, &str)]) -> Object {
    let labels: ObjectLabels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Object::Node(NodeRecord {
        name: name.into(),
        provider_id: provider_id.into(),
        labels,
        capacity: resources(4_000, 8 << 30, 58),
        allocatable: resources(3_750, 7 << 30, 58),
        created: Some(at(1_000)),
        ..NodeRecord::default()
    })
}

fn pod(name: &str, node: Option<&str>) -> PodRecord {
    let shape = PodShape { requests: resources(500, 1 << 30, 1), ..PodShape::default() };
    let pod = PodRecord::pending("shop", name, Arc::new(shape), Arc::default());
    PodRecord {
        node: node.map(Into::into),
        phase: if node.is_some() { PodPhase::Running } else { PodPhase::Pending },
        ready: node.is_some(),
        created: Some(at(2_000)),
        ..pod
    }
}

/// A cluster with a managed node that runs a pod and a DaemonSet pod, another one, and a pod that waits.
fn observed(nodes: bool, pods: bool) -> Vec<ObservedCluster> {
    let mut state = ClusterState::default();
    let labels = [
        (labels::NODEPOOL, "general"),
        (labels::ARCH, "arm64"),
        ("karpenter.k8s.aws/instance-local-nvme", "300"),
        ("team", "shop"),
    ];
    let claim = ClaimRecord { name: "general-1".into(), provider_id: "aws:///z/i-1".into(), ..ClaimRecord::default() };
    let ended = PodRecord { phase: PodPhase::Succeeded, ready: false, ..pod("job-0", Some("n1")) };
    let objects = [
        Object::Claim(claim),
        node("n1", "aws:///z/i-1", &labels),
        node("n2", "aws:///z/i-2", &[]),
        Object::Pod(pod("web-0", Some("n1"))),
        Object::Pod(PodRecord { daemon: Some("kube-system/dns".into()), ..pod("dns-x", Some("n1")) }),
        Object::Pod(ended),
        Object::Pod(pod("web-1", None)),
    ];
    for object in objects {
        state.apply(Observation::upsert(object), at(3_000));
    }
    vec![ObservedCluster { cluster: "blue".into(), state: Arc::new(state), nodes, pods }]
}

#[test]
fn a_node_has_what_it_can_allocate_its_requests_and_its_overhead_with_its_labels() {
    let lines = series(nodes(&observed(true, false), at(61_000)));
    let n1 = "cluster=\"blue\",node_name=\"n1\",managed=\"true\"";
    let more = "nodepool=\"general\",arch=\"arm64\",instance_local_nvme=\"300\"";
    for expected in [
        format!("karpenter_nodes_allocatable{{{n1},resource_type=\"cpu\",{more}}} 3.75"),
        format!("karpenter_nodes_allocatable{{{n1},resource_type=\"memory\",{more}}} 7516192768"),
        // A pod that has ended uses nothing.
        format!("karpenter_nodes_total_pod_requests{{{n1},resource_type=\"cpu\",{more}}} 1"),
        format!("karpenter_nodes_total_pod_requests{{{n1},resource_type=\"pods\",{more}}} 2"),
        format!("karpenter_nodes_total_daemon_requests{{{n1},resource_type=\"pods\",{more}}} 1"),
        format!("karpenter_nodes_system_overhead{{{n1},resource_type=\"cpu\",{more}}} 0.25"),
        format!("karpenter_nodes_system_overhead{{{n1},resource_type=\"ephemeral_storage\",{more}}} 0"),
        format!("karpenter_nodes_current_lifetime_seconds{{{n1},{more}}} 60"),
        "karpenter_nodes_total_pod_requests{cluster=\"blue\",node_name=\"n2\",managed=\"false\",resource_type=\"cpu\"} 0"
            .to_owned(),
    ] {
        assert!(lines.contains(&expected), "{expected} is not among {lines:#?}");
    }
    // Two nodes: four metrics of four resources, and the lifetime.
    assert_eq!(lines.len(), 2 * (4 * 4 + 1));
    assert!(!lines.join("\n").contains("team"), "labels of users are no labels of series");
}

#[test]
fn a_pod_has_its_state_with_the_labels_of_its_node() {
    let lines = series(pods(&observed(false, true), at(61_000)));
    for expected in [
        "karpenter_pods_state{cluster=\"blue\",name=\"web-0\",namespace=\"shop\",owner=\"Pod/web-0\",node=\"n1\",scheduled=\"true\",\
         nodepool=\"general\",arch=\"arm64\",phase=\"Running\",ready=\"true\",managed=\"true\"} 1",
        "karpenter_pods_state{cluster=\"blue\",name=\"web-1\",namespace=\"shop\",owner=\"Pod/web-1\",scheduled=\"false\",\
         phase=\"Pending\",ready=\"false\",managed=\"false\"} 1",
        "karpenter_pods_unbound_time_seconds{cluster=\"blue\",name=\"web-1\",namespace=\"shop\"} 59",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not among {lines:#?}");
    }
    assert_eq!(lines.len(), 5, "four pods, one of which waits");
}

#[test]
fn only_what_is_asked_for_has_series_and_names_are_shown_harmlessly() {
    let clusters = observed(false, false);
    assert_eq!(series(nodes(&clusters, at(0))), Vec::<String>::new());
    assert_eq!(series(pods(&clusters, at(0))), Vec::<String>::new());
    let mut clusters = observed(true, false);
    let hostile = node("a\u{202e}\"\n", "aws:///z/i-3", &[]);
    Arc::make_mut(&mut clusters[0].state).apply(Observation::upsert(hostile), at(0));
    let text = series(nodes(&clusters, at(0))).join("\n");
    assert!(text.contains("node_name=\"a\\\\u{202e}\\\"") && !text.contains('\u{202e}'), "{text}");
}
