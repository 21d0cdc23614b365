//! Settings of voluntary disruption.

use model::BudgetLimit;

/// What an operator sets for voluntary disruption in all clusters.
#[derive(Debug, Clone, Default)]
pub struct DisruptionSettings {
    /// How many initialized nodes of one cluster, over all its managed NodePools, may be unavailable when one is
    /// removed voluntarily; `None` has no limit beside the budgets of the NodePools.
    pub max_unavailable_nodes: Option<BudgetLimit>,
}
