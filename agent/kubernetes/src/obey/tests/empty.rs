//! Drains of Nodes that go because they are empty.

use super::*;

/// A pod on n1 as the API server has it, which no watch has shown.
fn pod(name: &str, owner: &str) -> (String, Value) {
    let object = json!({
        "metadata": { "name": name, "namespace": "n", "uid": name,
            "ownerReferences": [{ "kind": owner, "name": "web", "uid": "u", "controller": true }] },
        "spec": { "nodeName": "n1", "containers": [] },
        "status": { "phase": "Running" },
    });
    (POD.one("n", name), object)
}

/// What comes of the order to drain n1, which is barred already where `begun` is, with this pod on it: the answer, if there is one
/// within a minute, whether n1 is barred, and how many evictions there were.
async fn drained((path, pod): (String, Value), only_if_empty: bool, begun: bool) -> (Option<Done>, bool, usize) {
    let stand = Stand::default();
    stand.machine(1, json!({}));
    let eviction = format!("POST {path}/eviction");
    stand.put(path, pod);
    if begun {
        let mut node = stand.of(&NODE.one("", "n1")).unwrap();
        let note = json!({ "claim": "c1", "rank": "3/8", "reason": "why" }).to_string();
        merge(&mut node, json!({ "metadata": { "annotations": { drain::NOTE: note } } }));
        stand.put(NODE.one("", "n1"), node);
    }
    let cluster = Kubernetes::unwatched(stand.api(), Guard::new(100, Duration::from_secs(600)));
    let order = v1::DrainNode { only_if_empty, ..drain(1) };
    let done = tokio::time::timeout(Duration::from_secs(60), obeyed(&cluster, Action::DrainNode(order))).await;
    (done.ok(), stand.barred(2) == [1], stand.requests(&eviction))
}

#[tokio::test(start_paused = true)]
async fn a_node_on_which_the_api_server_lists_pods_is_not_drained_as_empty() {
    let (done, barred, evicted) = drained(pod("web-1", "ReplicaSet"), true, false).await;
    let done = done.unwrap();
    assert!(done.outcome == v1::Outcome::PreconditionFailed && done.detail.contains("n/web-1"), "{done:?}");
    assert_eq!((barred, evicted), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn sabotage_without_the_condition_such_a_node_is_barred() {
    let (done, barred, _) = drained(pod("web-1", "ReplicaSet"), false, false).await;
    assert_eq!((done, barred), (None, true));
}

#[tokio::test(start_paused = true)]
async fn pods_of_daemon_sets_do_not_count_and_a_drain_that_was_begun_goes_on() {
    let (done, barred, _) = drained(pod("proxy-1", "DaemonSet"), true, false).await;
    assert!(barred && done.is_none_or(|done| done == Done::well()));
    let (done, barred, _) = drained(pod("web-1", "ReplicaSet"), true, true).await;
    assert_eq!((done, barred), (None, true));
}
