//! No NodeClaim is created beside an active Karpenter, which would launch a second instance for it.

use super::*;
use crate::autoscaler;
use crate::object_cache::ObjectCache;
use crate::resource::{DEPLOYMENT, LEASE};

/// An API server that has Karpenter's Deployment, above 0 replicas.
fn beside_karpenter() -> FakeApiServer {
    let api_server = FakeApiServer::default();
    let deployment = json!({ "metadata": { "namespace": "k", "name": "karpenter" }, "spec": { "replicas": 2 } });
    api_server.put(DEPLOYMENT.all(), json!({ "items": [deployment] }));
    api_server.put(LEASE.all(), json!({ "items": [] }));
    api_server
}

/// Creates a NodeClaim after three detections of Karpenter: the outcome, and whether it was
/// created.
async fn created(api_server: &FakeApiServer, karpenter_absent: bool) -> (Done, bool) {
    let executor = executor(api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let looking = autoscaler::watch_autoscalers(api_server.api(), Arc::clone(&executor.cache), karpenter_absent);
    let _looks_for_ever = tokio::time::timeout(Duration::from_secs(14), looking).await;
    let looks = format!("GET {}", DEPLOYMENT.all());
    assert_eq!(api_server.requests(&looks), 3, "at 0, 5 and 10 s");
    let record = v1::NodeClaimRecord { name: "c1".into(), ..v1::NodeClaimRecord::default() };
    let action = v1::CreateNodeClaim { node_claim: Some(record) };
    let done = executed(&executor, Action::CreateNodeClaim(action)).await;
    let creations = format!("POST {}", NODE_CLAIM.all());
    (done, api_server.requests(&creations) > 0)
}

#[tokio::test(start_paused = true)]
async fn beside_a_live_karpenter_the_agent_creates_no_node_claim_for_any_instruction() {
    let (done, created) = created(&beside_karpenter(), false).await;
    assert!(!created && done.outcome == v1::Outcome::Failed, "{done:?}");
    assert!(done.detail.contains("Deployment k/karpenter has 2 replicas"), "{done:?}");
}

/// `agent.karpenter-absent`, set by the operator, disables the guard.
#[tokio::test(start_paused = true)]
async fn sabotage_with_karpenter_absent_set_a_node_claim_is_created_beside_an_active_karpenter() {
    assert_eq!(created(&beside_karpenter(), true).await, (Done::ok(), true));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_does_not_end_what_is_known_of_karpenter() {
    let api_server = beside_karpenter();
    let cache = Arc::new(ObjectCache::new([]));
    let look = || async {
        let looking = autoscaler::watch_autoscalers(api_server.api(), Arc::clone(&cache), false);
        let _looks_for_ever = tokio::time::timeout(Duration::from_secs(1), looking).await;
        cache.karpenter_evidence().is_some()
    };
    assert!(look().await);
    // The list of Deployments fails with 404, which proves nothing about them.
    api_server.objects.lock().unwrap().remove(&DEPLOYMENT.all());
    assert!(look().await);
    api_server.put(DEPLOYMENT.all(), json!({ "items": [] }));
    assert!(!look().await, "the list is there, and Karpenter is not in it");
}
