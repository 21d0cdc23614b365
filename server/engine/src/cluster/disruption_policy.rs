//! What a NodePool says about the end of its nodes: when they may go, how many at once, how old they may become.

use super::cron::Cron;
use crate::model::Timestamp;

/// Which nodes consolidation may touch (`spec.disruption.consolidationPolicy`). Empty nodes go under either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods of their own.
    WhenEmpty,
    /// Empty nodes, and nodes whose pods would fit elsewhere for less.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same where the saving outweighs the disturbance.
    Balanced,
}

/// Why a node is removed on our own initiative; budgets may name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisruptionReason {
    /// Nothing but DaemonSet pods.
    Empty,
    /// The node no longer is what its NodePool describes.
    Drifted,
    /// Its pods would fit elsewhere for less.
    Underutilized,
}

impl DisruptionReason {
    /// The reason as manifests spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

/// How many nodes a budget lets go at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetLimit {
    /// This many.
    Nodes(u32),
    /// This share of the pool's nodes in percent, rounded up; 0 lets none go.
    Percent(u32),
    /// The text in the manifest could not be read: nothing goes, whatever the reason (Karpenter: disruption budgets).
    Unreadable,
}

/// One entry of `spec.disruption.budgets`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Budget {
    /// How many nodes may go at once.
    pub limit: BudgetLimit,
    /// The reasons that it applies to; `None` means all of them.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When it applies; `None` is always.
    pub window: Option<BudgetWindow>,
}

/// Times at which a budget applies: from each hit of the schedule for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BudgetWindow {
    /// When it begins, in UTC.
    pub schedule: Cron,
    /// How long it lasts, in milliseconds.
    pub duration_ms: i64,
}

impl BudgetWindow {
    /// Whether `now` lies within it (Karpenter: budgets). The end of a window is outside.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        let since = Timestamp(now.0.saturating_sub(self.duration_ms));
        self.schedule.next_after(since).is_some_and(|hit| hit <= now)
    }
}

impl Budget {
    /// The most nodes out of `total` that may be gone at once at `now`; `None` when this budget does not speak of `reason`, or
    /// not at that time.
    #[must_use]
    pub fn allowed(&self, reason: DisruptionReason, total: usize, now: Timestamp) -> Option<usize> {
        match self.limit {
            BudgetLimit::Unreadable => Some(0),
            _ if self.window.is_some_and(|window| !window.contains(now)) => None,
            _ if self.reasons.as_ref().is_some_and(|listed| !listed.contains(&reason)) => None,
            BudgetLimit::Nodes(nodes) => Some(nodes as usize),
            BudgetLimit::Percent(percent) => Some((total * percent as usize).div_ceil(100)),
        }
    }
}

/// The disruption settings of a NodePool, beside the [`NodePool`](crate::model::NodePool) that scheduling looks at.
/// Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionPolicy {
    /// How long a node must have been without pod events before consolidation looks at it; `None` is `Never`.
    pub consolidate_after_ms: Option<i64>,
    /// What consolidation may touch.
    pub policy: ConsolidationPolicy,
    /// Bounds on nodes that are gone at once. No entry means no bound.
    pub budgets: Vec<Budget>,
    /// Age at which a node is replaced; `None` is `Never`.
    pub expire_after_ms: Option<i64>,
    /// How long a drain may take before pods are deleted regardless; `None` waits for ever.
    pub termination_grace_period_ms: Option<i64>,
}

impl Default for DisruptionPolicy {
    /// The defaults of Karpenter's API: consolidate at once, one budget of 10 %, expiry after 30 days.
    fn default() -> Self {
        Self {
            consolidate_after_ms: Some(0),
            policy: ConsolidationPolicy::default(),
            budgets: vec![Budget { limit: BudgetLimit::Percent(10), reasons: None, window: None }],
            expire_after_ms: Some(720 * 3_600_000),
            termination_grace_period_ms: None,
        }
    }
}

