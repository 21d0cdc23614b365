//! Disruption settings of a NodePool: when nodes may be removed, how many at once, and their
//! maximum age.

use super::cron::Cron;
use crate::{Millis, TimeZone, Timestamp};

/// Which nodes consolidation may remove (`spec.disruption.consolidationPolicy`). Empty nodes are
/// removed under each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods other than DaemonSet pods.
    WhenEmpty,
    /// Empty nodes, and nodes whose pods fit elsewhere at a lower price.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same, where the saving outweighs the disruption.
    Balanced,
}

/// Why this server removes a node voluntarily; budgets may name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisruptionReason {
    /// It has only DaemonSet pods.
    Empty,
    /// It does not match its NodePool any more.
    Drifted,
    /// Its pods fit elsewhere at a lower price.
    Underutilized,
}

impl DisruptionReason {
    /// The spelling in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

/// How many nodes a budget allows to be removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetLimit {
    /// This number of nodes.
    Nodes(u32),
    /// This percentage of the pool's nodes, rounded up; 0 allows none.
    Percent(u32),
    /// The value in the manifest is invalid: no node is removed, for any reason (Karpenter:
    /// disruption budgets).
    Unreadable,
}

/// One entry of `spec.disruption.budgets`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Maximum number of nodes removed at once.
    pub limit: BudgetLimit,
    /// Reasons that it applies to; `None` for all.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When it applies; `None` for always.
    pub window: Option<BudgetWindow>,
}

/// Time windows of a budget: from each time of the schedule, for a duration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BudgetWindow {
    /// When a window begins, by the clocks of `zone`.
    pub schedule: Cron,
    /// Time zone of the schedule.
    pub zone: TimeZone,
    /// Duration of a window. It is elapsed time: a window during which clocks change ends at another time of theirs.
    pub duration: Millis,
}

impl BudgetWindow {
    /// Whether `now` is within a window (Karpenter: budgets). The end of a window is excluded.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        let since = now - self.duration;
        self.schedule.next_after(since, &self.zone).is_some_and(|hit| hit <= now)
    }
}

impl Budget {
    /// A budget that could not be read: no node is removed voluntarily, for any reason.
    pub const UNREADABLE: Self = Self { limit: BudgetLimit::Unreadable, reasons: None, window: None };

    /// Maximum number of nodes out of `total` that may be unavailable at `now`; `None` when this
    /// budget does not apply to `reason`, or not at that time.
    #[must_use]
    pub fn allowed(&self, reason: DisruptionReason, total: usize, now: Timestamp) -> Option<usize> {
        match self.limit {
            BudgetLimit::Unreadable => Some(0),
            _ if self.window.as_ref().is_some_and(|window| !window.contains(now)) => None,
            _ if self.reasons.as_ref().is_some_and(|listed| !listed.contains(&reason)) => None,
            BudgetLimit::Nodes(nodes) => Some(nodes as usize),
            BudgetLimit::Percent(percent) => Some((total * percent as usize).div_ceil(100)),
        }
    }
}

/// The disruption settings of a NodePool, beside the [`NodePool`](crate::NodePool) that scheduling looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionPolicy {
    /// Minimum time without pod events before a node is consolidated; `None` is `Never`.
    pub consolidate_after: Option<Millis>,
    /// Which nodes consolidation may remove.
    pub policy: ConsolidationPolicy,
    /// Limits on simultaneously removed nodes. Without an entry there is no limit.
    pub budgets: Vec<Budget>,
    /// Maximum age of a node; `None` is `Never`.
    pub expire_after: Option<Millis>,
    /// Maximum duration of a drain before pods are deleted regardless of budgets; `None` has no
    /// limit.
    pub termination_grace_period: Option<Millis>,
}

impl Default for DisruptionPolicy {
    /// The defaults of Karpenter's API: consolidate at once, one budget of 10 %, expiry after 30 days.
    fn default() -> Self {
        Self {
            consolidate_after: Some(Millis::ZERO),
            policy: ConsolidationPolicy::default(),
            budgets: vec![Budget { limit: BudgetLimit::Percent(10), reasons: None, window: None }],
            expire_after: Some(Millis::from_hours(720)),
            termination_grace_period: None,
        }
    }
}

