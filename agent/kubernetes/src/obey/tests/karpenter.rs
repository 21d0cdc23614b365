//! No NodeClaim is made beside a live Karpenter, which would launch a second machine for it.

use super::*;
use crate::autoscaler;
use crate::picture::Picture;
use crate::resource::{DEPLOYMENT, LEASE};

/// An API server that has Karpenter's Deployment, above 0 replicas.
fn beside_karpenter() -> Stand {
    let stand = Stand::default();
    let deployment = json!({ "metadata": { "namespace": "k", "name": "karpenter" }, "spec": { "replicas": 2 } });
    stand.put(DEPLOYMENT.all(), json!({ "items": [deployment] }));
    stand.put(LEASE.all(), json!({ "items": [] }));
    stand
}

/// Creates a NodeClaim in that cluster, after Karpenter was looked for three times: the outcome, and whether it was created.
async fn created(stand: &Stand, karpenter_absent: bool) -> (Done, bool) {
    let cluster = Kubernetes::unwatched(stand.api(), Guard::new(100, Duration::from_secs(600)));
    let looking = autoscaler::look_out(stand.api(), cluster.shared_picture(), karpenter_absent);
    let _looks_for_ever = tokio::time::timeout(Duration::from_secs(14), looking).await;
    let looks = format!("GET {}", DEPLOYMENT.all());
    assert_eq!(stand.requests(&looks), 3, "at 0, 5 and 10 s");
    let record = v1::NodeClaimRecord { name: "c1".into(), ..v1::NodeClaimRecord::default() };
    let order = v1::CreateNodeClaim { node_claim: Some(record) };
    let done = obeyed(&cluster, Action::CreateNodeClaim(order)).await;
    let creations = format!("POST {}", NODE_CLAIM.all());
    (done, stand.requests(&creations) > 0)
}

#[tokio::test(start_paused = true)]
async fn beside_a_live_karpenter_the_agent_creates_no_node_claim_whatever_a_server_says() {
    let (done, created) = created(&beside_karpenter(), false).await;
    assert!(!created && done.outcome == v1::Outcome::Failed, "{done:?}");
    assert!(done.detail.contains("Deployment k/karpenter has 2 replicas"), "{done:?}");
}

/// The guard is switched off by `agent.karpenter-absent`, which a person sets who knows better.
#[tokio::test(start_paused = true)]
async fn sabotage_when_it_is_said_to_be_absent_a_node_claim_is_created_beside_a_live_karpenter() {
    assert_eq!(created(&beside_karpenter(), true).await, (Done::well(), true));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_does_not_end_what_is_known_of_karpenter() {
    let stand = beside_karpenter();
    let picture = Arc::new(Picture::of([]));
    let look = || async {
        let looking = autoscaler::look_out(stand.api(), Arc::clone(&picture), false);
        let _looks_for_ever = tokio::time::timeout(Duration::from_secs(1), looking).await;
        picture.karpenter_at_work().is_some()
    };
    assert!(look().await);
    // The list of Deployments is answered with 404 now, which says nothing about any of them.
    stand.objects.lock().unwrap().remove(&DEPLOYMENT.all());
    assert!(look().await);
    stand.put(DEPLOYMENT.all(), json!({ "items": [] }));
    assert!(!look().await, "the list is there, and Karpenter is not in it");
}
