use engine::model::{Resources, SelectorOperator};
use prost::Message;

use super::*;

fn quantity(resource: &str, amount: &str) -> v1::Quantity {
    v1::Quantity { resource: resource.into(), amount: amount.into() }
}

fn cpu(requests: &str) -> v1::Container {
    let resources = v1::ResourceRequirements { requests: vec![quantity("cpu", requests)], limits: Vec::new() };
    v1::Container { resources: Some(resources), ..v1::Container::default() }
}

fn reading(shape: &v1::PodShape) -> DecodedShape {
    read(&shape.encode_to_vec()).unwrap()
}

fn requests(shape: &v1::PodShape) -> Resources {
    let reading = reading(shape);
    assert_eq!(reading.problem(), None);
    reading.plain().unwrap().requests.clone()
}

#[test]
fn sidecars_run_beside_everything_that_starts_after_them() {
    let sidecar = v1::Container { restart_policy: "Always".into(), ..cpu("200m") };
    let shape = v1::PodShape {
        containers: vec![cpu("500m"), cpu("100m")],
        init_containers: vec![cpu("900m"), sidecar, cpu("700m")],
        overhead: vec![quantity("cpu", "50m")],
        ..v1::PodShape::default()
    };
    // Running: 500 + 100 + 200 = 800. Phases: 900; 700 + 200 = 900. The most is 900, and 50 of overhead.
    assert_eq!(requests(&shape), Resources::from_iter([("cpu", 950), ("pods", 1)]));
}

#[test]
fn a_resize_counts_the_maximum_of_requested_allocated_and_actuated() {
    let resizing =
        v1::Container { allocated: vec![quantity("cpu", "300m")], actuated: vec![quantity("cpu", "400m")], ..cpu("2") };
    let shape = v1::PodShape { containers: vec![resizing], ..v1::PodShape::default() };
    assert_eq!(requests(&shape).get("cpu"), 2_000);
    let infeasible = v1::PodShape { resize_infeasible: true, ..shape };
    assert_eq!(requests(&infeasible).get("cpu"), 400);
}

#[test]
fn absent_and_empty_selectors_stay_different() {
    let spread = |selector| v1::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "topology.kubernetes.io/zone".into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        selector,
        ..v1::TopologySpreadConstraint::default()
    };
    let shape =
        |selector| v1::PodShape { topology_spread_constraints: vec![spread(selector)], ..v1::PodShape::default() };
    assert_eq!(reading(&shape(None)).plain().unwrap().spread[0].selector, None);
    let everything = reading(&shape(Some(v1::LabelSelector::default())));
    assert_eq!(everything.plain().unwrap().spread[0].selector, Some(engine::model::LabelSelector::default()));
    assert!(everything.plain().unwrap().spread[0].honor_node_affinity);
}

#[test]
fn label_keys_take_the_pods_own_values() {
    let term = v1::PodAffinityTerm {
        topology_key: "kubernetes.io/hostname".into(),
        selector: Some(v1::LabelSelector::default()),
        mismatch_label_keys: vec!["tenant".into()],
        ..v1::PodAffinityTerm::default()
    };
    let affinity = v1::Affinity { required_pod_anti_affinity: vec![term], ..v1::Affinity::default() };
    let reading = reading(&v1::PodShape { affinity: Some(affinity), ..v1::PodShape::default() });
    assert!(reading.plain().is_none());
    let shape = reading.for_labels(&Labels::from([("tenant".into(), "t1".into())]));
    let terms = &shape.pod_anti_affinity[0].selector.as_ref().unwrap().terms;
    assert_eq!((terms[0].operator, terms[0].values.as_slice()), (SelectorOperator::NotIn, &["t1".into()][..]));
}

#[test]
fn all_other_fields_are_parsed_as_in_a_manifest() {
    let expression = |key: &str, operator: &str, values: &[&str]| v1::Expression {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    };
    let term = v1::NodeSelectorTerm {
        match_expressions: vec![expression("beta.kubernetes.io/arch", "In", &["arm64"])],
        match_fields: Vec::new(),
    };
    let port = v1::HostPort { host_ip: String::new(), protocol: String::new(), host_port: 8080 };
    let shape = v1::PodShape {
        containers: vec![v1::Container { host_ports: vec![port], ..cpu("1") }],
        node_selector: vec![v1::StringPair { key: "disk".into(), value: "ssd".into() }],
        affinity: Some(v1::Affinity {
            required_node_affinity: Some(v1::NodeSelector { terms: vec![term] }),
            ..v1::Affinity::default()
        }),
        tolerations: vec![v1::Toleration { operator: "Exists".into(), ..v1::Toleration::default() }],
        priority: 7,
        ..v1::PodShape::default()
    };
    let reading = reading(&shape);
    let read = reading.plain().unwrap();
    assert_eq!(reading.problem(), None);
    assert_eq!(read.node_selector.get("disk").map(AsRef::as_ref), Some("ssd"));
    assert_eq!(read.node_affinity[0].expressions[0].key().as_ref(), "kubernetes.io/arch");
    assert_eq!(read.tolerations.len(), 1);
    assert_eq!((read.host_ports[0].port, read.host_ports[0].protocol.as_ref()), (8080, "TCP"));
    assert_eq!(read.priority, 7);
    // Exists without a key tolerates everything already; the DaemonSet controller adds its six all the same.
    assert_eq!(reading.for_daemon(&Labels::new()).tolerations.len(), 7);
}

#[test]
fn an_unschedulable_shape_has_a_reason() {
    let claims = v1::PodShape { resource_claims: vec!["gpu".into()], ..v1::PodShape::default() };
    assert!(reading(&claims).problem().unwrap().contains("\"gpu\""));
    let broken = v1::PodShape { containers: vec![cpu("lots")], ..v1::PodShape::default() };
    assert!(reading(&broken).problem().unwrap().contains("lots"));
    assert!(read(&[0xff]).is_err());
}
