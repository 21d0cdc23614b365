//! Events that the agent writes about drains.

use super::*;
use crate::actions::drain::Drain;
use crate::resource::VOLUME_ATTACHMENT;

const REASON: &str = "it is empty (decision 42, $0.02/h)";

/// A pod of a ReplicaSet on n1, with a grace period of 30 s, in the cache of the agent.
fn pod_on_n1() -> ParsedObject {
    let record = v1::PodRecord {
        namespace: "n".to_owned(),
        name: "web-1".to_owned(),
        uid: "u-web-1".to_owned(),
        node_name: "n1".to_owned(),
        termination_grace_seconds: Some(30),
        ..v1::PodRecord::default()
    };
    let (namespace, name, uid) = (record.namespace.clone(), record.name.clone(), record.uid.clone());
    let seen =
        Record::Pod { record: Box::new(record), shape: Arc::default(), labels: Arc::default(), volume_claims: None };
    ParsedObject { uid, namespace, name, record: seen }
}

/// The Events about the drain of n1 with a pod on it, within its first seconds.
async fn written(api_server: &FakeApiServer, action: v1::DrainNode) -> Vec<Value> {
    api_server.machine(1, json!({}));
    let executor = executor(api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let (name, node) = ("n1".to_owned(), v1::NodeRecord { name: "n1".to_owned(), ..v1::NodeRecord::default() });
    let seen = Record::plain(v1::change::Change::Node(Box::new(node)));
    let node = ParsedObject { namespace: String::new(), uid: "un1".to_owned(), name, record: seen };
    executor.cache.replace_objects(v1::ObjectKind::Node, vec![node], &[]);
    executor.cache.replace_objects(v1::ObjectKind::Pod, vec![pod_on_n1()], &[]);
    api_server
        .put(POD.one("n", "web-1"), json!({ "metadata": { "name": "web-1", "namespace": "n", "uid": "u-web-1" } }));
    let going = executed(&executor, Action::DrainNode(action));
    let _goes_on = tokio::time::timeout(Duration::from_millis(500), going).await;
    let events = api_server.events.lock().unwrap();
    events.clone()
}

/// Reason, type, object and note.
fn shown(event: &Value) -> [&str; 4] {
    let text = |at: &str| event.pointer(at).and_then(Value::as_str).unwrap_or_default();
    [text("/reason"), text("/type"), text("/regarding/name"), text("/note")]
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_names_the_decision_that_removes_its_node() {
    let api_server = FakeApiServer::default();
    let events = written(&api_server, v1::DrainNode { reason: REASON.into(), ..drain(1) }).await;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(shown(event), ["Evicted", "Normal", "web-1", "Evicted pod: it is empty (decision 42, $0.02/h)"]);
    assert_eq!(event.pointer("/regarding/uid"), Some(&json!("u-web-1")));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_at_the_deadline_names_the_decision() {
    let api_server = FakeApiServer::default();
    let action = v1::DrainNode { reason: REASON.into(), force_at_ms: Some(1), interruption: true, ..drain(1) };
    let events = written(&api_server, action).await;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let note = "Deleted pod, because its node goes at its deadline: it is empty (decision 42, $0.02/h)";
    assert_eq!(shown(event), ["Disrupted", "Normal", "web-1", note]);
    assert!(api_server.object(&POD.one("n", "web-1")).is_none(), "it is deleted");
}

#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_reported_on_the_node() {
    let api_server = FakeApiServer { refuses_evictions: true, ..FakeApiServer::default() };
    let events = written(&api_server, drain(1)).await;
    let note = "Cannot evict pod n/web-1: the disruption budget web needs 2 healthy pods and has 2 currently";
    assert_eq!(shown(&events[0]), ["FailedDraining", "Warning", "n1", note]);
    assert!(events.iter().all(|event| event["reason"] == "FailedDraining"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn volumes_that_are_still_attached_are_reported_on_the_node() {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let attachment = json!({ "spec": { "nodeName": "n1", "source": { "persistentVolumeName": "pv-1" } } });
    api_server.put(VOLUME_ATTACHMENT.all(), json!({ "metadata": {}, "items": [attachment] }));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let action = v1::DrainNode { reason: REASON.into(), ..drain(1) };
    let node = api_server.object(&NODE.one("", "n1")).unwrap();
    let drain = Drain::new(executor.drain_context(), None, node, &action, false);
    let waits = tokio::time::timeout(Duration::from_secs(60), drain.await_volumes()).await;
    assert!(waits.is_err(), "it waits for the volume");
    let events = api_server.events.lock().unwrap().clone();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let note = "Awaiting detachment of pv-1: it is empty (decision 42, $0.02/h)";
    assert_eq!(shown(event), ["AwaitingVolumeDetachment", "Normal", "n1", note]);
}
