use cluster::{DoNotDisrupt, PodRecord, Scheduling};
use model::{Millis, NodePool, Resources, Timestamp};

use super::*;

fn decoder() -> Decoder {
    Decoder::new(Arc::default(), PoolReader::new(pools_by_name), Limits::default(), &SessionMemory::default())
}

/// Pools with only their name and, as node class, the names of the node class manifests.
fn pools_by_name(manifests: &Manifests) -> Vec<PoolRecord> {
    let classes = manifests.keys().filter(|(kind, _)| *kind == ManifestKind::Ec2NodeClass).count();
    let pools = manifests.iter().filter(|((kind, _), _)| *kind == ManifestKind::NodePool);
    pools.map(|((_, name), manifest)| pool(name, classes, &manifest.revision)).collect()
}

pub(crate) fn pool(name: &Text, classes: usize, revision: &Text) -> PoolRecord {
    PoolRecord {
        pool: NodePool { name: name.into(), node_class: classes.to_string().into(), ..NodePool::default() },
        disruption: model::disruption_policy::DisruptionPolicy::default(),
        revision: revision.clone(),
        meta: cluster::PoolMeta::default(),
        drift: cluster::PoolDriftFacts::default(),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<v1::StringPair> {
    pairs.iter().map(|(key, value)| v1::StringPair { key: (*key).into(), value: (*value).into() }).collect()
}

fn define(tag: u8, message: &impl Message) -> v1::Definition {
    v1::Definition { hash: vec![tag; 16], content: message.encode_to_vec() }
}

fn change(change: Change) -> v1::Change {
    v1::Change { change: Some(change) }
}

/// Decodes `change_taken` after an empty shape (1), an empty label set (2) and a set of one volume
/// claim (3) were defined.
fn take(change_taken: Change) -> Result<Decoded, DecodeError> {
    let mut decoder = decoder();
    let claim = v1::volume_claim::Source::ClaimName("data".into());
    let volume = v1::VolumeClaim { volume_name: "v".into(), source: Some(claim) };
    for definition in [
        Change::DefinePodShape(v1::Definition { hash: vec![1; 16], content: br#"{"spec":{}}"#.to_vec() }),
        Change::DefineLabelSet(define(2, &v1::LabelSet::default())),
        Change::DefineVolumeClaimSet(define(3, &v1::VolumeClaimSet { volumes: vec![volume] })),
    ] {
        assert_eq!(decoder.decode_change(change(definition)), Ok(Decoded::Ignored));
    }
    decoder.decode_change(change(change_taken))
}

fn pod() -> v1::PodRecord {
    v1::PodRecord {
        namespace: "shop".into(),
        name: "web-1".into(),
        shape: vec![1; 16].into(),
        labels: vec![2; 16].into(),
        ..v1::PodRecord::default()
    }
}

fn decoded_pod(pod: v1::PodRecord) -> PodRecord {
    match take(Change::Pod(Box::new(pod))).unwrap() {
        Decoded::Object(object) => match object {
            Object::Pod(pod) => pod,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pending_pod_has_the_state_set_by_kube_scheduler() {
    let record = v1::PodRecord { scheduled_reason: "Unschedulable".into(), created_at_ms: 5, ..pod() };
    let decoded = decoded_pod(record);
    assert_eq!(decoded.key.to_string(), "shop/web-1");
    assert_eq!(decoded.scheduling, Scheduling::Unschedulable);
    assert_eq!((decoded.created, decoded.node.clone()), (Some(Timestamp::from_millis(5)), None));
    assert_eq!(decoded.workload.as_ref(), "Pod/web-1");
    assert!(decoded.is_provisionable());
    assert_eq!(decoded.shape.requests, Resources::from_iter([("pods", 1)]));
}

#[test]
fn the_owner_determines_the_workload_of_a_pod() {
    let owned = |api_version: &str, kind: &str| {
        let owner =
            v1::Owner { api_version: api_version.into(), kind: kind.into(), name: "o".into(), uid: String::new() };
        decoded_pod(v1::PodRecord { owner: Some(owner), ..pod() })
    };
    let daemon = owned("apps/v1", "DaemonSet");
    assert_eq!((daemon.daemon.as_deref(), daemon.mirror), (Some("shop/o"), false));
    let mirror = owned("v1", "Node");
    assert_eq!((mirror.daemon.as_deref(), mirror.mirror), (None, true));
    assert_eq!(owned("apps/v1", "ReplicaSet").workload.as_ref(), "ReplicaSet/o");
}

#[test]
fn the_reason_of_a_drain_is_read_up_to_500_characters() {
    let reason = |order: &str| {
        let annotation = v1::StringPair { key: "fleetwright.dev/drain".into(), value: order.into() };
        let node = v1::NodeRecord { annotations: vec![annotation], ..v1::NodeRecord::default() };
        record::node(&node, &mut TextPool::default()).0.drain.unwrap_or_default().reason.to_string()
    };
    assert_eq!(reason(r#"{"claim":"a","reason":"it is empty (decision 42)"}"#), "it is empty (decision 42)");
    assert_eq!(reason(&format!(r#"{{"claim":"a","reason":"{}"}}"#, "x".repeat(501))).len(), 500);
    assert_eq!(["{}", "no JSON", r#"{"claim":"a","reason":1}"#].map(reason), ["", "", ""]);
}

#[test]
fn protection_is_true_or_a_positive_duration() {
    let of = |value: &str| {
        let annotations = pairs(&[("karpenter.sh/do-not-disrupt", value)]);
        decoded_pod(v1::PodRecord { annotations, ..pod() }).do_not_disrupt
    };
    assert_eq!(of("true"), Some(DoNotDisrupt::Always));
    // 90 minutes are 90 × 60,000 ms.
    assert_eq!(of("1h30m"), Some(DoNotDisrupt::For(Millis::new(5_400_000))));
    for nothing in ["false", "0s", "soon", ""] {
        assert_eq!(of(nothing), None, "{nothing:?}");
    }
}

#[test]
fn a_value_that_is_meant_as_protection_and_protects_nothing_is_marked() {
    let is_invalid = |value: &str| {
        let annotations = pairs(&[("karpenter.sh/do-not-disrupt", value)]);
        decoded_pod(v1::PodRecord { annotations, ..pod() }).has_invalid_protection
    };
    assert_eq!(["0s", "soon", "1 hour", ""].map(is_invalid), [true; 4]);
    assert_eq!(["true", "false", "1h"].map(is_invalid), [false; 3]);
    assert!(!decoded_pod(pod()).has_invalid_protection, "there is no annotation");
}

#[test]
fn a_pod_with_an_unknown_claim_stays_pending() {
    let decoded = decoded_pod(v1::PodRecord { volume_claims: vec![3; 16].into(), ..pod() });
    let blocked = decoded.volumes.and_then(|volumes| volumes.blocked.clone()).unwrap();
    assert_eq!(blocked.as_ref(), "PersistentVolumeClaim/shop/data is not in the cluster");
}

#[test]
fn our_own_nomination_is_ignored_and_an_external_scale_up_is_dated() {
    let hinted = v1::PodRecord { nominated_node_name: "n".into(), nominated_by_agent: true, ..pod() };
    assert_eq!(decoded_pod(hinted.clone()).nominated, None);
    let foreign = v1::PodRecord { nominated_by_agent: false, external_scale_up_ms: 7, ..hinted };
    let decoded = decoded_pod(foreign);
    assert_eq!((decoded.nominated, decoded.external_scale_up), (Some("n".into()), Some(Timestamp::from_millis(7))));
}

#[test]
fn a_budget_with_an_outdated_status_allows_no_disruption() {
    let record = |status_is_current| v1::PodDisruptionBudgetRecord {
        namespace: "shop".into(),
        name: "web".into(),
        disruptions_allowed: 2,
        status_is_current,
        ..v1::PodDisruptionBudgetRecord::default()
    };
    assert_eq!(auxiliary::budget(&record(true)).0.allowed, 2);
    assert_eq!(auxiliary::budget(&record(false)).0.allowed, 0);
}

fn written_pool(resource_version: &str, conditions: &str, annotation: &str) -> v1::Change {
    let json = format!(
        r#"{{"metadata":{{"name":"a","generation":3,"resourceVersion":"{resource_version}","annotations":{{"k":"{annotation}"}}}},
            "status":{{"nodes":{resource_version},"conditions":{conditions}}}}}"#
    );
    change(Change::Manifest(v1::ManifestRecord {
        kind: v1::ObjectKind::NodePool.into(),
        name: "a".into(),
        json: json.into_bytes(),
        resource_version: resource_version.into(),
    }))
}

#[test]
fn a_status_that_this_server_writes_changes_no_pool() {
    let mut decoder = decoder();
    let observations = |decoder: &mut Decoder, change| decoder.decode_delta(vec![change]).unwrap().len();
    assert_eq!(observations(&mut decoder, written_pool("1", "[]", "v")), 1);
    let ready = r#"[{"type":"Ready","status":"False"}]"#;
    assert_eq!(observations(&mut decoder, written_pool("2", ready, "v")), 0);
    assert_eq!(observations(&mut decoder, written_pool("3", ready, "w")), 1, "an annotation may be a rule");
    let unhealthy = r#"[{"type":"NodeRegistrationHealthy","status":"False"}]"#;
    assert_eq!(observations(&mut decoder, written_pool("4", unhealthy, "w")), 1, "unhealthy pools are planned last");
}

#[test]
fn a_class_that_is_not_ready_is_read_again_and_one_that_is_stays() {
    let mut decoder = decoder();
    let mut is_read_again = |version: &str, conditions: &str| {
        let Some(Change::Manifest(mut record)) = written_pool(version, conditions, "v").change else { panic!() };
        record.kind = v1::ObjectKind::Ec2NodeClass.into();
        decoder.decode_change(change(Change::Manifest(record))).unwrap() == Decoded::Manifests
    };
    let condition = |status: &str, at: &str, why: &str| {
        format!(r#"[{{"type":"Ready","status":"{status}","lastTransitionTime":"{at}","message":"{why}"}}]"#)
    };
    assert!(is_read_again("1", "[]"));
    assert!(!is_read_again("2", &condition("True", "1", "")), "that changes nothing");
    assert!(is_read_again("3", &condition("False", "2", "a reserved tag")));
    assert!(!is_read_again("4", &condition("False", "3", "a reserved tag")), "its time is no content");
    assert!(is_read_again("5", &condition("False", "3", "no subnet")), "the reason is shown");
    assert!(is_read_again("6", &condition("True", "4", "")));
}

#[test]
fn an_undefined_reference_is_named() {
    for record in [
        v1::PodRecord { shape: vec![9; 16].into(), ..pod() },
        v1::PodRecord { labels: vec![9; 16].into(), ..pod() },
        v1::PodRecord { volume_claims: vec![9; 16].into(), ..pod() },
        v1::PodRecord { shape: Vec::new().into(), ..pod() },
    ] {
        let fault = take(Change::Pod(Box::new(record))).unwrap_err();
        assert!(matches!(&fault, DecodeError::Undefined { object, .. } if object == "pod shop/web-1"), "{fault}");
    }
}

#[test]
fn a_node_is_ready_when_its_condition_is_true() {
    let node = |status: &str| {
        let ready = v1::Condition { r#type: "Ready".into(), status: status.into(), ..v1::Condition::default() };
        let record = v1::NodeRecord {
            name: "n".into(),
            labels: pairs(&[("beta.kubernetes.io/arch", "arm64")]),
            conditions: vec![ready],
            allocatable: vec![v1::Quantity { resource: "cpu".into(), amount: "1930m".into() }],
            ..v1::NodeRecord::default()
        };
        let Ok(Decoded::Object(object)) = take(Change::Node(Box::new(record))) else { panic!("no node") };
        let Object::Node(node) = object else { panic!("no node") };
        node
    };
    assert!(node("True").ready && !node("False").ready && !node("Unknown").ready);
    assert_eq!(node("True").allocatable.get("cpu"), 1_930);
    assert_eq!(node("True").labels.get("kubernetes.io/arch").map(AsRef::as_ref), Some("arm64"));
}

#[test]
fn conditions_that_say_what_is_not_ready_are_kept_with_their_time() {
    let condition = |kind: &str, status: &str, at: i64| v1::Condition {
        r#type: kind.into(),
        status: status.into(),
        last_transition_ms: at,
        ..v1::Condition::default()
    };
    // Unknown when it began, ready, and of another sort.
    let others =
        [condition("KernelReady", "False", 0), condition("Ready", "True", 5), condition("DiskPressure", "False", 5)];
    let kept = [condition("StorageReady", "False", 70_000), condition("NetworkingReady", "Unknown", 80_000)];
    let record = v1::NodeRecord {
        name: "n".into(),
        conditions: others.into_iter().chain(kept).collect(),
        annotations: pairs(&[("karpenter.sh/do-not-repair", "true")]),
        ..v1::NodeRecord::default()
    };
    let Ok(Decoded::Object(Object::Node(node))) = take(Change::Node(Box::new(record))) else { panic!("no node") };
    let unmet: Vec<(&str, &str, i64)> =
        node.unmet.iter().map(|one| (one.kind.as_ref(), one.status.as_ref(), one.since.as_millis())).collect();
    assert_eq!(unmet, [("StorageReady", "False", 70_000), ("NetworkingReady", "Unknown", 80_000)]);
    assert!(node.do_not_repair && node.do_not_disrupt.is_none());
}

#[test]
fn a_node_is_protected_always_or_for_a_duration() {
    let protection = |value: &str| {
        let annotations = pairs(&[("karpenter.sh/do-not-disrupt", value)]);
        let record = v1::NodeRecord { name: "n".into(), annotations, ..v1::NodeRecord::default() };
        let Ok(Decoded::Object(Object::Node(node))) = take(Change::Node(Box::new(record))) else { panic!("no node") };
        node.do_not_disrupt
    };
    let half_an_hour = DoNotDisrupt::For(Millis::from_mins(30));
    assert_eq!(
        ["true", "30m", "false", "0s"].map(protection),
        [Some(DoNotDisrupt::Always), Some(half_an_hour), None, None]
    );
}

#[test]
fn a_claim_expires_as_written_and_after_thirty_days_by_default() {
    let expires = |text: &str| {
        let record = v1::NodeClaimRecord { expire_after: text.into(), ..v1::NodeClaimRecord::default() };
        let Ok(Decoded::Object(Object::Claim(claim))) = take(Change::NodeClaim(Box::new(record))) else {
            panic!("no claim")
        };
        claim.expire_after
    };
    assert_eq!(
        ["90s", "", "Never", "soon"].map(expires),
        [Some(Millis::from_secs(90)), Some(Millis::from_hours(720)), None, None]
    );
}

fn amount(resource: &str, amount: &str) -> v1::Quantity {
    v1::Quantity { resource: resource.into(), amount: amount.into() }
}

fn node(name: &str, allocatable: Vec<v1::Quantity>) -> v1::Change {
    let record =
        v1::NodeRecord { name: name.into(), provider_id: "p".into(), allocatable, ..v1::NodeRecord::default() };
    change(Change::Node(Box::new(record)))
}

fn requiring(operator: &str) -> v1::Change {
    let requirement =
        v1::ClaimRequirement { key: "k".into(), operator: operator.into(), values: vec!["3".into()], min_values: None };
    let (name, requirements) = ("c".into(), vec![requirement]);
    change(Change::NodeClaim(Box::new(v1::NodeClaimRecord { name, requirements, ..v1::NodeClaimRecord::default() })))
}

/// Result of a delta: Nodes with `unschedulable` and `do_not_disrupt`, and problems.
fn decoded(decoder: &mut Decoder, changes: Vec<v1::Change>) -> Vec<String> {
    let word = |observation| match observation {
        Observation::Upsert(object) => match *object {
            Object::Node(node) => {
                format!(
                    "node {} cpu {} {}",
                    node.name,
                    node.allocatable.get("cpu"),
                    !node.unschedulable && node.do_not_disrupt.is_none()
                )
            }
            Object::Claim(claim) => {
                format!("claim {} of {} requirements", claim.name, claim.requirements.iter().count())
            }
            Object::PodBudget(budget) => format!("budget {} allows {}", budget.name, budget.allowed),
            Object::Problem(problem) => format!("{}: {}", problem.about, problem.reason),
            other => format!("{other:?}"),
        },
        Observation::Delete(Key::Problem(about)) => format!("{about} can be read"),
        other => format!("{other:?}"),
    };
    decoder.decode_delta(changes).unwrap().into_iter().map(word).collect()
}

#[test]
fn an_unreadable_object_is_reported_and_the_others_are_decoded() {
    let mut decoder = decoder();
    // 10E is 10^19, more than 64 bits hold, and so is 9223372036854775807 CPUs in thousandths.
    for unreadable in [amount("example.com/x", "10E"), amount("nvidia.com/gpu", "9223372036854775808")] {
        let what = format!("field allocatable: {}: ", unreadable.resource);
        let bad = node("n1", vec![amount("cpu", "2"), unreadable]);
        let observed = decoded(&mut decoder, vec![bad, node("n2", vec![amount("cpu", "4")])]);
        assert_eq!(observed[..2], ["node n1 cpu 2000 false", "node n2 cpu 4000 true"]);
        assert!(observed[2].starts_with("node n1: ") && observed[2].contains(&what), "{observed:?}");
    }
    let observed = decoded(&mut decoder, vec![node("n1", vec![amount("cpu", "9223372036854775807")])]);
    assert!(observed[0] == "node n1 cpu 0 false" && observed[1].contains("cpu"), "{observed:?}");
    let observed = decoded(&mut decoder, vec![node("n1", vec![amount("cpu", "2")])]);
    assert_eq!(observed, ["node n1 cpu 2000 true", "node n1 can be read"]);
}

#[test]
fn a_problem_reported_by_the_agent_ends_with_the_object() {
    let mut decoder = decoder();
    let record = v1::NodeRecord { name: "n".into(), problem: "spec.taints: null".into(), ..v1::NodeRecord::default() };
    let observed = decoded(&mut decoder, vec![change(Change::Node(Box::new(record)))]);
    assert!(
        observed[0] == "node n cpu 0 false" && observed[1].starts_with("node n: spec.taints: null"),
        "{observed:?}"
    );
    let kind = v1::ObjectKind::Node.into();
    let gone = v1::Removal { kind, namespace: String::new(), name: "n".into() };
    let observed = decoded(&mut decoder, vec![change(Change::Removal(gone))]);
    assert_eq!(observed[1], "node n can be read");
    assert!(decoder.problems.all().is_empty());
}

#[test]
fn unreadable_claims_budgets_and_volumes_do_not_close_the_stream() {
    let mut decoder = decoder();
    let observed = decoded(&mut decoder, vec![requiring("Near")]);
    assert!(observed[0] == "claim c of 0 requirements" && observed[1].contains("\"Near\""), "{observed:?}");
    assert_eq!(decoded(&mut decoder, vec![requiring("Gt")]), ["claim c of 1 requirements", "nodeclaim c can be read"]);
    let near = v1::Expression { key: "zone".into(), operator: "Near".into(), values: Vec::new() };
    let term = v1::NodeSelectorTerm { match_expressions: vec![near.clone()], match_fields: Vec::new() };
    let node_affinity = Some(v1::NodeSelector { terms: vec![term] });
    let volume =
        v1::PersistentVolumeRecord { name: "v".into(), node_affinity, ..v1::PersistentVolumeRecord::default() };
    let observed = decoded(&mut decoder, vec![change(Change::PersistentVolume(volume))]);
    assert!(observed[0].starts_with("persistentvolume v: "), "{observed:?}");
    let selector = Some(v1::LabelSelector { match_labels: Vec::new(), match_expressions: vec![near] });
    let budget = v1::PodDisruptionBudgetRecord {
        namespace: "shop".into(),
        name: "b".into(),
        selector,
        disruptions_allowed: 2,
        status_is_current: true,
        ..v1::PodDisruptionBudgetRecord::default()
    };
    let observed = decoded(&mut decoder, vec![change(Change::PodDisruptionBudget(budget))]);
    assert!(
        observed[0] == "budget b allows 0" && observed[1].starts_with("poddisruptionbudget shop/b: "),
        "{observed:?}"
    );
}

#[test]
fn a_kind_that_the_agent_cannot_list_is_reported() {
    let mut decoder = decoder();
    let unseen = |reason: &str| {
        change(Change::Unseen(v1::UnavailableKind {
            kind: v1::ObjectKind::PriorityClass.into(),
            reason: reason.into(),
        }))
    };
    assert_eq!(
        decoded(&mut decoder, vec![unseen("forbidden")]),
        ["priorityclass objects: forbidden; decisions ignore them"]
    );
    assert_eq!(decoded(&mut decoder, vec![unseen("")]), ["priorityclass objects can be read"]);
}

#[test]
fn a_claim_is_ours_when_annotated() {
    let claim = |annotations: &[(&str, &str)]| {
        let record = v1::NodeClaimRecord {
            name: "general-1".into(),
            labels: pairs(&[("karpenter.sh/nodepool", "general")]),
            annotations: pairs(annotations),
            termination_grace_period: "30s".into(),
            requirements: vec![v1::ClaimRequirement {
                key: "k".into(),
                operator: "In".into(),
                values: vec!["a".into(), "b".into()],
                min_values: Some(2),
            }],
            ..v1::NodeClaimRecord::default()
        };
        let Ok(Decoded::Object(object)) = take(Change::NodeClaim(Box::new(record))) else { panic!("no claim") };
        let Object::Claim(claim) = object else { panic!("no claim") };
        claim
    };
    let ours = claim(&[("fleetwright.dev/managed", "true")]);
    assert!(ours.ours && !claim(&[]).ours);
    assert_eq!(ours.pool.as_ref(), "general");
    assert_eq!(ours.termination_grace_period, Some(Millis::from_secs(30)));
    assert_eq!(ours.requirements.get("k").and_then(|r| r.min_values()), Some(2));
}

#[test]
fn a_claim_has_the_hashes_the_image_and_the_time_that_its_drift_is_found_by() {
    let condition = |status: &str| v1::Condition {
        r#type: "Drifted".into(),
        status: status.into(),
        reason: "SubnetDrift".into(),
        message: "why".into(),
        last_transition_ms: 7_000,
    };
    let drift = |annotations: &[(&str, &str)], status: &str| {
        let record = v1::NodeClaimRecord {
            name: "general-1".into(),
            annotations: pairs(annotations),
            image_id: "ami-1".into(),
            conditions: vec![condition(status)],
            ..v1::NodeClaimRecord::default()
        };
        let Ok(Decoded::Object(Object::Claim(claim))) = take(Change::NodeClaim(Box::new(record))) else {
            panic!("no claim")
        };
        claim.drift
    };
    let pair = |hash: &str, version: &str| Some((Text::from(hash), Text::from(version)));
    let all = drift(
        &[
            ("fleetwright.dev/nodepool-hash", "a"),
            ("fleetwright.dev/nodepool-hash-version", "fleetwright-1"),
            ("karpenter.sh/nodepool-hash", "1"),
            ("karpenter.sh/nodepool-hash-version", "v3"),
            ("karpenter.k8s.aws/ec2nodeclass-hash", "2"),
            ("karpenter.k8s.aws/ec2nodeclass-hash-version", "v5"),
            ("fleetwright.dev/ec2nodeclass-hash", "b"),
            ("fleetwright.dev/ec2nodeclass-hash-version", "fleetwright-1"),
        ],
        "True",
    );
    assert_eq!(
        (all.own_hash, all.karpenter_hash, all.class_hash),
        (pair("a", "fleetwright-1"), pair("1", "v3"), pair("2", "v5"))
    );
    assert_eq!(all.own_class_hash, pair("b", "fleetwright-1"));
    assert_eq!((all.image.as_ref(), all.drifted_since), ("ami-1", Some(Timestamp::from_millis(7_000))));
    assert_eq!(all.shown, pair("SubnetDrift", "why"));
    // A hash without its version is none.
    let less = drift(&[("karpenter.sh/nodepool-hash", "1")], "False");
    assert_eq!((less.karpenter_hash, less.drifted_since, less.shown), (None, None, None));
}

fn manifest(kind: v1::ObjectKind, name: &str, version: &str) -> v1::Change {
    change(Change::Manifest(v1::ManifestRecord {
        kind: kind.into(),
        name: name.into(),
        json: b"{}".to_vec(),
        resource_version: version.into(),
    }))
}

#[test]
fn pools_are_parsed_again_when_a_manifest_changes_and_only_changed_ones_are_emitted() {
    let mut decoder = decoder();
    let emitted = |observations: Vec<Observation>| -> Vec<String> {
        let word = |observation| match observation {
            Observation::Delete(Key::Pool(name)) => format!("no {name}"),
            Observation::Upsert(object) => match *object {
                Object::Pool(pool) => format!("{} with {} classes", pool.pool.name, pool.pool.node_class),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        observations.into_iter().map(word).collect()
    };
    let (pool, class) = (v1::ObjectKind::NodePool, v1::ObjectKind::Ec2NodeClass);
    let first = decoder.decode_delta(vec![manifest(pool, "a", "1"), manifest(pool, "b", "1")]).unwrap();
    assert_eq!(emitted(first), ["a with 0 classes", "b with 0 classes"]);
    assert_eq!(emitted(decoder.decode_delta(vec![manifest(pool, "b", "2")]).unwrap()), ["b with 0 classes"]);
    assert!(decoder.decode_delta(vec![manifest(pool, "b", "2")]).unwrap().is_empty());
    let class = decoder.decode_delta(vec![manifest(class, "c", "1")]).unwrap();
    assert_eq!(emitted(class), ["a with 1 classes", "b with 1 classes"]);
    let removal = v1::Removal { kind: pool.into(), namespace: String::new(), name: "a".into() };
    assert_eq!(emitted(decoder.decode_delta(vec![change(Change::Removal(removal))]).unwrap()), ["no a"]);
}

#[test]
fn messages_above_the_limits_are_rejected() {
    let limits = Limits { definitions: 1, definition_bytes: 8, manifests: 1, manifest_bytes: 1, ..Limits::default() };
    let mut decoder = Decoder::new(Arc::default(), PoolReader::new(|_| Vec::new()), limits, &SessionMemory::default());
    let labels =
        |tag, key: &str| change(Change::DefineLabelSet(define(tag, &v1::LabelSet { labels: pairs(&[(key, "")]) })));
    assert!(matches!(decoder.decode_change(labels(1, "a long key")), Err(DecodeError::LimitExceeded { limit: 8, .. })));
    let shape = v1::Definition { hash: vec![1; 16], content: br#"{"spec":{}}"#.to_vec() };
    let shape = change(Change::DefinePodShape(shape));
    assert!(matches!(decoder.decode_change(shape), Err(DecodeError::LimitExceeded { found: 11, limit: 8, .. })));
    assert_eq!(decoder.decode_change(labels(1, "k")), Ok(Decoded::Ignored));
    assert!(matches!(
        decoder.decode_change(labels(2, "l")),
        Err(DecodeError::LimitExceeded { found: 2, limit: 1, .. })
    ));
    let big = manifest(v1::ObjectKind::NodePool, "a", "1");
    assert!(matches!(decoder.decode_change(big), Err(DecodeError::LimitExceeded { found: 2, limit: 1, .. })));
}

/// A delta of an agent with protocol version 1, byte by byte, with an unknown field and an unknown
/// change: newer servers must still decode it.
#[test]
fn a_message_of_protocol_version_1_is_decoded() {
    #[rustfmt::skip]
    let bytes: Vec<u8> = vec![
        0x1a, 30,               // ConnectRequest.delta (3), 30 bytes
        0x08, 0x01,             //   sequence (1) = 1
        0x12, 12,               //   changes (2), 12 bytes
        0x4a, 10,               //     Change.namespace (9), 10 bytes
        0x0a, 4, b's', b'h', b'o', b'p',    // name (1) = "shop"
        0xfa, 0x07, 1, b'x',    //       field 127, unknown, 1 byte
        0x12, 3,                //   changes (2), 3 bytes
        0x9a, 0x06, 0,          //     Change field 99, unknown, empty
        0x12, 7,                //   changes (2), 7 bytes
        0x4a, 5,                //     Change.namespace (9), 5 bytes
        0x0a, 3, b'o', b'p', b's',          // name (1) = "ops"
    ];
    let request = v1::ConnectRequest::decode(bytes.as_slice()).unwrap();
    let Some(v1::connect_request::Message::Delta(delta)) = request.message else { panic!("no delta") };
    assert_eq!(delta.sequence, 1);
    let names: Vec<String> = decoder()
        .decode_delta(delta.changes)
        .unwrap()
        .into_iter()
        .map(|observation| match observation {
            Observation::Upsert(object) => match *object {
                Object::Namespace(namespace) => namespace.name.to_string(),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["shop", "ops"]);
}

#[test]
fn timers_survive_restarts_because_they_are_read_from_the_objects() {
    let drain = |order: &str| {
        let annotation = v1::StringPair { key: "fleetwright.dev/drain".into(), value: order.into() };
        let node = v1::NodeRecord { name: "n".into(), annotations: vec![annotation], ..v1::NodeRecord::default() };
        record::node(&node, &mut TextPool::default()).0.drain
    };
    // As the agent writes it (agent/kubernetes, `actions/drain.rs`).
    let order = r#"{"claim":"a","rank":"00000000000000000003/00000000000000000007","reason":"r","forceAtMs":120000}"#;
    let recorded = drain(order).unwrap();
    assert_eq!((recorded.claim.to_string().as_str(), recorded.deadline), ("a", Some(Timestamp::from_millis(120_000))));
    for without in [r#"{"claim":"a"}"#, r#"{"claim":"a","forceAtMs":"soon"}"#] {
        assert_eq!(drain(without).map(|drain| drain.deadline), Some(None), "{without}");
    }
    for unreadable in [r#"{"forceAtMs":120000}"#, r#"{"claim":""}"#, r#"{"claim":1}"#, "[]", ""] {
        assert_eq!(drain(unreadable), None, "{unreadable}: it names no NodeClaim");
    }
    let claim = |status: &str| {
        let initialized = v1::Condition {
            r#type: "Initialized".into(),
            status: status.into(),
            last_transition_ms: 50_000,
            ..v1::Condition::default()
        };
        let conditions =
            vec![v1::Condition { r#type: "Ready".into(), status: "True".into(), ..initialized.clone() }, initialized];
        let claim = v1::NodeClaimRecord { last_pod_event_ms: 70_000, conditions, ..v1::NodeClaimRecord::default() };
        let (read, _) = record::claim(&claim, &mut TextPool::default());
        (read.last_pod_event, read.initialized_at)
    };
    assert_eq!(claim("True"), (Some(Timestamp::from_millis(70_000)), Some(Timestamp::from_millis(50_000))));
    assert_eq!(claim("Unknown"), (Some(Timestamp::from_millis(70_000)), None));
}

#[test]
fn a_pod_states_the_cost_of_its_disruption_or_of_its_deletion() {
    let cost = |annotations: &[(&str, &str)]| {
        decoded_pod(v1::PodRecord { annotations: pairs(annotations), ..pod() }).stated_cost
    };
    let (disruption, deletion) = ("karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost");
    assert_eq!(cost(&[]), 0);
    assert_eq!(cost(&[(deletion, "-5")]), -5);
    assert_eq!(cost(&[(deletion, "-5"), (disruption, "7")]), 7);
    assert_eq!(cost(&[(disruption, "a lot")]), 0);
}