impl DisruptionPolicy {
    /// How many further nodes out of `total` may be removed for `reason` at `now`, when `gone` of
    /// them are terminating or not ready.
    #[must_use]
    pub fn allowance(&self, reason: DisruptionReason, total: usize, gone: usize, now: Timestamp) -> usize {
        let bounds = self.budgets.iter().filter_map(|budget| budget.allowed(reason, total, now));
        bounds.min().map_or(usize::MAX, |allowed| allowed.saturating_sub(gone))
    }

    /// How many further nodes out of `total` may begin termination at `now` after their deletion by
    /// a user, when `gone` of them are terminating or not ready. Budgets that name reasons do not
    /// apply; without any other budget it is a tenth.
    #[must_use]
    pub fn allowance_by_hand(&self, total: usize, gone: usize, now: Timestamp) -> usize {
        let all = self.budgets.iter().filter(|budget| budget.reasons.is_none());
        let bounds = all.filter_map(|budget| budget.allowed(DisruptionReason::Drifted, total, now));
        bounds.min().unwrap_or(total.div_ceil(10)).saturating_sub(gone)
    }

    /// When a node with its last pod event at `since` becomes consolidatable; `None` is never.
    #[must_use]
    pub fn consolidatable_from(&self, since: Timestamp) -> Option<Timestamp> {
        self.consolidate_after.map(|wait| since + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: BudgetLimit) -> Budget {
        Budget { limit, reasons: None, window: None }
    }

    fn policy_of(budgets: Vec<Budget>) -> DisruptionPolicy {
        DisruptionPolicy { budgets, ..DisruptionPolicy::default() }
    }

    #[test]
    fn a_share_of_nodes_rounds_up() {
        // 10 % of 11 nodes is 1.1, rounded up 2; one of them is gone already.
        assert_eq!(
            policy_of(vec![budget(BudgetLimit::Percent(10))]).allowance(
                DisruptionReason::Empty,
                11,
                1,
                Timestamp::from_millis(0)
            ),
            1
        );
        assert_eq!(
            policy_of(vec![budget(BudgetLimit::Percent(0))]).allowance(
                DisruptionReason::Empty,
                11,
                0,
                Timestamp::from_millis(0)
            ),
            0
        );
    }

    #[test]
    fn the_tightest_budget_for_the_reason_applies() {
        let drift = Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget(BudgetLimit::Nodes(0)) };
        let both = policy_of(vec![budget(BudgetLimit::Nodes(3)), drift]);
        assert_eq!(both.allowance(DisruptionReason::Empty, 100, 0, Timestamp::from_millis(0)), 3);
        assert_eq!(both.allowance(DisruptionReason::Drifted, 100, 0, Timestamp::from_millis(0)), 0);
    }

    #[test]
    fn without_a_budget_there_is_no_limit_and_an_unreadable_one_allows_none() {
        assert_eq!(policy_of(vec![]).allowance(DisruptionReason::Empty, 5, 5, Timestamp::from_millis(0)), usize::MAX);
        let odd = Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget(BudgetLimit::Unreadable) };
        assert_eq!(policy_of(vec![odd]).allowance(DisruptionReason::Empty, 5, 0, Timestamp::from_millis(0)), 0);
    }

    #[test]
    fn a_scheduled_budget_applies_only_within_its_window() {
        // 5 January 2026 is a Monday; 09:00 UTC is 1,767,603,600 s after the epoch. From Monday to Friday, 9:00 to 17:00.
        let monday_nine = 1_767_603_600_000;
        let schedule = Cron::parse("0 9 * * mon-fri").unwrap();
        let window = Some(BudgetWindow { schedule, zone: TimeZone::UTC, duration: Millis::from_hours(8) });
        let policy_of =
            policy_of(vec![Budget { window, ..budget(BudgetLimit::Nodes(0)) }, budget(BudgetLimit::Nodes(2))]);
        let at = |millis: i64| {
            policy_of.allowance(DisruptionReason::Empty, 10, 0, Timestamp::from_millis(monday_nine + millis))
        };
        assert_eq!([at(-1), at(0), at(8 * 3_600_000 - 1), at(8 * 3_600_000)], [2, 0, 0, 2]);
        // Saturday, five days later.
        assert_eq!(at(5 * 86_400_000), 2);
    }
}
