//! Rate limits: how many machines may be launched or removed within a window, per cluster and in
//! the fleet across all replicas.
//!
//! Every decision is recorded; a decision that is not carried out is removed again. Work above the
//! limit waits and continues as the window moves. A decision that is made later for what begins now is reserved: its
//! reservation counts until the decision is recorded or the reservation ends, however long that takes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::block::Block;
use super::fleet_counters::MachineTotals;
use super::sliding_window::SlidingWindow;
use model::disruption_plan::BlockCode;
use model::{ClaimName, ClusterName, MicroUsd, Millis, Timestamp};

/// Limits within a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRule {
    /// Length of the window.
    pub window: Millis,
    /// Limit of each cluster.
    pub cluster: Bound,
    /// Limit of all clusters together.
    pub fleet: Bound,
}

impl RateLimitRule {
    /// The default of launches.
    pub const LAUNCHES: Self = Self {
        window: Millis::from_mins(10),
        cluster: Bound { machines: 500, usd_per_hour: MicroUsd(1_000_000_000), percent: 0, free: 0 },
        fleet: Bound { machines: 2_000, usd_per_hour: MicroUsd(5_000_000_000), percent: 0, free: 0 },
    };

    /// The default of voluntary removals.
    pub const REMOVALS: Self = Self {
        window: Millis::from_mins(10),
        cluster: Bound { machines: 200, usd_per_hour: MicroUsd(0), percent: 50, free: 10 },
        fleet: Bound { machines: 1_000, usd_per_hour: MicroUsd(0), percent: 25, free: 50 },
    };
}

/// Limit within a window. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Number of machines.
    pub machines: usize,
    /// Sum of their prices per hour.
    pub usd_per_hour: MicroUsd,
    /// Percentage of the machines at the start of the window, rounded up.
    pub percent: usize,
    /// Lower bound of that percentage, in machines.
    pub free: usize,
}

/// The kind of event that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitKind {
    Launches,
    Removals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    Cluster(ClusterName),
    /// All clusters of all replicas.
    Fleet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Machines(usize),
    /// Percentage of the machines at the start of the window.
    Percent {
        /// The percentage.
        percent: usize,
        /// Number of machines that is always allowed.
        free: usize,
    },
    /// Price per hour of all machines together.
    UsdPerHour(MicroUsd),
}

/// A rate limit that admits no further machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededLimit {
    pub counted: RateLimitKind,
    /// Where.
    pub scope: LimitScope,
    pub limit: Limit,
    /// Length of the window, in minutes.
    pub window_minutes: i64,
}

/// An exceeded limit, and when capacity under it returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitBlock {
    pub limit: ExceededLimit,
    /// When the oldest event leaves the window.
    pub until: Timestamp,
}

impl From<LimitBlock> for Block {
    fn from(held: LimitBlock) -> Self {
        let setting = held.limit.setting();
        Self { setting, until: Some(held.until), ..Self::new(BlockCode::Guardrail, None, &held.limit) }
    }
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(cluster) => write!(f, "cluster {cluster}"),
            Self::Fleet => f.write_str("the fleet"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machines(machines) => write!(f, "{machines} machines"),
            Self::Percent { percent, free } => write!(f, "{percent} % of its machines ({free} at least)"),
            Self::UsdPerHour(price) => write!(f, "${price} an hour of machines"),
        }
    }
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counted, scope, limit, window_minutes } = self;
        let (verb, rest) = match counted {
            RateLimitKind::Launches => ("launch", "waits"),
            RateLimitKind::Removals => ("lose", "stays"),
        };
        write!(
            f,
            "{scope} may {verb} no more than {limit} within {window_minutes} min; the rest {rest} until the window \
             moves on"
        )
    }
}

