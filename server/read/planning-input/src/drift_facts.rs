//! What the drift of the NodeClaims of a NodePool is found by.

use cluster::PoolDriftFacts;
use drift::{HASH_VERSION, NODE_CLASS_HASH_VERSION, NodePoolTemplate, VersionedHash, node_class_hash};
use manifests::karpenter::{NodeClassManifest, NodePoolManifest};
use model::Text;

/// This server's hash of the template of `pool`, and its version: NodeClaims of another hash have drifted.
#[must_use]
pub fn template_hash(pool: &NodePoolManifest) -> VersionedHash {
    let template = NodePoolTemplate {
        labels: pool.labels.clone(),
        annotations: pool.template_annotations.clone(),
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        node_class: [pool.class.group.clone(), pool.class.kind.clone(), pool.class.name.clone()],
        termination_grace_period: pool.disruption.termination_grace_period,
        expire_after: pool.disruption.expire_after,
    };
    (template.hash(), Text::from(HASH_VERSION))
}

/// What the drift of the NodeClaims of `pool` is found by, with the EC2NodeClass that it names.
#[must_use]
pub fn drift_facts(pool: &NodePoolManifest, class: Option<&NodeClassManifest>) -> PoolDriftFacts {
    PoolDriftFacts {
        karpenter_hash: pool.hash.clone(),
        own_hash: Some(template_hash(pool)),
        class_hash: class.and_then(|class| class.hash.clone()),
        own_class_hash: class.map(|class| (node_class_hash(&class.spec), Text::from(NODE_CLASS_HASH_VERSION))),
    }
}
