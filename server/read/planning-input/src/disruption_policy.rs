//! The disruption settings of a NodePool, and what the drift of its NodeClaims is found by.

use cluster::PoolDriftFacts;
use drift::{HASH_VERSION, NODE_CLASS_HASH_VERSION, NodePoolTemplate, VersionedHash, node_class_hash};
use manifests::karpenter::{self, Disruption, NodeClassManifest, NodePoolManifest, Quota};
use model::disruption_policy::{Budget, BudgetLimit, ConsolidationPolicy};
use model::{DisruptionPolicy, DisruptionReason, Text};

/// This server's hash of the template of `pool`, and its version: NodeClaims of another hash have drifted.
#[must_use]
pub fn template_hash(pool: &NodePoolManifest) -> VersionedHash {
    let template = NodePoolTemplate {
        labels: pool.labels.clone(),
        annotations: pool.template_annotations.clone(),
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        node_class: [pool.class.group.clone(), pool.class.kind.clone(), pool.class.name.clone()],
        termination_grace_period: pool.termination_grace_period,
        expire_after: pool.expire_after.finite(),
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

#[must_use]
pub fn disruption_policy(pool: &NodePoolManifest) -> DisruptionPolicy {
    DisruptionPolicy {
        consolidate_after: pool.disruption.consolidate_after.finite(),
        policy: policy(&pool.disruption),
        budgets: pool.disruption.budgets.iter().map(budget).collect(),
        windows: pool.disruption.windows.clone(),
        expire_after: pool.expire_after.finite(),
        expire_jitter: pool.disruption.expire_jitter,
        expire_replace_first: pool.disruption.expire_replace_first,
        termination_grace_period: pool.termination_grace_period,
    }
}

fn policy(disruption: &Disruption) -> ConsolidationPolicy {
    match disruption.policy {
        karpenter::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
        karpenter::ConsolidationPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        karpenter::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
    }
}

fn budget(budget: &karpenter::Budget) -> Budget {
    let bounded = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    let reason = |reason: &karpenter::DisruptionReason| match reason {
        karpenter::DisruptionReason::Underutilized => DisruptionReason::Underutilized,
        karpenter::DisruptionReason::Empty => DisruptionReason::Empty,
        karpenter::DisruptionReason::Drifted => DisruptionReason::Drifted,
        karpenter::DisruptionReason::Unhealthy => DisruptionReason::Unhealthy,
    };
    Budget {
        limit: match budget.nodes {
            Quota::Nodes(nodes) => BudgetLimit::Nodes(bounded(nodes)),
            Quota::Percent(percent) => BudgetLimit::Percent(bounded(percent)),
        },
        reasons: budget.reasons.as_ref().map(|reasons| reasons.iter().map(reason).collect()),
        window: budget.window.clone(),
    }
}
