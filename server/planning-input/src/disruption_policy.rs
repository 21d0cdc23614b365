//! The disruption settings of a NodePool.

use manifests::karpenter::{self, Disruption, NodePoolManifest, Quota};
use model::disruption_policy::{Budget, BudgetLimit, ConsolidationPolicy};
use model::{DisruptionPolicy, DisruptionReason};

/// The disruption policy of the NodePool.
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
