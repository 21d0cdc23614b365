//! The allowance for plans of disruption, which all clusters of a process share.
//!
//! A plan of disruption reads the whole cluster, and no pod waits for it. Plans of all clusters together use at most
//! a share of the processors, on average:
//!
//! - The share accrues with time, up to [`BURST`] of it. A plan that begins takes what plans took on average, and once it has
//!   ended what it really took.
//! - Clusters are served in the order in which their plans became due. A cluster in which something can probably be
//!   saved goes before those that became due up to [`LEAD`] earlier, and no cluster waits for later ones beyond that.
//! - A cluster whose time has not come is told when to ask again. One that does not ask then lets the others pass.
//!
//! Plans in progress are limited too, so that none waits for a thread.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::provisioning::PlanNumber;
use model::{ClusterName, Millis, Timestamp};

/// Time over which an unused share accrues.
pub const BURST: Millis = Millis::from_secs(1);

/// How much earlier the plan of a cluster counts as due if something can probably be saved in it.
pub const LEAD: Millis = Millis::from_secs(30);

/// Microseconds of a processor that a plan takes, until one has ended: 100 nodes with 2,000 pods.
const FIRST_COST: i64 = 10_000;

/// The mean of what plans took moves towards the last one by this part.
const MEAN_PART: i64 = 16;

/// Least time until a cluster asks again.
const LEAST_WAIT: Millis = Millis::new(100);

/// A cluster that has not asked again this long after it should have is not waited for.
const GRACE: Millis = Millis::from_secs(2);

/// A plan whose answer has not arrived after this time is forgotten.
const LOST_AFTER: Millis = Millis::from_mins(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisruptionShare {
    /// Microseconds of a processor in each second; `None` is no limit.
    micros_per_second: Option<i64>,
}

impl DisruptionShare {
    /// `percent` of `processors`, at least one percent.
    #[must_use]
    pub fn of(percent: u64, processors: usize) -> Self {
        let processors = i64::try_from(processors).unwrap_or(i64::MAX);
        let percent = i64::try_from(percent.clamp(1, 100)).unwrap_or(100);
        Self { micros_per_second: Some(processors.saturating_mul(percent).saturating_mul(10_000)) }
    }

    /// Plans that may be in progress together: the processors of the share, rounded up.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        let Some(micros) = self.micros_per_second else { return usize::MAX };
        usize::try_from(micros.unsigned_abs().div_ceil(1_000_000)).unwrap_or(usize::MAX)
    }
}

/// What plans of disruption did since the process started, and what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisruptionTotals {
    pub begun: u64,
    /// Time that they were due before they began, in sum.
    pub waited: Millis,
    pub longest_wait: Millis,
    /// Times that a cluster was told to wait because the allowance was used up or every thread was busy.
    pub deferred: u64,
    /// Processor time of the plans that ended.
    pub used: Duration,
    /// Clusters whose plan is due and waits.
    pub waiting: usize,
}

/// The allowance of the plans of all clusters. Time is an argument.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionAllowance {
    share: DisruptionShare,
    /// Microseconds that may be used now; negative after a plan that took more than was left.
    left: i64,
    /// When `left` was brought up to date.
    as_of: Timestamp,
    /// What a plan takes on average, in microseconds.
    mean: i64,
    /// Clusters that wait, in their order.
    order: BTreeSet<QueueKey>,
    /// The key of each of them, and when it asks again.
    waiting: BTreeMap<ClusterName, (QueueKey, Timestamp)>,
    in_progress: BTreeMap<PlanNumber, PlanInProgress>,
    totals: DisruptionTotals,
}

#[derive(Debug, Clone)]
struct PlanInProgress {
    cluster: ClusterName,
    begun: Timestamp,
    /// Microseconds that it counts for.
    counted: i64,
}

/// When a plan counts as due, and its cluster.
type QueueKey = (Timestamp, ClusterName);

/// A plan that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DisruptionDemand<'d> {
    pub cluster: &'d ClusterName,
    pub plan: PlanNumber,
    /// When it became due.
    pub since: Timestamp,
    /// Whether something can probably be saved.
    pub is_promising: bool,
}

