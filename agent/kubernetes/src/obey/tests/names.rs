//! Names of Nodes that go from one machine to another.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_has_got_the_name_of_a_machine_that_is_gone_is_neither_drained_nor_deleted() {
    let stand = Stand::default();
    stand.machine(1, json!({}));
    // The machine i-1 is gone, and its address with its name went to a node of a managed group.
    stand.node(1, "aws:///z/i-99", json!({}), json!([]));
    let cluster = Kubernetes::unwatched(stand.api(), Guard::new(100, Duration::from_secs(600)));
    let done = obeyed(&cluster, Action::DrainNode(drain(1))).await;
    assert!(done.outcome == v1::Outcome::NotFound && done.detail.contains("i-99"), "{done:?}");
    let order = drain(1);
    let delete = v1::DeleteNodeClaim {
        node_claim: order.node_claim.clone(),
        node: order.node.clone(),
        provider_id: order.provider_id.clone(),
        reason: String::new(),
    };
    assert_eq!(obeyed(&cluster, Action::DeleteNodeClaim(delete)).await, Done::well());
    assert!(stand.of(&NODE_CLAIM.one("", "c1")).is_none());
    let node = stand.of(&NODE.one("", "n1")).unwrap();
    assert!(node.pointer("/spec/taints").is_none(), "{node}");
    // The claim is gone, and the order comes once more, as from an older server that does not say which machine it means.
    let older = v1::DrainNode { provider_id: String::new(), ..order };
    assert_eq!(obeyed(&cluster, Action::DrainNode(older)).await.outcome, v1::Outcome::NotFound);
    assert_eq!((stand.requests("DELETE /api/v1/nodes"), stand.barred(2)), (0, vec![]));
}

/// A server orders the drain of the machine i-1, whose name n1 belongs to another machine now: whether that is barred.
async fn bars_the_namesake(order: v1::DrainNode, guard: Guard) -> bool {
    let stand = Stand::default();
    stand.node(1, "aws:///z/i-99", json!({}), json!([]));
    let cluster = Kubernetes::unwatched(stand.api(), guard);
    let _ends_or_not = tokio::time::timeout(Duration::from_secs(60), obeyed(&cluster, Action::DrainNode(order))).await;
    stand.barred(2) == [1]
}

#[tokio::test(start_paused = true)]
async fn sabotage_without_its_provider_id_and_without_the_guard_a_machine_is_drained_in_place_of_another() {
    let unnamed = || v1::DrainNode { provider_id: String::new(), ..drain(1) };
    assert!(bars_the_namesake(unnamed(), Guard::off()).await);
    assert!(!bars_the_namesake(unnamed(), Guard::new(100, Duration::from_secs(600))).await);
    assert!(!bars_the_namesake(drain(1), Guard::off()).await, "either of them is enough");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_the_name_between_the_look_at_it_and_its_deletion_stays() {
    let stand = Stand::default();
    stand.machine(1, json!({}));
    let path = NODE.one("", "n1");
    let mut another = stand.of(&path).unwrap();
    let other =
        json!({ "metadata": { "uid": "un99", "ownerReferences": [] }, "spec": { "providerID": "aws:///z/i-99" } });
    merge(&mut another, other);
    *stand.successor.lock().unwrap() = Some((path.clone(), another));
    let cluster = Kubernetes::unwatched(stand.api(), Guard::new(100, Duration::from_secs(600)));
    let order = v1::DeleteNodeClaim { node_claim: "c1".into(), node: "n1".into(), ..v1::DeleteNodeClaim::default() };
    let _done_or_not = obeyed(&cluster, Action::DeleteNodeClaim(order)).await;
    assert_eq!(stand.of(&path).map(|node| node["metadata"]["uid"].clone()), Some(json!("un99")));
}

/// The Node n1 as the picture has it.
fn seen_node(provider_id: &str) -> Row {
    let record = v1::NodeRecord { name: "n1".into(), provider_id: provider_id.to_owned(), ..v1::NodeRecord::default() };
    let seen = Seen::plain(v1::change::Change::Node(record));
    Row { namespace: String::new(), uid: provider_id.to_owned(), name: "n1".into(), seen }
}

/// A pod on the Node n1 that nothing keeps from being evicted.
fn plain_pod() -> Row {
    let record = v1::PodRecord {
        namespace: "n".into(),
        name: "fresh".into(),
        uid: "fresh".into(),
        node_name: "n1".into(),
        ..v1::PodRecord::default()
    };
    let seen =
        Seen::Pod { record: Box::new(record), shape: Arc::default(), labels: Arc::default(), volume_claims: None };
    Row { uid: "fresh".into(), namespace: "n".into(), name: "fresh".into(), seen }
}

/// While the drain of the machine i-1 waits for a protected pod, the Node n1 is that of the machine `later` from one look to the
/// next, with a pod of its own: how many evictions are asked for, and whether the drain has ended.
async fn evictions_after_the_name_went_to(later: &str, uid: &str) -> (usize, bool) {
    let stand = Stand::default();
    stand.machine(1, json!({}));
    let cluster = Arc::new(Kubernetes::unwatched(stand.api(), Guard::new(100, Duration::from_secs(600))));
    cluster.picture().replace(v1::ObjectKind::Node, vec![seen_node("aws:///z/i-1")], &[]);
    cluster.picture().replace(v1::ObjectKind::Pod, vec![protected_pod("n1")], &[]);
    let draining = Arc::clone(&cluster);
    let drain = tokio::spawn(async move { obeyed(&draining, Action::DrainNode(drain(1))).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(stand.barred(2) == [1] && !drain.is_finished());
    let mut node = stand.of(&NODE.one("", "n1")).unwrap();
    merge(&mut node, json!({ "metadata": { "uid": uid }, "spec": { "providerID": later } }));
    stand.put(NODE.one("", "n1"), node);
    cluster.picture().replace(v1::ObjectKind::Node, vec![seen_node(later)], &[]);
    cluster.picture().replace(v1::ObjectKind::Pod, vec![plain_pod()], &[]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let evictions = stand.requests("POST /api/v1/namespaces/n/pods/fresh/eviction");
    let named = stand.requests("POST /api/v1/namespaces/n/pods/fresh/eviction of fresh");
    assert_eq!(named, evictions, "each says which pod of that name");
    (evictions, drain.is_finished())
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_another_machine_has_its_nodes_name_and_evicts_no_pod_of_it() {
    assert_eq!(evictions_after_the_name_went_to("aws:///z/i-99", "un99").await, (0, true));
    // The same machine with another pod: that one goes.
    let (evictions, _) = evictions_after_the_name_went_to("aws:///z/i-1", "un1").await;
    assert!(evictions > 0);
}
