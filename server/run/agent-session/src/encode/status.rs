//! Encodes statuses and events; the only place that writes Kubernetes JSON.

use controller::{Condition, EventOrder, ObjectRef, StatusOrder, StatusPatch};
use fleetwright_proto::v1;
use model::resources::NODES;
use model::{Resources, Text, Timestamp, Zone, quantity};
use serde_json::{Map, Value, json};

use super::moment::moment;
use super::node_class;

pub(super) fn write(order: &StatusOrder) -> v1::WriteObject {
    let (kind, _, name) = object(&order.subject);
    let finalizer = |finalizer: Option<&str>| finalizer.map(str::to_owned).into_iter().collect();
    v1::WriteObject {
        kind: kind.into(),
        name,
        status: status(&order.patch, order.at).to_string().into_bytes(),
        add_finalizers: finalizer(order.patch.add_finalizer),
        remove_finalizers: finalizer(order.patch.remove_finalizer),
        annotations: order.patch.annotations.iter().map(annotation).collect(),
        labels: Vec::new(),
    }
}

fn annotation((key, value): &(Text, Text)) -> v1::StringPair {
    v1::StringPair { key: key.to_string(), value: value.to_string() }
}

pub(super) fn event(order: &EventOrder) -> v1::RecordEvent {
    let (kind, namespace, name) = object(&order.subject);
    v1::RecordEvent {
        kind: kind.into(),
        namespace,
        name,
        uid: order.uid.to_string(),
        r#type: if order.reason.is_warning() { "Warning" } else { "Normal" }.to_owned(),
        reason: order.reason.as_str().to_owned(),
        message: order.message.to_string(),
    }
}

/// Kind, namespace and name.
fn object(subject: &ObjectRef) -> (v1::ObjectKind, String, String) {
    let lone = |kind, name: &str| (kind, String::new(), name.to_string());
    match subject {
        ObjectRef::Pool(name) => lone(v1::ObjectKind::NodePool, name),
        ObjectRef::Class(name) => lone(v1::ObjectKind::Ec2NodeClass, name),
        ObjectRef::Claim(name) => lone(v1::ObjectKind::NodeClaim, name),
        ObjectRef::Node(name) => lone(v1::ObjectKind::Node, name),
        ObjectRef::Pod(key) => (v1::ObjectKind::Pod, key.namespace.to_string(), key.name.to_string()),
    }
}

/// The fields of `status` that `patch` sets.
fn status(patch: &StatusPatch, at: Timestamp) -> Value {
    let mut status = Map::new();
    if let Some(usage) = &patch.usage {
        status.insert("resources".to_owned(), amounts(usage));
        status.insert("nodes".to_owned(), json!(usage.get(NODES)));
    }
    if let Some(zones) = &patch.zones {
        let subnet = |zone: &Zone| json!({ "id": format!("subnet-{zone}"), "zone": zone.as_ref() });
        status.insert("subnets".to_owned(), zones.iter().map(subnet).collect());
    }
    if let Some(class) = &patch.node_class {
        status.extend(node_class::fields(class));
    }
    if let Some(at) = patch.last_pod_event {
        status.insert("lastPodEventTime".to_owned(), json!(moment(at)));
    }
    // An entry without a status removes its condition.
    let removed = patch.remove_conditions.iter().map(|kind| json!({ "type": kind }));
    let conditions: Value = patch.conditions.iter().map(|one| condition(one, at)).chain(removed).collect();
    status.insert("conditions".to_owned(), conditions);
    Value::Object(status)
}

fn amounts(resources: &Resources) -> Value {
    let amount = |(name, amount): (&Text, i64)| (name.to_string(), Value::from(quantity::render(name, amount)));
    Value::Object(resources.iter().map(amount).collect())
}

