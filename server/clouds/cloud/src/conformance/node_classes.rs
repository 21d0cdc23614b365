//! Resolution of EC2NodeClasses.

use std::sync::Arc;

use model::Text;
use model::node_class::{NodeClassQuery, NodeClassSpec, NodeClassStatus, RESOLVED_CONDITIONS};

use super::{CLUSTER_UID, FaultyFixture, Fixture, cluster};

/// What is not in the account is a condition of the result.
pub async fn every_condition_of_a_node_class_is_resolved<F: Fixture>(fixture: &F) {
    resolve(fixture).await;
}

/// What cannot be looked up is a condition of the result as well.
pub async fn a_node_class_is_resolved_without_an_answer_of_the_cloud<F: FaultyFixture>(fixture: &F) {
    fixture.cut_off();
    resolve(fixture).await;
}

async fn resolve<F: Fixture>(fixture: &F) {
    let query = NodeClassQuery {
        cluster: cluster(),
        cluster_uid: Text::from(CLUSTER_UID),
        name: Text::from("default"),
        uid: Text::from("uid-of-default"),
        spec: Arc::new(NodeClassSpec::default()),
        status: Arc::new(NodeClassStatus::default()),
        facts: Arc::default(),
    };
    let resolved = fixture.provider().resolve_node_class(&query).await;
    for kind in RESOLVED_CONDITIONS {
        assert!(resolved.conditions.contains_key(kind), "{kind} in {:?}", resolved.conditions);
    }
}