impl ExceededLimit {
    /// The setting that the limit is.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        match (self.counted, &self.scope, self.limit) {
            (RateLimitKind::Launches, LimitScope::Cluster(_), Limit::UsdPerHour(_)) => {
                "guardrails.launch-dollars-per-cluster"
            }
            (RateLimitKind::Launches, LimitScope::Fleet, Limit::UsdPerHour(_)) => "guardrails.launch-dollars-per-fleet",
            (RateLimitKind::Launches, LimitScope::Cluster(_), _) => "guardrails.launches-per-cluster",
            (RateLimitKind::Launches, LimitScope::Fleet, _) => "guardrails.launches-per-fleet",
            (RateLimitKind::Removals, LimitScope::Cluster(_), Limit::Percent { .. }) => {
                "guardrails.removal-percent-per-cluster"
            }
            (RateLimitKind::Removals, LimitScope::Fleet, Limit::Percent { .. }) => {
                "guardrails.removal-percent-per-fleet"
            }
            (RateLimitKind::Removals, LimitScope::Cluster(_), _) => "guardrails.removals-per-cluster",
            (RateLimitKind::Removals, LimitScope::Fleet, _) => "guardrails.removals-per-fleet",
        }
    }
}

/// The machines that percentages refer to.
#[derive(Debug, Clone, Copy)]
pub struct Population<'c> {
    pub cluster: &'c ClusterName,
    pub machines: usize,
    /// Machines of all clusters of all replicas.
    pub fleet: usize,
    /// Number of clusters of this process.
    pub clusters: usize,
}

/// Percentage of the fleet limit that is reserved for clusters below their fair share, so that a
/// few clusters at their own limit do not exhaust it.
const RESERVED_PERCENT: usize = 25;

/// Recent launches or removals, per cluster and in the fleet.
#[derive(Debug, Clone, Default)]
pub struct RateLimits {
    clusters: BTreeMap<ClusterName, SlidingWindow<ClaimName>>,
    /// Events of this process, in all clusters.
    local: SlidingWindow<(ClusterName, ClaimName)>,
    /// Events of other processes, oldest first.
    remote: VecDeque<(Timestamp, MachineTotals)>,
    /// Time of the oldest event in `clusters`.
    oldest: Option<Timestamp>,
    /// Events of this process that are to come.
    reserved: BTreeMap<ClusterName, BTreeMap<ClaimName, Reservation>>,
}

/// An event that is to come.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    since: Timestamp,
    price: MicroUsd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRoom {
    /// Number of machines, at most as many as were asked for.
    pub machines: usize,
    /// Sum of their prices per hour; `None` without a limit.
    pub usd_per_hour: Option<MicroUsd>,
    /// When there is more; `None` if no limit was met.
    pub more_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    machines: usize,
    reserved: usize,
    cost: i64,
    oldest: Option<Timestamp>,
}

impl<K: PartialEq> From<&SlidingWindow<K>> for Usage {
    fn from(window: &SlidingWindow<K>) -> Self {
        Self { machines: window.len(), reserved: 0, cost: window.cost().0, oldest: window.oldest() }
    }
}

impl Usage {
    fn with_reservations<'r>(mut self, reserved: impl Iterator<Item = &'r Reservation>) -> Self {
        for one in reserved {
            self.reserved += 1;
            self.cost = self.cost.saturating_add(one.price.0);
        }
        self
    }
}

impl RateLimits {
    /// Records that this process decided to launch or remove the machine of `claim`, which ends its reservation.
    pub fn record(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.retain_reservations(cluster, |reserved| reserved != claim);
        self.restore(cluster, claim, price, at);
        self.local.record((cluster.clone(), claim.clone()), price, at);
    }