fn condition(condition: &Condition, at: Timestamp) -> Value {
    let mut value = json!({
        "type": condition.kind,
        "status": condition.status.as_str(),
        "reason": &*condition.reason,
        "message": &*condition.message,
        "lastTransitionTime": moment(at),
    });
    if condition.generation != 0 {
        value["observedGeneration"] = json!(condition.generation);
    }
    value
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller::{ConditionStatus, EventReason};
    use model::PodKey;
    use model::node_class::{NodeClassStatus, SubnetEntry};

    use super::*;

    fn written(subject: ObjectRef, patch: StatusPatch) -> (v1::WriteObject, Value) {
        // 86,400 s after the epoch, plus 999 ms.
        let message = write(&StatusOrder { subject, patch, at: Timestamp::from_millis(86_400_999) });
        let status = serde_json::from_slice(&message.status).unwrap();
        (message, status)
    }

    #[test]
    fn a_condition_to_remove_is_an_entry_without_a_status() {
        let patch = StatusPatch { remove_conditions: vec!["Drifted"], ..StatusPatch::default() };
        let (_, status) = written(ObjectRef::Claim("general-1".into()), patch);
        assert_eq!(status["conditions"], json!([{"type": "Drifted"}]));
    }

    #[test]
    fn a_pools_status_has_its_usage_and_its_conditions() {
        let usage = Resources::from_iter([("cpu", 1_500), ("memory", 1 << 30), (NODES, 2)]);
        let unmet = Condition::unmet("Ready", ConditionStatus::False, "UnhealthyDependents", "NodeClassReady=False", 3);
        let patch = StatusPatch { usage: Some(usage), conditions: vec![unmet], ..StatusPatch::default() };
        let (message, status) = written(ObjectRef::Pool("general".into()), patch);
        assert_eq!((message.kind(), message.name.as_str()), (v1::ObjectKind::NodePool, "general"));
        let expected = json!({
            "resources": {"cpu": "1500m", "memory": "1Gi", "nodes": "2"},
            "nodes": 2,
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": "NodeClassReady=False",
                "lastTransitionTime": "1970-01-02T00:00:00Z", "observedGeneration": 3,
            }],
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn a_claims_status_has_the_last_pod_event_and_omits_unknown_fields() {
        let patch = StatusPatch { last_pod_event: Some(Timestamp::from_millis(86_400_000)), ..StatusPatch::default() };
        let (message, status) = written(ObjectRef::Claim("m0".into()), patch);
        assert_eq!(message.kind(), v1::ObjectKind::NodeClaim);
        assert_eq!(status, json!({"lastPodEventTime": "1970-01-02T00:00:00Z", "conditions": []}));
        let (_, status) = written(ObjectRef::Claim("m0".into()), StatusPatch::default());
        assert_eq!(status, json!({"conditions": []}));
    }

    #[test]
    fn a_class_is_protected_and_released_by_its_finalizer() {
        let finalizer = "karpenter.k8s.aws/termination";
        let held =
            StatusPatch { add_finalizer: Some(finalizer), zones: Some(vec!["z-a".into()]), ..StatusPatch::default() };
        let (message, status) = written(ObjectRef::Class("default".into()), held);
        assert_eq!((message.add_finalizers, message.remove_finalizers.len()), (vec![finalizer.to_owned()], 0));
        assert_eq!(status["subnets"], json!([{"id": "subnet-z-a", "zone": "z-a"}]));
        let released = StatusPatch { remove_finalizer: Some(finalizer), ..StatusPatch::default() };
        let (message, _) = written(ObjectRef::Class("default".into()), released);
        assert_eq!(message.remove_finalizers, [finalizer]);
    }

    #[test]
    fn what_the_selectors_of_a_class_found_replaces_its_zones_and_annotations_are_set() {
        let class = NodeClassStatus { instance_profile: Some("profile-1".into()), ..NodeClassStatus::default() };
        let annotations = vec![("karpenter.k8s.aws/ec2nodeclass-hash".into(), "7".into())];
        let patch = StatusPatch { node_class: Some(Arc::new(class)), annotations, ..StatusPatch::default() };
        let (message, status) = written(ObjectRef::Class("default".into()), patch);
        assert_eq!(status, json!({"instanceProfile": "profile-1", "conditions": []}));
        let expected = v1::StringPair { key: "karpenter.k8s.aws/ec2nodeclass-hash".into(), value: "7".into() };
        assert_eq!(message.annotations, [expected]);
        let subnet = SubnetEntry { id: "subnet-0a".into(), zone: "z-a".into(), zone_id: None };
        let class = NodeClassStatus { subnets: Some(vec![subnet]), ..NodeClassStatus::default() };
        let zones = Some(vec!["z-b".into()]);
        let patch = StatusPatch { zones, node_class: Some(Arc::new(class)), ..StatusPatch::default() };
        let (_, status) = written(ObjectRef::Class("default".into()), patch);
        assert_eq!(status["subnets"], json!([{"id": "subnet-0a", "zone": "z-a"}]));
    }

    #[test]
    fn an_event_names_its_object_with_its_uid() {
        let subject = ObjectRef::Pod(PodKey { namespace: "shop".into(), name: "web".into() });
        let reason = EventReason::FailedScheduling;
        let order = EventOrder { subject, uid: "u".into(), reason, message: "why".into(), series: Text::default() };
        let message = event(&order);
        assert_eq!(message.kind(), v1::ObjectKind::Pod);
        let fields = [message.namespace, message.name, message.uid, message.r#type, message.reason, message.message];
        assert_eq!(fields, ["shop", "web", "u", "Warning", "FailedScheduling", "why"]);
    }
}
