//! The taint `karpenter.sh/disrupted` of Nodes that nothing removes.

use super::*;

const GPU: &str = "gpu";

/// Node n1 of NodeClaim c1 with the taint of a removal, another one, and this annotation of a drain.
fn tainted(drain: Option<&str>) -> FakeApiServer {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let path = NODE.one("", "n1");
    let mut node = api_server.object(&path).unwrap();
    let annotations = drain.map(|terms| json!({ "fleetwright.dev/drain": terms })).unwrap_or_default();
    let taints = json!([
        { "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }, { "key": GPU, "effect": "NoSchedule" },
    ]);
    merge(&mut node, json!({ "metadata": { "annotations": annotations }, "spec": { "taints": taints } }));
    api_server.put(path, node);
    api_server
}

/// Keys of the taints of n1 after the instruction for the instance `provider_id`, and its outcome.
async fn after_untainting(api_server: &FakeApiServer, provider_id: &str) -> (Vec<String>, v1::Outcome) {
    let executor = executor(api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let action =
        v1::RemoveDisruptedTaint { node_claim: "c1".into(), node: "n1".into(), provider_id: provider_id.to_owned() };
    let done = executed(&executor, Action::RemoveDisruptedTaint(action)).await;
    let node = api_server.object(&NODE.one("", "n1")).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    (taints.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect(), done.outcome)
}

#[tokio::test(start_paused = true)]
async fn the_taint_of_something_else_is_taken_off_and_other_taints_stay() {
    let foreign = r#"{"claim":"c9","rank":"3/1","reason":"of another node"}"#;
    for drain in [None, Some(foreign), Some("true")] {
        let (taints, outcome) = after_untainting(&tainted(drain), "aws:///z/i-1").await;
        assert_eq!((taints, outcome), (vec![GPU.to_owned()], v1::Outcome::Done), "{drain:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_taint_of_a_drain_and_of_another_instance_stays() {
    let both = || vec!["karpenter.sh/disrupted".to_owned(), GPU.to_owned()];
    let drained = tainted(Some(r#"{"claim":"c1","rank":"3/1","reason":"it is empty"}"#));
    assert_eq!(after_untainting(&drained, "aws:///z/i-1").await, (both(), v1::Outcome::PreconditionFailed));
    assert_eq!(after_untainting(&tainted(None), "aws:///z/i-99").await, (both(), v1::Outcome::NotFound));
}
