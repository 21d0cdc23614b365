//! Names of Nodes that pass from one instance to another.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_reuses_the_name_of_a_removed_instance_is_neither_drained_nor_deleted() {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    // Instance i-1 is terminated, and its address and name belong to a node of a managed group.
    api_server.node(1, "aws:///z/i-99", json!({}), json!([]));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let done = executed(&executor, Action::DrainNode(drain(1))).await;
    assert!(done.outcome == v1::Outcome::NotFound && done.detail.contains("i-99"), "{done:?}");
    let action = drain(1);
    let delete = v1::DeleteNodeClaim {
        node_claim: action.node_claim.clone(),
        node: action.node.clone(),
        provider_id: action.provider_id.clone(),
        reason: String::new(),
    };
    assert_eq!(executed(&executor, Action::DeleteNodeClaim(delete)).await, Done::ok());
    assert!(api_server.object(&NODE_CLAIM.one("", "c1")).is_none());
    let node = api_server.object(&NODE.one("", "n1")).unwrap();
    assert!(node.pointer("/spec/taints").is_none(), "{node}");
    // The claim is deleted, and the instruction is repeated without a provider id, as from an older
    // server.
    let older = v1::DrainNode { provider_id: String::new(), ..action };
    assert_eq!(executed(&executor, Action::DrainNode(older)).await.outcome, v1::Outcome::NotFound);
    assert_eq!((api_server.requests("DELETE /api/v1/nodes"), api_server.tainted(2)), (0, vec![]));
}

/// A server requests the drain of instance i-1, whose name n1 belongs to another instance now, with
/// these owners: whether that Node is tainted.
async fn bars_the_namesake(action: v1::DrainNode, owners: Value) -> bool {
    let api_server = FakeApiServer::default();
    api_server.node(1, "aws:///z/i-99", json!({}), owners);
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let _ends_or_not =
        tokio::time::timeout(Duration::from_secs(60), executed(&executor, Action::DrainNode(action))).await;
    api_server.tainted(2) == [1]
}

#[tokio::test(start_paused = true)]
async fn sabotage_without_its_provider_id_and_with_its_owner_a_machine_is_drained_in_place_of_another() {
    let unnamed = || v1::DrainNode { provider_id: String::new(), ..drain(1) };
    let owned = || json!([{ "kind": "NodeClaim", "name": "c1", "uid": "uc1" }]);
    assert!(bars_the_namesake(unnamed(), owned()).await);
    assert!(!bars_the_namesake(unnamed(), json!([])).await);
    assert!(!bars_the_namesake(drain(1), owned()).await, "either of them is enough");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_the_name_between_the_look_at_it_and_its_deletion_stays() {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let path = NODE.one("", "n1");
    let mut another = api_server.object(&path).unwrap();
    let other =
        json!({ "metadata": { "uid": "un99", "ownerReferences": [] }, "spec": { "providerID": "aws:///z/i-99" } });
    merge(&mut another, other);
    *api_server.successor.lock().unwrap() = Some((path.clone(), another));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let action = v1::DeleteNodeClaim { node_claim: "c1".into(), node: "n1".into(), ..v1::DeleteNodeClaim::default() };
    let _done_or_not = executed(&executor, Action::DeleteNodeClaim(action)).await;
    assert_eq!(api_server.object(&path).map(|node| node["metadata"]["uid"].clone()), Some(json!("un99")));
}

/// The Node n1 in the cache.
fn node_object(provider_id: &str) -> ParsedObject {
    let record = v1::NodeRecord { name: "n1".into(), provider_id: provider_id.to_owned(), ..v1::NodeRecord::default() };
    let seen = Record::plain(v1::change::Change::Node(Box::new(record)));
    ParsedObject { namespace: String::new(), uid: provider_id.to_owned(), name: "n1".into(), record: seen }
}

/// A pod on the Node n1 that can be evicted.
fn plain_pod() -> ParsedObject {
    let record = v1::PodRecord {
        namespace: "n".into(),
        name: "fresh".into(),
        uid: "fresh".into(),
        node_name: "n1".into(),
        ..v1::PodRecord::default()
    };
    let seen =
        Record::Pod { record: Box::new(record), shape: Arc::default(), labels: Arc::default(), volume_claims: None };
    ParsedObject { uid: "fresh".into(), namespace: "n".into(), name: "fresh".into(), record: seen }
}

/// While the drain of instance i-1 waits for a protected pod, the name n1 passes to instance
/// `later` with a pod of its own: the number of evictions, and whether the drain has ended.
async fn evictions_after_the_name_went_to(later: &str, uid: &str) -> (usize, bool) {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let executor = Arc::new(executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600))));
    executor.cache.replace_objects(v1::ObjectKind::Node, vec![node_object("aws:///z/i-1")], &[]);
    executor.cache.replace_objects(v1::ObjectKind::Pod, vec![protected_pod("n1")], &[]);
    let draining = Arc::clone(&executor);
    let drain = tokio::spawn(async move { executed(&draining, Action::DrainNode(drain(1))).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(api_server.tainted(2) == [1] && !drain.is_finished());
    let mut node = api_server.object(&NODE.one("", "n1")).unwrap();
    merge(&mut node, json!({ "metadata": { "uid": uid }, "spec": { "providerID": later } }));
    api_server.put(NODE.one("", "n1"), node);
    executor.cache.replace_objects(v1::ObjectKind::Node, vec![node_object(later)], &[]);
    executor.cache.replace_objects(v1::ObjectKind::Pod, vec![plain_pod()], &[]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let evictions = api_server.requests("POST /api/v1/namespaces/n/pods/fresh/eviction");
    let named = api_server.requests("POST /api/v1/namespaces/n/pods/fresh/eviction of fresh");
    assert_eq!(named, evictions, "each says which pod of that name");
    (evictions, drain.is_finished())
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_another_machine_has_its_nodes_name_and_evicts_no_pod_of_it() {
    assert_eq!(evictions_after_the_name_went_to("aws:///z/i-99", "un99").await, (0, true));
    // The same instance with another pod: that pod is evicted.
    let (evictions, _) = evictions_after_the_name_went_to("aws:///z/i-1", "un1").await;
    assert!(evictions > 0);
}
