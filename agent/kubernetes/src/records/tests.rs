use agent::Record;
use agent::intern::Interner;
use fleetwright_proto::v1;
use prost::Message;
use serde_json::{Value, json};

use super::shape::ShapeInterner;
use super::*;

fn parse_with(with: Parser, object: &Value) -> ParsedObject {
    with(&object.to_string(), &mut ShapeInterner::default()).unwrap()
}

fn change(parsed: ParsedObject) -> v1::change::Change {
    match parsed.record {
        Record::Plain(change) => *change,
        other => panic!("{other:?} refers to something"),
    }
}

/// The bytes that would leave the cluster for these rows.
fn bytes(rows: Vec<ParsedObject>) -> Vec<u8> {
    let (mut interner, mut changes) = (Interner::new(), Vec::new());
    for parsed in rows {
        interner.write_record(parsed.record, &mut changes);
    }
    let chunk = v1::SnapshotChunk { changes, index: 0 };
    chunk.encode_to_vec()
}

/// A pod with a secret wherever a pod can hold one.
fn pod_full_of_secrets() -> Value {
    let container = json!({
        "name": "web", "image": "SECRET/image:1",
        "command": ["sh", "-c", "SECRET"], "args": ["--password=SECRET"], "workingDir": "/SECRET",
        "env": [{ "name": "SECRET", "value": "SECRET" },
                { "name": "X", "valueFrom": { "secretKeyRef": { "name": "SECRET", "key": "SECRET" } } }],
        "envFrom": [{ "secretRef": { "name": "SECRET" } }, { "configMapRef": { "name": "SECRET" } }],
        "volumeMounts": [{ "name": "secret", "mountPath": "/SECRET" }],
        "livenessProbe": { "httpGet": { "path": "/SECRET", "httpHeaders": [{ "name": "A", "value": "SECRET" }] } },
        "lifecycle": { "preStop": { "exec": { "command": ["SECRET"] } } },
        "ports": [{ "containerPort": 80, "hostPort": 8080, "name": "SECRET" }],
        "resources": { "requests": { "cpu": "1" } },
    });
    json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u1",
            "labels": { "app": "web" },
            "annotations": { "vault.example/token": "SECRET", "karpenter.sh/do-not-disrupt": "true",
                             "kubectl.kubernetes.io/last-applied-configuration": "SECRET" },
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:SECRET": {} } }],
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o1", "controller": true }],
        },
        "spec": {
            "containers": [container], "initContainers": [container], "ephemeralContainers": [{ "env": "SECRET" }],
            "imagePullSecrets": [{ "name": "SECRET" }], "serviceAccountName": "SECRET", "hostname": "SECRET",
            "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["SECRET"] }], "dnsConfig": { "searches": ["SECRET"] },
            "securityContext": { "sysctls": [{ "name": "SECRET", "value": "SECRET" }] },
            "volumes": [
                { "name": "a", "secret": { "secretName": "SECRET" } },
                { "name": "b", "configMap": { "name": "SECRET" } },
                { "name": "c", "projected": { "sources": [{ "secret": { "name": "SECRET" } }] } },
                { "name": "d", "hostPath": { "path": "/SECRET" } },
                { "name": "e", "csi": { "driver": "csi.example", "volumeAttributes": { "password": "SECRET" },
                                        "nodePublishSecretRef": { "name": "SECRET" } } },
                { "name": "f", "nfs": { "server": "SECRET", "path": "/SECRET" } },
                { "name": "g", "persistentVolumeClaim": { "claimName": "data" } },
            ],
            "tolerations": [{ "key": "gpu", "operator": "Exists" }],
        },
        "status": { "phase": "Running", "message": "SECRET", "hostIP": "1.2.3.4", "podIP": "5.6.7.8",
                    "conditions": [{ "type": "Ready", "status": "True", "message": "SECRET" }],
                    "containerStatuses": [{ "name": "web", "image": "SECRET", "state": { "waiting": { "message": "SECRET" } } }] },
    })
}

#[test]
fn a_field_that_is_null_counts_as_absent() {
    let csi_node = json!({ "metadata": { "name": "n", "labels": null }, "spec": { "drivers": [
        { "name": "ebs.csi.aws.com", "topologyKeys": null, "allocatable": { "count": 25 } },
        { "name": "efs.csi.aws.com", "topologyKeys": ["zone"], "allocatable": null },
    ] } });
    let parsed = parse(node::parse_csi, &csi_node.to_string(), &mut ShapeInterner::default()).unwrap();
    let v1::change::Change::CsiNode(record) = change(parsed) else { panic!("no CSINode") };
    let limits: Vec<Option<i64>> = record.drivers.iter().map(|driver| driver.attach_limit).collect();
    assert_eq!(
        (limits, record.drivers[1].topology_keys.as_slice()),
        (vec![Some(25), None], ["zone".to_owned()].as_slice())
    );
    let wrong = csi_node.to_string().replace("25", "\"many\"");
    assert!(parse(node::parse_csi, &wrong, &mut ShapeInterner::default()).is_err());
}

