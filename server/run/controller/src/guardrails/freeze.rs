//! Freezes set by operators. A freeze stops launches and voluntary removals, or the latter alone; work
//! that has begun is completed, and interruptions and manual deletions are followed.

use std::fmt;

use super::block::Block;
use model::disruption_plan::BlockCode;
use model::removal::RemovalReason;
use model::{ClusterName, PoolName, Text, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// Id under which the freeze is removed.
    pub id: i64,
    /// The cluster; `None` freezes the fleet.
    pub cluster: Option<ClusterName>,
    /// The NodePool; `None` freezes all of them.
    pub pool: Option<PoolName>,
    /// Whether it stops voluntary disruption alone: launches and all other removals go on.
    pub only_disruption: bool,
    pub by: Text,
    /// Reason given by the operator.
    pub reason: Text,
    pub since: Timestamp,
    /// End of the freeze; `None` without end.
    pub until: Option<Timestamp>,
}

impl Freeze {
    /// Whether it covers `pool` of `cluster`; without a pool, whether it covers the whole cluster.
    #[must_use]
    pub fn covers(&self, cluster: &ClusterName, pool: Option<&PoolName>) -> bool {
        let here = self.cluster.as_ref().is_none_or(|frozen| frozen == cluster);
        here && (self.pool.is_none() || self.pool.as_ref() == pool)
    }

    /// Whether it concerns any part of `cluster`.
    #[must_use]
    pub fn concerns(&self, cluster: &ClusterName) -> bool {
        self.cluster.as_ref().is_none_or(|frozen| frozen == cluster)
    }
}

/// Sentence: what is frozen, by which operator, and why.
impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.only_disruption {
            f.write_str("voluntary disruption of ")?;
        }
        match (&self.cluster, &self.pool) {
            (Some(cluster), Some(pool)) => write!(f, "NodePool {pool} of cluster {cluster}"),
            (Some(cluster), None) => write!(f, "cluster {cluster}"),
            (None, Some(pool)) => write!(f, "NodePool {pool} of every cluster"),
            (None, None) => f.write_str("the fleet"),
        }?;
        write!(f, " is frozen by {}: {} (freeze {})", self.by, self.reason, self.id)
    }
}

impl From<&Freeze> for Block {
    fn from(freeze: &Freeze) -> Self {
        let object = Text::from(format!("Freeze/{}", freeze.id));
        Self { until: freeze.until, ..Self::new(BlockCode::Frozen, Some(object), freeze) }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Freezes {
    all: Vec<Freeze>,
}

impl Freezes {
    /// Replaces all freezes; returns whether anything changed.
    pub fn replace(&mut self, freezes: Vec<Freeze>, now: Timestamp) -> bool {
        let freezes: Vec<Freeze> = freezes.into_iter().filter(|freeze| !is_over(freeze, now)).collect();
        std::mem::replace(&mut self.all, freezes) != self.all
    }

    /// Removes freezes that have ended by `now`; returns whether there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.all.len();
        self.all.retain(|freeze| !is_over(freeze, now));
        self.all.len() < before
    }

    /// When the next freeze ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.all.iter().filter_map(|freeze| freeze.until).min()
    }

    /// The freeze that stops launches and removals in `pool` of `cluster`; without a pool, in the whole cluster.
    #[must_use]
    pub fn for_pool(&self, cluster: &ClusterName, pool: Option<&PoolName>) -> Option<&Freeze> {
        self.all.iter().find(|freeze| !freeze.only_disruption && freeze.covers(cluster, pool))
    }

    /// What holds launches in `pool` of `cluster`; without a pool, in the whole cluster.
    #[must_use]
    pub fn launch_block(&self, cluster: &ClusterName, pool: Option<&PoolName>) -> Option<Block> {
        self.for_pool(cluster, pool).map(Block::from)
    }

    /// What holds a removal for `reason` in `pool` of `cluster`: a freeze of disruption alone holds voluntary ones.
    #[must_use]
    pub fn removal_block(&self, cluster: &ClusterName, pool: &PoolName, reason: RemovalReason) -> Option<Block> {
        let holds = |freeze: &Freeze| !(freeze.only_disruption && reason.is_forceful());
        self.all.iter().find(|freeze| holds(freeze) && freeze.covers(cluster, Some(pool))).map(Block::from)
    }

    /// Freezes that concern `cluster`.
    pub fn for_cluster(&self, cluster: &ClusterName) -> impl Iterator<Item = &Freeze> {
        self.all.iter().filter(move |freeze| freeze.concerns(cluster))
    }
}

fn is_over(freeze: &Freeze, now: Timestamp) -> bool {
    freeze.until.is_some_and(|until| until <= now)
}