impl DisruptionAllowance {
    pub fn new(share: DisruptionShare) -> Self {
        Self {
            share,
            left: 0,
            as_of: Timestamp::default(),
            mean: FIRST_COST,
            order: BTreeSet::new(),
            waiting: BTreeMap::new(),
            in_progress: BTreeMap::new(),
            totals: DisruptionTotals::default(),
        }
    }

    /// Begins a plan.
    ///
    /// # Errors
    /// When the cluster asks again, if its time has not come.
    pub fn begin(&mut self, demand: DisruptionDemand<'_>, now: Timestamp) -> Result<(), Timestamp> {
        self.advance(now);
        let lead = if demand.is_promising { LEAD } else { Millis::new(0) };
        let key = (demand.since - lead, demand.cluster.clone());
        self.withdraw(demand.cluster);
        let wait = self.wait_of(&key);
        if wait > Millis::new(0) {
            self.totals.deferred += 1;
            let again = now + wait.max(LEAST_WAIT);
            self.order.insert(key.clone());
            self.waiting.insert(demand.cluster.clone(), (key, again));
            return Err(again);
        }
        let waited = now.duration_since(demand.since).max(Millis::new(0));
        self.totals.begun += 1;
        self.totals.waited = self.totals.waited + waited;
        self.totals.longest_wait = self.totals.longest_wait.max(waited);
        self.left -= self.mean;
        let begun = PlanInProgress { cluster: demand.cluster.clone(), begun: now, counted: self.mean };
        self.in_progress.insert(demand.plan, begun);
        Ok(())
    }

    /// A plan ended that took `used` of a processor. One that was dropped before it began took nothing.
    pub fn end(&mut self, plan: PlanNumber, used: Duration, now: Timestamp) {
        self.advance(now);
        let used_micros = i64::try_from(used.as_micros()).unwrap_or(i64::MAX);
        let Some(PlanInProgress { counted, .. }) = self.in_progress.remove(&plan) else { return };
        self.left = self.left.saturating_add(counted).saturating_sub(used_micros);
        self.totals.used += used;
        if used_micros > 0 {
            self.mean = (self.mean + (used_micros - self.mean) / MEAN_PART).max(1);
        }
    }

    /// The cluster is another process's now: the answer to its plan will not arrive.
    pub fn forget(&mut self, cluster: &ClusterName) {
        self.withdraw(cluster);
        self.in_progress.retain(|_, plan| plan.cluster != *cluster);
    }

    fn withdraw(&mut self, cluster: &ClusterName) {
        if let Some((key, _)) = self.waiting.remove(cluster) {
            self.order.remove(&key);
        }
    }

    /// Whether the plan of a cluster is due and waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn totals(&self) -> DisruptionTotals {
        DisruptionTotals { waiting: self.waiting.len(), ..self.totals }
    }

    /// How long it takes until what is left suffices for the plans before `key`, and a thread is free.
    fn wait_of(&self, key: &QueueKey) -> Millis {
        let Some(micros_per_second) = self.share.micros_per_second else { return Millis::new(0) };
        let before = i64::try_from(self.order.range(..key).count()).unwrap_or(i64::MAX);
        let missing = self.mean.saturating_mul(before).saturating_sub(self.left);
        let wait = Millis::new(missing.max(0).saturating_mul(1_000) / micros_per_second + i64::from(missing > 0));
        // Those further behind ask less often.
        let busy = || LEAST_WAIT * before.saturating_add(1);
        if self.in_progress.len() >= self.share.concurrency() { wait.max(busy()) } else { wait }
    }

    fn advance(&mut self, now: Timestamp) {
        if let Some(micros_per_second) = self.share.micros_per_second {
            let since = now.duration_since(self.as_of).get().clamp(0, LOST_AFTER.get());
            let most = micros_per_second.saturating_mul(BURST.get()) / 1_000;
            self.left = self.left.saturating_add(micros_per_second.saturating_mul(since) / 1_000).min(most);
        }
        self.as_of = self.as_of.max(now);
        let late: Vec<ClusterName> = (self.waiting.iter())
            .filter(|(_, (_, again))| now.duration_since(*again) >= GRACE)
            .map(|(cluster, _)| cluster.clone())
            .collect();
        late.iter().for_each(|cluster| self.withdraw(cluster));
        self.in_progress.retain(|_, plan| now.duration_since(plan.begun) < LOST_AFTER);
    }
}

#[cfg(test)]
mod tests;
