//! When plans of disruption are requested, and the one in progress.

use std::collections::BTreeMap;

use crate::DecisionId;
use crate::node_report::planned_blocks::PlannedBlocks;
use crate::provisioning::PlanNumber;
use model::{Millis, PoolName, Text, Timestamp};

/// A plan of a cluster searches for groups of nodes at least this often, as far as the allowance for searches grants it,
/// even while other clusters wait for their plans.
const SEARCH_AT_LEAST: Millis = Millis::from_mins(30);

/// When disruption is planned, and the plan in progress.
#[derive(Debug, Default)]
pub(crate) struct Consolidation {
    pub pending: Option<PendingConsolidation>,
    /// When the cluster was last looked at.
    pub checked_at: Option<Timestamp>,
    /// Since when a plan is due that the allowance of all clusters has not granted.
    pub waiting_since: Option<Timestamp>,
    /// When it asks the allowance again.
    pub asks_again: Option<Timestamp>,
    /// When a plan last searched for groups of nodes, or the first one was made.
    pub searched_at: Option<Timestamp>,
    /// Whether the last plan found machines to remove.
    pub found_savings: bool,
    /// [`ClusterState::pods_left`](cluster::ClusterState::pods_left) at the last plan.
    pub pods_left: u64,
    /// The last look that led to nothing.
    pub idle: Option<Idle>,
    /// When it has to be advanced without an event.
    pub next_wakeup: Option<Timestamp>,
    /// What the last plan found of the nodes that stay.
    pub planned_blocks: PlannedBlocks,
    /// Whether the limits of NodePools had no room for the machines of the last plan: the next one launches none in
    /// NodePools with limits.
    pub exceeded_limits: bool,
}

#[derive(Debug)]
pub(crate) struct PendingConsolidation {
    pub number: PlanNumber,
    /// [`ClusterState::removal_opportunity_version`](cluster::ClusterState::removal_opportunity_version) in the request.
    pub version: u64,
    /// The last decision before the request.
    pub last_decision: Option<DecisionId>,
    pub revisions: BTreeMap<PoolName, Text>,
    /// Whether it may search for groups of nodes, or searches are disabled.
    pub is_searched: bool,
    /// When the rate limits leave more room than the plan has; `None` if they do not limit it.
    pub more_room_at: Option<Timestamp>,
}

/// A look at the cluster that led to nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    /// [`ClusterState::removal_opportunity_version`](cluster::ClusterState::removal_opportunity_version) at that time.
    version: u64,
    /// When the next look may find something without a change.
    until: Timestamp,
}

impl Consolidation {
    /// When the next request is due while the state of the cluster has this `removal_opportunity_version`.
    pub fn due_at(&self, version: u64, interval: Millis, now: Timestamp) -> Timestamp {
        let checked = self.checked_at.map(|checked| checked + interval);
        let earliest = checked.into_iter().chain(self.asks_again).max().unwrap_or(now);
        match self.idle {
            Some(idle) if idle.version == version => idle.until.max(earliest),
            _ => earliest,
        }
    }

    pub fn begin(&mut self, now: Timestamp, pods_left: u64) {
        (self.checked_at, self.pods_left, self.found_savings) = (Some(now), pods_left, false);
        self.stop_waiting();
    }

    /// Whether no plan has searched for groups of nodes for [`SEARCH_AT_LEAST`].
    pub fn is_search_overdue(&mut self, now: Timestamp) -> bool {
        let last = *self.searched_at.get_or_insert(now);
        now.duration_since(last) >= SEARCH_AT_LEAST
    }

    /// Records that no plan is due any more.
    pub fn stop_waiting(&mut self) {
        (self.waiting_since, self.asks_again) = (None, None);
    }

    pub fn record_idle(&mut self, version: u64, until: Timestamp) {
        self.idle = Some(Idle { version, until });
    }

    /// When it has to be advanced without an event.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.next_wakeup
    }
}
