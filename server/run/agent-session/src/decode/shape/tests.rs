use model::{LabelSelector, Resources, SelectorOperator};

use super::*;

fn cpu(name: &str, requests: &str) -> Value {
    json!({ "name": name, "resources": { "requests": { "cpu": requests } } })
}

fn reading(spec: &Value) -> DecodedShape {
    read(json!({ "spec": spec }).to_string().as_bytes()).unwrap()
}

/// The requests of a pod that is schedulable.
fn requests(pod: &Value) -> Resources {
    let reading = read(pod.to_string().as_bytes()).unwrap();
    assert_eq!(reading.problem(), None);
    reading.plain().unwrap().requests.clone()
}

#[test]
fn sidecars_run_beside_everything_that_starts_after_them() {
    let mut sidecar = cpu("i1", "200m");
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "containers": [cpu("c0", "500m"), cpu("c1", "100m")],
        "initContainers": [cpu("i0", "900m"), sidecar, cpu("i2", "700m")],
        "overhead": { "cpu": "50m" },
    });
    // Running: 500 + 100 + 200 = 800. Phases: 900; 700 + 200 = 900. The most is 900, and 50 of overhead.
    assert_eq!(requests(&json!({ "spec": spec })), Resources::from_iter([("cpu", 950), ("pods", 1)]));
}

#[test]
fn a_resize_counts_the_maximum_of_requested_allocated_and_actuated() {
    let held = json!({ "name": "c0", "allocatedResources": { "cpu": "300m" },
                       "resources": { "requests": { "cpu": "400m" } } });
    let pod = |status: Value| requests(&json!({ "spec": { "containers": [cpu("c0", "2")] }, "status": status }));
    assert_eq!(pod(json!({ "containerStatuses": [held] })).get("cpu"), 2_000);
    assert_eq!(pod(json!({ "containerStatuses": [held], "resize": "Infeasible" })).get("cpu"), 400);
}

#[test]
fn absent_and_empty_selectors_stay_different() {
    let spread = |selector: Value| {
        let constraint = json!({ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                                 "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector });
        let reading = reading(&json!({ "topologySpreadConstraints": [constraint] }));
        reading.plain().unwrap().spread[0].clone()
    };
    assert_eq!(spread(Value::Null).selector, None);
    assert_eq!(spread(json!({})).selector, Some(LabelSelector::default()));
    assert!(spread(json!({})).honor_node_affinity);
}

#[test]
fn label_keys_take_the_pods_own_values() {
    let term = |keys: &str| {
        let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": {}, keys: ["tenant"] });
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        reading(&json!({ "affinity": { "podAntiAffinity": required } }))
    };
    let labels = Labels::from([("tenant".into(), "t1".into())]);
    for (keys, operator) in [("matchLabelKeys", SelectorOperator::In), ("mismatchLabelKeys", SelectorOperator::NotIn)] {
        let reading = term(keys);
        assert!(reading.plain().is_none());
        let shape = reading.for_labels(&labels);
        let terms = &shape.pod_anti_affinity[0].selector.as_ref().unwrap().terms;
        assert_eq!((terms[0].operator, terms[0].values.as_slice()), (operator, &["t1".into()][..]));
    }
    let constraint = json!({ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["tenant"] });
    let reading = reading(&json!({ "topologySpreadConstraints": [constraint] }));
    assert!(reading.plain().is_none());
    let shape = reading.for_labels(&labels);
    assert_eq!(shape.spread[0].selector.as_ref().unwrap().terms[0].values, [Text::from("t1")]);
}

#[test]
fn all_other_fields_are_parsed_as_in_a_manifest() {
    let mut container = cpu("c0", "1");
    container["ports"] = json!([{ "containerPort": 8080, "hostPort": 8080 }]);
    let expression = json!({ "key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"] });
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
    let spec = json!({
        "containers": [container],
        "nodeSelector": { "disk": "ssd" },
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } },
        "tolerations": [{ "operator": "Exists" }],
        "priority": 7,
    });
    let decoded = reading(&spec);
    let read = decoded.plain().unwrap();
    assert_eq!(decoded.problem(), None);
    assert_eq!(read.node_selector.get("disk").map(AsRef::as_ref), Some("ssd"));
    assert_eq!(read.node_affinity[0].expressions[0].key().as_ref(), "kubernetes.io/arch");
    assert_eq!(read.tolerations.len(), 1);
    assert_eq!((read.host_ports[0].port, read.host_ports[0].protocol.as_ref()), (8080, "TCP"));
    assert_eq!(read.priority, 7);
    // Exists without a key tolerates everything already; the DaemonSet controller adds its six all
    // the same, and a seventh on the host's network.
    let tolerations = |decoded: &DecodedShape| decoded.for_daemon(&Labels::new()).tolerations.len();
    assert_eq!(tolerations(&decoded), 7);
    assert_eq!(tolerations(&reading(&json!({ "hostNetwork": true, "tolerations": [{ "operator": "Exists" }] }))), 8);
}

#[test]
fn an_unschedulable_shape_has_a_reason() {
    let claims = json!({ "resourceClaims": [{ "name": "gpu" }] });
    assert!(reading(&claims).problem().unwrap().contains("\"gpu\""));
    let broken = json!({ "containers": [cpu("c0", "lots")] });
    assert!(reading(&broken).problem().unwrap().contains("lots"));
}

#[test]
fn a_shape_without_containers_requests_a_pod_and_nothing_else() {
    assert_eq!(requests(&json!({ "spec": {} })), Resources::from_iter([("pods", 1)]));
}

/// What no agent writes: the stream ends for no JSON, and every other shape is unschedulable.
#[test]
fn hostile_shapes_are_refused_or_unschedulable() {
    // serde_json ends at 128 levels.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in ["", "{", "\u{ff}", "{\"spec\":{}} {}", "1e999", deep.as_str()] {
        assert!(matches!(read(text.as_bytes()), Err(DecodeError::Unreadable { .. })), "{text:.20}");
    }
    assert!(read(b"{\"spec\":\"\xff\"}").is_err(), "no UTF-8");
    for text in
        ["[]", "null", "7", "{}", r#"{"spec":[]}"#, r#"{"spec":{"containers":[]}}"#, r#"{"spec":{"containers":{}}}"#]
    {
        assert!(read(text.as_bytes()).unwrap().problem().is_some(), "{text}");
    }
    let types = r#"{"spec":{"priority":"high","tolerations":7,"affinity":[],"nodeSelector":{"a":{}},"hostNetwork":1}}"#;
    assert!(read(types.as_bytes()).unwrap().problem().is_some());
    // As many containers as a definition may hold: one of `{},` takes three bytes of 256 KiB.
    let many = format!(r#"{{"spec":{{"containers":[{}{{}}]}}}}"#, "{},".repeat(85_000));
    assert!(read(many.as_bytes()).unwrap().problem().is_some());
    // The last of equal keys counts, as for the API server.
    let twice = r#"{"spec":{"priority":1,"priority":2}}"#;
    assert_eq!(read(twice.as_bytes()).unwrap().plain().unwrap().priority, 2);
}
