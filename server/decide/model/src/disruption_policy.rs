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

/// Why this server removes a node voluntarily, as budgets name it (Karpenter 1.15: disruption reasons).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisruptionReason {
    /// Its conditions match a repair policy, and repairs are voluntary.
    Unhealthy,
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
            Self::Unhealthy => "Unhealthy",
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

impl BudgetLimit {
    /// Number of nodes out of `total` that it allows to be unavailable.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Nodes(nodes) => nodes as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
            Self::Unreadable => 0,
        }
    }
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

/// Time windows of a budget or of a NodePool: from each time of the schedule, for a duration.
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
            limit => Some(limit.of(total)),
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
    /// `fleetwright.dev/disruption-windows`: nodes are removed voluntarily only while one of them is
    /// open. Without an entry they may be removed at any time.
    pub windows: Vec<BudgetWindow>,
    /// Maximum age of a node; `None` is `Never`.
    pub expire_after: Option<Millis>,
    /// `fleetwright.dev/expire-jitter`: a node expires earlier by up to this, by the UID of its
    /// NodeClaim.
    pub expire_jitter: Option<Millis>,
    /// `fleetwright.dev/expire-replace-first`: an expired node is drained once the nodes that its pods
    /// move to are ready.
    pub expire_replace_first: bool,
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
            windows: Vec::new(),
            expire_after: Some(Millis::from_hours(720)),
            expire_jitter: None,
            expire_replace_first: false,
            termination_grace_period: None,
        }
    }
}

impl DisruptionPolicy {
    /// How many further nodes out of `total` may be removed for `reason` at `now`, when `gone` of
    /// them are terminating or not ready. Outside its windows it is none.
    #[must_use]
    pub fn allowance(&self, reason: DisruptionReason, total: usize, gone: usize, now: Timestamp) -> usize {
        if !self.is_window_open(now) {
            return 0;
        }
        let bounds = self.budgets.iter().filter_map(|budget| budget.allowed(reason, total, now));
        bounds.min().map_or(usize::MAX, |allowed| allowed.saturating_sub(gone))
    }

    /// How many further nodes out of `total` may begin termination at `now` after their deletion by
    /// a user, when `gone` of them are terminating or not ready. Budgets that name reasons do not
    /// apply, and without any other budget it is a tenth. Windows do not hold it: they are for what
    /// this server chooses, and the user chose the time.
    #[must_use]
    pub fn allowance_by_hand(&self, total: usize, gone: usize, now: Timestamp) -> usize {
        let all = self.budgets.iter().filter(|budget| budget.reasons.is_none());
        let bounds = all.filter_map(|budget| budget.allowed(DisruptionReason::Drifted, total, now));
        bounds.min().unwrap_or(total.div_ceil(10)).saturating_sub(gone)
    }