impl DisruptionPolicy {
    /// How many more of `total` nodes may go for `reason` at `now` when `gone` of them are going or not ready already.
    #[must_use]
    pub fn allowance(&self, reason: DisruptionReason, total: usize, gone: usize, now: Timestamp) -> usize {
        let bounds = self.budgets.iter().filter_map(|budget| budget.allowed(reason, total, now));
        bounds.min().map_or(usize::MAX, |allowed| allowed.saturating_sub(gone))
    }

    /// How many more of `total` nodes may begin to leave at `now` after they were deleted by hand, when `gone` of them are going or
    /// not ready already. Budgets that name reasons say nothing about it; where no other one applies, it is a tenth.
    #[must_use]
    pub fn allowance_by_hand(&self, total: usize, gone: usize, now: Timestamp) -> usize {
        let all = self.budgets.iter().filter(|budget| budget.reasons.is_none());
        let bounds = all.filter_map(|budget| budget.allowed(DisruptionReason::Drifted, total, now));
        bounds.min().unwrap_or(total.div_ceil(10)).saturating_sub(gone)
    }

    /// The moment from which a node that had its last pod event at `since` may be consolidated; `None` is never.
    #[must_use]
    pub fn consolidatable_from(&self, since: Timestamp) -> Option<Timestamp> {
        self.consolidate_after_ms.map(|wait| Timestamp(since.0.saturating_add(wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: BudgetLimit) -> Budget {
        Budget { limit, reasons: None, window: None }
    }

    fn life(budgets: Vec<Budget>) -> DisruptionPolicy {
        DisruptionPolicy { budgets, ..DisruptionPolicy::default() }
    }

    #[test]
    fn a_share_of_nodes_rounds_up() {
        // 10 % of 11 nodes is 1.1, rounded up 2; one of them is gone already.
        assert_eq!(
            life(vec![budget(BudgetLimit::Percent(10))]).allowance(DisruptionReason::Empty, 11, 1, Timestamp(0)),
            1
        );
        assert_eq!(
            life(vec![budget(BudgetLimit::Percent(0))]).allowance(DisruptionReason::Empty, 11, 0, Timestamp(0)),
            0
        );
    }

    #[test]
    fn the_tightest_budget_that_speaks_of_the_reason_holds() {
        let drift = Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget(BudgetLimit::Nodes(0)) };
        let both = life(vec![budget(BudgetLimit::Nodes(3)), drift]);
        assert_eq!(both.allowance(DisruptionReason::Empty, 100, 0, Timestamp(0)), 3);
        assert_eq!(both.allowance(DisruptionReason::Drifted, 100, 0, Timestamp(0)), 0);
    }

    #[test]
    fn no_budget_means_no_bound_and_an_unreadable_one_lets_nothing_go() {
        assert_eq!(life(vec![]).allowance(DisruptionReason::Empty, 5, 5, Timestamp(0)), usize::MAX);
        let odd = Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget(BudgetLimit::Unreadable) };
        assert_eq!(life(vec![odd]).allowance(DisruptionReason::Empty, 5, 0, Timestamp(0)), 0);
    }

    #[test]
    fn a_scheduled_budget_holds_in_its_hours_and_not_outside() {
        // 5 January 2026 is a Monday; 09:00 UTC is 1,767,603,600 s after the epoch. From Monday to Friday, 9:00 to 17:00.
        let monday_nine = 1_767_603_600_000;
        let schedule = Cron::parse("0 9 * * mon-fri").unwrap();
        let window = Some(BudgetWindow { schedule, duration_ms: 8 * 3_600_000 });
        let life = life(vec![Budget { window, ..budget(BudgetLimit::Nodes(0)) }, budget(BudgetLimit::Nodes(2))]);
        let at = |millis: i64| life.allowance(DisruptionReason::Empty, 10, 0, Timestamp(monday_nine + millis));
        assert_eq!([at(-1), at(0), at(8 * 3_600_000 - 1), at(8 * 3_600_000)], [2, 0, 0, 2]);
        // Saturday, five days later.
        assert_eq!(at(5 * 86_400_000), 2);
    }
}
