//! Settings of voluntary disruption.

use std::collections::BTreeSet;

use crate::guardrails::Mode;
use model::{BudgetLimit, ClusterName};

/// What follows from the cloud's recommendation to leave a spot instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RebalanceRecommendations {
    /// An Event is recorded (Karpenter).
    #[default]
    Ignore,
    /// The machine is replaced first, and then removed.
    Replace,
}

/// How unhealthy nodes are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepairMode {
    /// At once, whatever budgets, PodDisruptionBudgets and do-not-disrupt say, unless too many nodes of the
    /// NodePool are unhealthy (Karpenter 1.14).
    #[default]
    Forceful,
    /// As a drifted node: within budgets, other capacity first, and only if its pods may move (Karpenter 1.15).
    Voluntary,
}

/// What an operator sets for voluntary disruption in all clusters.
#[derive(Debug, Clone, Default)]
pub struct DisruptionSettings {
    /// How many initialized nodes of one cluster, over all its managed NodePools, may be unavailable when one is
    /// removed voluntarily; `None` has no limit beside the budgets of the NodePools.
    pub max_unavailable_nodes: Option<BudgetLimit>,
    /// Whether voluntary removals are carried out, or recorded alone.
    pub mode: Mode,
    /// Clusters whose voluntary removals are recorded alone, whatever `mode` is.
    pub shadow: BTreeSet<ClusterName>,
    /// How unhealthy nodes are removed.
    pub repair: RepairMode,
    /// What follows from rebalance recommendations.
    pub rebalance: RebalanceRecommendations,
}

impl DisruptionSettings {
    /// What happens to voluntary removals in `cluster`.
    #[must_use]
    pub fn mode_of(&self, cluster: &ClusterName) -> Mode {
        if self.shadow.contains(cluster) { Mode::Shadow } else { self.mode }
    }
}
