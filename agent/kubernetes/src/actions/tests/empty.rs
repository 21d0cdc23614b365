//! Drains of Nodes that are removed as empty.

use super::*;

/// A pod on n1 that the API server lists and no watch has delivered.
fn pod(name: &str, owner: &str) -> (String, Value) {
    let object = json!({
        "metadata": { "name": name, "namespace": "n", "uid": name,
            "ownerReferences": [{ "kind": owner, "name": "web", "uid": "u", "controller": true }] },
        "spec": { "nodeName": "n1", "containers": [] },
        "status": { "phase": "Running" },
    });
    (POD.one("n", name), object)
}

/// The drain of n1 with this pod on it, tainted before if `begun`: the result within a minute,
/// whether n1 is tainted, and the number of evictions.
async fn drained((path, pod): (String, Value), only_if_empty: bool, begun: bool) -> (Option<Done>, bool, usize) {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let eviction = format!("POST {path}/eviction");
    api_server.put(path, pod);
    if begun {
        let mut node = api_server.object(&NODE.one("", "n1")).unwrap();
        let note = json!({ "claim": "c1", "rank": "3/8", "reason": "why" }).to_string();
        merge(&mut node, json!({ "metadata": { "annotations": { drain::DRAIN_ANNOTATION: note } } }));
        api_server.put(NODE.one("", "n1"), node);
    }
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let action = v1::DrainNode { only_if_empty, ..drain(1) };
    let done = tokio::time::timeout(Duration::from_secs(60), executed(&executor, Action::DrainNode(action))).await;
    (done.ok(), api_server.tainted(2) == [1], api_server.requests(&eviction))
}

#[tokio::test(start_paused = true)]
async fn a_node_on_which_the_api_server_lists_pods_is_not_drained_as_empty() {
    let (done, tainted, evicted) = drained(pod("web-1", "ReplicaSet"), true, false).await;
    let done = done.unwrap();
    assert!(done.outcome == v1::Outcome::PreconditionFailed && done.detail.contains("n/web-1"), "{done:?}");
    assert_eq!((tainted, evicted), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn sabotage_without_the_condition_such_a_node_is_barred() {
    let (done, tainted, _) = drained(pod("web-1", "ReplicaSet"), false, false).await;
    assert_eq!((done, tainted), (None, true));
}

#[tokio::test(start_paused = true)]
async fn daemon_set_pods_do_not_count_and_a_drain_in_progress_continues() {
    let (done, tainted, _) = drained(pod("proxy-1", "DaemonSet"), true, false).await;
    assert!(tainted && done.is_none_or(|done| done == Done::ok()));
    let (done, tainted, _) = drained(pod("web-1", "ReplicaSet"), true, true).await;
    assert_eq!((done, tainted), (None, true));
}