    /// Whether voluntary removals may begin at `now`, as far as windows are concerned.
    #[must_use]
    pub fn is_window_open(&self, now: Timestamp) -> bool {
        self.windows.is_empty() || self.windows.iter().any(|window| window.contains(now))
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

    const HOUR: i64 = 3_600_000;

    fn window(schedule: &str, zone: TimeZone, hours: i64) -> BudgetWindow {
        BudgetWindow { schedule: Cron::parse(schedule).unwrap(), zone, duration: Millis::from_hours(hours) }
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

    /// The examples of Karpenter's documentation and tests.
    #[test]
    fn budgets_allow_what_karpenter_allows() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        let now = Timestamp::from_millis(0);
        let percent = |percent| budget(BudgetLimit::Percent(percent));
        let allowed = |budgets: Vec<Budget>, reason, total| policy_of(budgets).allowance(reason, total, 0, now);
        // 10 % of 1 node is 0.1, of 11 nodes 1.1, both rounded up.
        assert_eq!([1, 11].map(|total| allowed(vec![percent(10)], Empty, total)), [1, 2]);
        // 20 % of 10 nodes are 2, fewer than 5.
        assert_eq!(allowed(vec![budget(BudgetLimit::Nodes(5)), percent(20)], Empty, 10), 2);
        let of = |reasons: &[DisruptionReason]| {
            vec![Budget { reasons: Some(reasons.to_vec()), ..budget(BudgetLimit::Nodes(0)) }]
        };
        assert_eq!([Empty, Drifted].map(|reason| allowed(of(&[Drifted]), reason, 10)), [usize::MAX, 0]);
        assert_eq!([Empty, Drifted, Underutilized].map(|reason| allowed(of(&[]), reason, 10)), [usize::MAX; 3]);
        assert_eq!(allowed(vec![], Empty, 10), usize::MAX);
        let unreadable = vec![budget(BudgetLimit::Nodes(5)), Budget::UNREADABLE];
        assert_eq!([Empty, Drifted, Underutilized].map(|reason| allowed(unreadable.clone(), reason, 10)), [0; 3]);
        // Of 10 nodes two are not ready, which is all that the budget allows.
        assert_eq!(policy_of(vec![budget(BudgetLimit::Nodes(2))]).allowance(Empty, 10, 2, now), 0);
        assert_eq!(DisruptionPolicy::default().budgets, [percent(10)]);
    }

    #[test]
    fn a_daily_budget_begins_with_its_schedule_and_ends_after_its_duration() {
        let window = window("0 9 * * *", TimeZone::UTC, 8);
        let nine = 9 * HOUR;
        let at = |millis| window.contains(Timestamp::from_millis(millis));
        assert_eq!([nine - 1, nine, nine + 8 * HOUR - 1, nine + 8 * HOUR].map(at), [false, true, true, false]);
    }

    #[test]
    fn a_window_lasts_its_duration_also_when_clocks_change() {
        let berlin = TimeZone::named("Europe/Berlin").unwrap();
        // 29 March 2026 is day 20,541. At 01:00 UTC clocks go from 02:00 to 03:00, so that 02:30 is 01:00 UTC.
        let midnight = 20_541 * 24 * HOUR;
        let spring = window("30 2 * * *", berlin.clone(), 2);
        let at = |window: &BudgetWindow, from: i64| window.contains(Timestamp::from_millis(from));
        let times = [midnight + HOUR - 1, midnight + HOUR, midnight + 3 * HOUR - 1, midnight + 3 * HOUR];
        assert_eq!(times.map(|time| at(&spring, time)), [false, true, true, false]);
        // 25 October is day 20,751. 02:00 is first 00:00 UTC and again 01:00 UTC: half an hour opens once.
        let midnight = 20_751 * 24 * HOUR;
        let autumn = BudgetWindow { duration: Millis::from_mins(30), ..window("0 2 * * *", berlin, 0) };
        let times = [midnight, midnight + HOUR / 2, midnight + HOUR];
        assert_eq!(times.map(|time| at(&autumn, time)), [true, false, false]);
    }

    #[test]
    fn nodes_are_removed_voluntarily_only_while_a_window_is_open() {
        let windows = vec![window("0 2 * * *", TimeZone::UTC, 2), window("0 12 * * *", TimeZone::UTC, 1)];
        let policy = DisruptionPolicy { windows, ..policy_of(vec![budget(BudgetLimit::Nodes(3))]) };
        let hours = [1, 2, 3, 4, 12, 13].map(|hour| Timestamp::from_millis(hour * HOUR));
        let reasons = [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized];
        for reason in reasons {
            assert_eq!(hours.map(|now| policy.allowance(reason, 10, 0, now)), [0, 3, 3, 0, 3, 0], "{reason:?}");
        }
        assert_eq!(hours.map(|now| policy.allowance_by_hand(10, 0, now)), [3; 6], "the user chose the time");
        let without_budgets = DisruptionPolicy { budgets: Vec::new(), ..policy };
        assert_eq!(without_budgets.allowance(DisruptionReason::Empty, 10, 0, hours[0]), 0);
    }

    #[test]
    fn sabotage_without_windows_nodes_are_removed_at_any_time() {
        let policy = DisruptionPolicy { windows: Vec::new(), ..policy_of(vec![budget(BudgetLimit::Nodes(3))]) };
        assert_eq!(policy.allowance(DisruptionReason::Empty, 10, 0, Timestamp::from_millis(HOUR)), 3);
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