#[test]
fn no_secret_of_a_pod_leaves_the_cluster() {
    let pod = pod_full_of_secrets();
    let daemon_set = json!({
        "metadata": { "name": "logs", "namespace": "shop", "annotations": { "x": "SECRET" } },
        "spec": { "template": { "metadata": pod["metadata"], "spec": pod["spec"] } },
    });
    let rows = vec![parse_with(pod::parse, &pod), parse_with(pod::parse_daemon_set, &daemon_set)];
    let bytes = bytes(rows);
    let text = String::from_utf8_lossy(&bytes);
    for wanted in ["web-1", "csi.example", "data", "gpu", "do-not-disrupt", "logs"] {
        assert!(text.contains(wanted), "{wanted} is missing, so the search would find nothing");
    }
    let around = text.find("SECRET").map(|at| text.chars().skip(at.saturating_sub(40)).take(80).collect::<String>());
    assert_eq!(around, None, "a secret leaves");
    assert!(!text.contains("secret"), "not even the names of volumes that hold one");
}

#[test]
fn a_reader_that_copied_a_whole_object_would_be_caught_by_the_search() {
    // Manifests travel whole, so they are what a leaky reader would make of a pod.
    let parsed = parse_with(manifest::parse_pool, &pod_full_of_secrets());
    assert!(String::from_utf8_lossy(&bytes(vec![parsed])).contains("SECRET"));
}

#[test]
fn a_pod_says_what_the_protocol_asks_for() {
    let object = json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:30Z", "labels": { "b": "2", "a": "1" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "x" },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o1", "controller": true }],
            "managedFields": [{ "manager": "fleetwright-agent-nominations" }],
        },
        "spec": {
            "nodeName": "", "priority": 100, "terminationGracePeriodSeconds": 5, "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "memory": "1Gi", "cpu": "500m" }, "limits": { "cpu": "1" } },
                "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP" }] }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": null }] } },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3 }],
        },
        "status": {
            "phase": "Pending", "startTime": "2026-01-01T00:00:01Z", "nominatedNodeName": "n1",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" },
                           { "type": "PodResizePending", "status": "True", "reason": "Infeasible" }],
            "containerStatuses": [{ "name": "c", "allocatedResources": { "memory": "2Gi", "cpu": "500m" },
                "resources": { "requests": { "memory": "1Gi", "cpu": "500m" } } }],
        },
    });
    let parsed = parse_with(pod::parse, &object);
    assert_eq!((parsed.namespace.as_str(), parsed.name.as_str(), parsed.uid.as_str()), ("shop", "web-1", "u1"));
    let Record::Pod { record, shape, labels, volume_claims } = parsed.record else { panic!("no pod") };
    // 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
    assert_eq!(
        (record.created_at_ms, record.started_at_ms, record.deleted_at_ms),
        (1_767_225_600_000, 1_767_225_601_000, 1_767_225_630_000)
    );
    assert_eq!(record.owner.unwrap().name, "web");
    assert_eq!(record.scheduled_reason, "Unschedulable");
    assert!(record.nominated_by_agent && record.nominated_node_name == "n1" && !record.ready);
    assert_eq!(labels.labels.iter().map(|pair| pair.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(volume_claims, None);
    // Only the port with a host port is there, and no defaults. The allocated resources exceed the
    // request; the resources in use equal it and are not repeated.
    let expected = json!({
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "c",
                "resources": { "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "cpu": "1" } },
                "ports": [{ "containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP" }] }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname", "labelSelector": {} }] } },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3 }],
            "priority": 100, "schedulerName": "default-scheduler",
        },
        "status": {
            "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "500m", "memory": "2Gi" } }],
            "resize": "Infeasible",
        },
    });
    assert_eq!(*shape, *expected.to_string());
}