    /// Records an event of another process for the cluster's limit only; its fleet counters contain
    /// it already.
    pub fn restore(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, at: Timestamp) {
        self.clusters.entry(cluster.clone()).or_default().record(claim.clone(), price, at);
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    /// Reserves an event of this process that is to come.
    pub fn reserve(&mut self, cluster: &ClusterName, claim: &ClaimName, price: MicroUsd, since: Timestamp) {
        self.reserved.entry(cluster.clone()).or_default().insert(claim.clone(), Reservation { since, price });
    }

    /// Ends the reservations that `keep` does not accept.
    pub fn retain_reservations(&mut self, cluster: &ClusterName, keep: impl Fn(&ClaimName) -> bool) {
        if let Some(of_cluster) = self.reserved.get_mut(cluster) {
            of_cluster.retain(|claim, _| keep(claim));
            if of_cluster.is_empty() {
                self.reserved.remove(cluster);
            }
        }
    }

    /// Ends the reservations of a cluster that this process does not own any more.
    pub fn forget_reservations(&mut self, cluster: &ClusterName) {
        self.reserved.remove(cluster);
    }

    /// Whether an event of the machine of `claim` is reserved.
    #[must_use]
    pub fn is_reserved(&self, cluster: &ClusterName, claim: &ClaimName) -> bool {
        self.reserved.get(cluster).is_some_and(|of_cluster| of_cluster.contains_key(claim))
    }

    /// Number of reservations in all clusters of this process.
    #[must_use]
    pub fn reservations(&self) -> usize {
        self.reserved.values().map(BTreeMap::len).sum()
    }

    /// Replaces the events of other processes; oldest first.
    pub fn merge_remote(&mut self, counters: impl Iterator<Item = (Timestamp, MachineTotals)>) {
        self.remote = counters.filter(|(_, machines)| machines.count > 0).collect();
    }

    /// Events of this process, those that are reserved included: time and price per hour of the machine.
    pub fn local(&self) -> impl Iterator<Item = (Timestamp, MicroUsd)> {
        let reserved = self.reserved.values().flat_map(BTreeMap::values);
        self.local.iter().chain(reserved.map(|one| (one.since, one.price)))
    }

    /// Whether an event of the machine of `claim` is recorded.
    #[must_use]
    pub fn contains(&self, cluster: &ClusterName, claim: &ClaimName) -> bool {
        self.clusters.get(cluster).is_some_and(|window| window.contains(claim))
    }

    /// Removes the event: it is not carried out.
    pub fn remove(&mut self, cluster: &ClusterName, claim: &ClaimName) {
        if let Some(window) = self.clusters.get_mut(cluster) {
            window.remove(claim);
        }
        self.local.remove(&(cluster.clone(), claim.clone()));
    }

    /// Drops events that have left the window.
    pub fn expire(&mut self, length: Millis, now: Timestamp) {
        let is_past = |at: Timestamp| now.duration_since(at) >= length;
        self.local.expire(length, now);
        while self.remote.front().is_some_and(|(at, _)| is_past(*at)) {
            self.remote.pop_front();
        }
        if !self.oldest.is_some_and(is_past) {
            return;
        }
        self.clusters.retain(|_, window| {
            window.expire(length, now);
            !window.is_empty()
        });
        self.oldest = self.clusters.values().filter_map(SlidingWindow::oldest).min();
    }

    /// Number of events in the fleet within the window.
    #[must_use]
    pub fn fleet_count(&self) -> usize {
        self.fleet_usage().machines
    }

    /// Number of events in the cluster within the window.
    #[must_use]
    pub fn cluster_count(&self, cluster: &ClusterName) -> usize {
        self.clusters.get(cluster).map_or(0, SlidingWindow::len)
    }

    fn cluster_usage(&self, cluster: &ClusterName) -> Usage {
        let used = self.clusters.get(cluster).map(Usage::from).unwrap_or_default();
        used.with_reservations(self.reserved.get(cluster).into_iter().flat_map(BTreeMap::values))
    }

    /// Usage by all processes.
    fn fleet_usage(&self) -> Usage {
        let reserved = self.reserved.values().flat_map(BTreeMap::values);
        let mut used = Usage::from(&self.local).with_reservations(reserved);
        for (at, machines) in &self.remote {
            used.machines += machines.count;
            used.cost = used.cost.saturating_add(machines.cost.0);
            used.oldest = Some(used.oldest.map_or(*at, |oldest| oldest.min(*at)));
        }
        used
    }

    /// How many machines with these `prices`, in this order, the limits admit, and why not more.
    #[must_use]
    pub fn admit(
        &self,
        rule: &RateLimitRule,
        counted: RateLimitKind,
        population: Population<'_>,
        prices: impl IntoIterator<Item = MicroUsd>,
        now: Timestamp,
    ) -> (usize, Option<LimitBlock>) {
        let cluster_usage = self.cluster_usage(population.cluster);
        let of_cluster = cluster_usage.machines + cluster_usage.reserved;
        let scopes = [
            (LimitScope::Cluster(population.cluster.clone()), cluster_usage, rule.cluster, population.machines),
            (LimitScope::Fleet, self.fleet_usage(), rule.fleet, population.fleet),
        ];
        let (mut admitted, mut cost) = (0, 0_i64);
        for price in prices {
            cost = cost.saturating_add(price.0);
            for (scope, used, bound, machines) in &scopes {
                let bound = match scope {
                    LimitScope::Fleet => fair_share(*bound, of_cluster + admitted + 1, population.clusters),
                    LimitScope::Cluster(_) => *bound,
                };
                if let Some(limit) = exceeded_limit(bound, *used, *machines, admitted + 1, MicroUsd(cost)) {
                    let (scope, window_minutes) = (scope.clone(), rule.window.as_mins());
                    let oldest = used.oldest.unwrap_or(now);
                    let until = oldest + rule.window;
                    let limit = ExceededLimit { counted, scope, limit, window_minutes };
                    return (admitted, Some(LimitBlock { limit, until }));
                }
            }
            admitted += 1;
        }
        (admitted, None)
    }

    /// What the limits leave for up to `most` machines.
    #[must_use]
    pub fn room(
        &self,
        rule: &RateLimitRule,
        counted: RateLimitKind,
        population: Population<'_>,
        most: usize,
        now: Timestamp,
    ) -> RateLimitRoom {
        let free = std::iter::repeat_n(MicroUsd(0), most);
        let (machines, block) = self.admit(rule, counted, population, free, now);
        let left = |bound: Bound, used: Usage| {
            let most = Some(bound.usd_per_hour.0).filter(|most| *most > 0)?;
            Some(MicroUsd(most.saturating_sub(used.cost).max(0)))
        };
        let of_cluster = left(rule.cluster, self.cluster_usage(population.cluster));
        let usd_per_hour = of_cluster.into_iter().chain(left(rule.fleet, self.fleet_usage())).min();
        RateLimitRoom { machines, usd_per_hour, more_at: block.map(|block| block.until) }
    }
}

/// The fleet limit for a cluster that would have used `used` machines of it.
fn fair_share(bound: Bound, used: usize, clusters: usize) -> Bound {
    let share = bound.machines.div_ceil(clusters.max(1));
    let kept = if used > share { bound.machines * RESERVED_PERCENT / 100 } else { 0 };
    Bound { machines: bound.machines - kept, ..bound }
}

/// The limit that `more` machines at `cost` together would exceed. Percentages refer to the
/// machines at the start of the window: those present and those removed since.
fn exceeded_limit(bound: Bound, used: Usage, machines: usize, more: usize, cost: MicroUsd) -> Option<Limit> {
    let count = used.machines + used.reserved + more;
    // Machines whose removal is reserved are present.
    let before = machines + used.machines;
    let share = (bound.percent * before).div_ceil(100).max(bound.free);
    if bound.machines > 0 && count > bound.machines {
        return Some(Limit::Machines(bound.machines));
    }
    if bound.percent > 0 && count > share {
        return Some(Limit::Percent { percent: bound.percent, free: bound.free });
    }
    let over_cost = used.cost.saturating_add(cost.0) > bound.usd_per_hour.0;
    (bound.usd_per_hour.0 > 0 && over_cost).then_some(Limit::UsdPerHour(bound.usd_per_hour))
}