#[test]
fn equal_specs_have_equal_shapes_and_other_specs_have_others() {
    let shape = |spec: &str| {
        let text = format!(r#"{{"spec":{spec}}}"#);
        match pod::parse(&text, &mut ShapeInterner::default()).unwrap().record {
            Record::Pod { shape, .. } => shape.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let one = shape(
        r#"{"nodeSelector":{"b":"2","a":""},"containers":[{"name":"c","image":"x:1","ports":[{"containerPort":80,"hostPort":81}]}]}"#,
    );
    // Other order of the fields, written defaults, and fields that no decision uses.
    let same = shape(
        r#"{"containers":[{"ports":[{"hostPort":81,"containerPort":8080,"name":"p"},{"containerPort":9}],"image":"x:2","name":"c",
            "resources":{},"restartPolicy":""}],"initContainers":[],"hostNetwork":false,"priority":0,"affinity":null,
            "tolerations":[],"volumes":[{"name":"v","secret":{}}],"nodeName":"n","nodeSelector":{"a":"","b":"2"}}"#,
    );
    assert_eq!(one, same);
    assert_eq!(
        one,
        r#"{"spec":{"containers":[{"name":"c","ports":[{"containerPort":81,"hostPort":81}]}],"nodeSelector":{"a":"","b":"2"}}}"#
    );
    // Absent and empty differ where Kubernetes distinguishes them.
    let spread =
        |selector: &str| shape(&format!(r#"{{"topologySpreadConstraints":[{{"labelSelector":{selector}}}]}}"#));
    assert_ne!(spread("null"), spread("{}"));
    let preferred = r#"{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}}]}}}"#;
    assert_eq!(shape(preferred), format!(r#"{{"spec":{preferred}}}"#));
}

#[test]
fn a_nomination_by_another_manager_is_not_ours() {
    let pod = |manager: &str, nominated: &str| {
        let object = json!({ "metadata": { "managedFields": [{ "manager": manager }] }, "status": { "nominatedNodeName": nominated } });
        let Record::Pod { record, .. } = parse_with(pod::parse, &object).record else { panic!("no pod") };
        record.nominated_by_agent
    };
    assert!(pod("fleetwright-agent-nominations", "n1"));
    assert!(!pod("kube-scheduler", "n1") && !pod("fleetwright-agent-nominations", ""));
}

#[test]
fn pods_of_one_template_share_their_shape() {
    let mut shared = ShapeInterner::default();
    let mut shape_of = |name: &str, cpu: &str| {
        let object = json!({ "metadata": { "name": name }, "spec": { "containers": [{ "resources": { "requests": { "cpu": cpu } } }] } });
        match pod::parse(&object.to_string(), &mut shared).unwrap().record {
            Record::Pod { shape, .. } => shape,
            other => panic!("{other:?}"),
        }
    };
    let (a, b, c) = (shape_of("a", "1"), shape_of("b", "1"), shape_of("c", "2"));
    assert!(std::sync::Arc::ptr_eq(&a, &b) && !std::sync::Arc::ptr_eq(&a, &c));
}

#[test]
fn a_node_and_a_claim_say_what_the_protocol_asks_for() {
    let node = json!({
        "metadata": { "name": "n1", "uid": "u", "finalizers": ["karpenter.sh/termination"],
                      "annotations": { "karpenter.sh/do-not-disrupt": "true", "csi.volume/nodeid": "x" } },
        "spec": { "providerID": "aws:///z/i-1", "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        "status": { "capacity": { "cpu": "4" }, "allocatable": { "cpu": "3920m" }, "volumesAttached": [{ "name": "v" }],
                    "images": [{ "names": ["huge"] }],
                    "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:05Z",
                                     "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
    });
    let v1::change::Change::Node(record) = change(parse_with(node::parse, &node)) else { panic!("no node") };
    assert_eq!(
        (record.provider_id.as_str(), record.unschedulable, record.annotations.len()),
        ("aws:///z/i-1", true, 1)
    );
    assert_eq!(record.conditions[0].last_transition_ms, 1_767_225_600_000);
    assert_eq!(
        (record.allocatable[0].amount.as_str(), record.volumes_attached.as_slice()),
        ("3920m", &["v".to_owned()][..])
    );
    let claim = json!({
        "metadata": { "name": "c", "annotations": { "fleetwright.dev/obeyed": "1/2", "fleetwright.dev/managed": "true" },
                      "ownerReferences": [{ "kind": "NodePool", "name": "general", "uid": "p" }] },
        "spec": { "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                  "requirements": [{ "key": "k", "operator": "In", "values": ["a"], "minValues": 1 }],
                  "resources": { "requests": { "cpu": 2, "memory": "1Gi" } }, "expireAfter": "Never" },
        "status": { "providerID": "aws:///z/i-1", "lastPodEventTime": "2026-01-01T00:00:00Z" },
    });
    let v1::change::Change::NodeClaim(record) = change(parse_with(claim::parse, &claim)) else { panic!("no claim") };
    assert_eq!(record.requirements[0].min_values, Some(1));
    // A custom resource may hold a number where others hold a text.
    assert_eq!(record.requests[0], v1::Quantity { resource: "cpu".into(), amount: "2".into() });
    assert_eq!(record.annotations.len(), 1, "our own note is no news for the server");
    assert_eq!((record.owner.unwrap().name.as_str(), record.last_pod_event_ms), ("general", 1_767_225_600_000));
}

#[test]
fn a_manifest_travels_without_what_the_api_server_notes_beside() {
    let object = json!({
        "kind": "NodePool",
        "metadata": { "name": "general", "resourceVersion": "7", "managedFields": [{}],
                      "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" } },
        "spec": { "weight": 10 },
    });
    let v1::change::Change::Manifest(record) = change(parse_with(manifest::parse_pool, &object)) else {
        panic!("no manifest")
    };
    assert_eq!(
        (record.name.as_str(), record.resource_version.as_str(), record.kind()),
        ("general", "7", v1::ObjectKind::NodePool)
    );
    let json: Value = serde_json::from_slice(&record.json).unwrap();
    let expected = json!({
        "kind": "NodePool",
        "metadata": { "name": "general", "resourceVersion": "7", "annotations": { "a": "b" } },
        "spec": { "weight": 10 },
    });
    assert_eq!(json, expected);
}

#[test]
fn a_class_is_sent_with_its_user_data_which_instances_are_launched_with() {
    let object = json!({
        "kind": "EC2NodeClass",
        "metadata": { "name": "default", "resourceVersion": "7" },
        "spec": { "amiFamily": "AL2023", "userData": "echo hello" },
    });
    let v1::change::Change::Manifest(record) = change(parse_with(manifest::parse_class, &object)) else {
        panic!("no manifest")
    };
    let json: Value = serde_json::from_slice(&record.json).unwrap();
    assert_eq!(json["spec"], object["spec"]);
}

#[test]
fn storage_says_what_the_protocol_asks_for() {
    let claim = json!({ "metadata": { "name": "d", "namespace": "n", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "storageClassName": "", "volumeName": "pv", "accessModes": ["ReadWriteOncePod"], "volumeMode": "Block",
            "resources": { "requests": { "storage": "10Gi" } }, "selector": { "matchLabels": { "disk": "fast" } } },
        "status": { "phase": "Bound" } });
    let v1::change::Change::PersistentVolumeClaim(record) = change(parse_with(storage::parse_volume_claim, &claim))
    else {
        panic!()
    };
    assert_eq!(
        (record.storage_class, record.bind_completed, record.phase.as_str()),
        (Some(String::new()), true, "Bound")
    );
    assert_eq!(record.access_modes, ["ReadWriteOncePod"]);
    assert_eq!((record.storage_request.as_str(), record.volume_mode.as_str()), ("10Gi", "Block"));
    assert_eq!(record.selector.unwrap().match_labels.len(), 1);
    let volume = json!({ "metadata": { "name": "pv" }, "spec": {
        "hostPath": { "path": "/x" }, "storageClassName": "s", "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"],
        "claimRef": { "namespace": "n", "name": "d" },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }] } } },
        "status": { "phase": "Released" } });
    let v1::change::Change::PersistentVolume(record) = change(parse_with(storage::parse_volume, &volume)) else {
        panic!()
    };
    assert_eq!((record.plugin.as_str(), record.csi_driver.as_str()), ("hostPath", ""));
    assert_eq!(record.node_affinity.unwrap().terms[0].match_expressions[0].values, ["a"]);
    assert_eq!((record.capacity.as_str(), record.phase.as_str()), ("5Gi", "Released"));
    assert_eq!((record.claim_namespace.as_str(), record.claim_name.as_str()), ("n", "d"));
    assert_eq!(record.access_modes, ["ReadWriteOnce"]);
    let class = json!({ "metadata": { "name": "s", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }] });
    let v1::change::Change::StorageClass(record) = change(parse_with(storage::parse_class, &class)) else { panic!() };
    let terms = record.allowed_topologies.unwrap().terms;
    assert!(
        record.is_default
            && terms[0].match_expressions[0].operator == "In"
            && terms[0].match_expressions[0].values.len() == 2
    );
}

#[test]
fn policies_say_what_the_protocol_asks_for() {
    let budget = |observed: i64| {
        let object = json!({ "metadata": { "name": "b", "generation": 2 },
            "spec": { "selector": {}, "minAvailable": observed, "maxUnavailable": "30%" },
            "status": { "disruptionsAllowed": 1, "observedGeneration": observed } });
        let v1::change::Change::PodDisruptionBudget(record) = change(parse_with(policy::parse_budget, &object)) else {
            panic!()
        };
        record
    };
    assert!(budget(2).status_is_current && !budget(1).status_is_current);
    assert_eq!(budget(2).selector, Some(v1::LabelSelector::default()));
    assert_eq!((&*budget(2).min_available, &*budget(2).max_unavailable), ("2", "30%"));
    let class = json!({ "metadata": { "name": "p" }, "value": -5, "globalDefault": true });
    let v1::change::Change::PriorityClass(record) = change(parse_with(policy::parse_priority_class, &class)) else {
        panic!()
    };
    assert_eq!((record.value, record.global_default), (-5, true));
}
