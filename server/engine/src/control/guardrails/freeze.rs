//! What people have stopped. A freeze stops launches and voluntary removals; what was begun is completed, and machines that
//! the cloud takes back or that people delete are followed.

use crate::control::ClusterId;
use crate::model::{Text, Timestamp};

/// A freeze in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// The number that thaws it.
    pub id: i64,
    /// The cluster; `None` freezes the fleet.
    pub cluster: Option<ClusterId>,
    /// The NodePool; `None` freezes all of them.
    pub pool: Option<Text>,
    /// Who wants it.
    pub by: Text,
    /// Why.
    pub reason: Text,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself; `None` for never.
    pub until: Option<Timestamp>,
}

impl Freeze {
    /// Whether it holds for `pool` of `cluster`; without a pool, for all of the cluster.
    #[must_use]
    pub fn covers(&self, cluster: &ClusterId, pool: Option<&Text>) -> bool {
        let here = self.cluster.as_ref().is_none_or(|frozen| frozen == cluster);
        here && (self.pool.is_none() || self.pool.as_ref() == pool)
    }

    /// Whether it concerns `cluster` at all.
    #[must_use]
    pub fn touches(&self, cluster: &ClusterId) -> bool {
        self.cluster.as_ref().is_none_or(|frozen| frozen == cluster)
    }

    /// Who froze what, and why.
    #[must_use]
    pub fn sentence(&self) -> Text {
        let what = match (&self.cluster, &self.pool) {
            (Some(cluster), Some(pool)) => format!("NodePool {pool} of cluster {cluster}"),
            (Some(cluster), None) => format!("cluster {cluster}"),
            (None, Some(pool)) => format!("NodePool {pool} of every cluster"),
            (None, None) => "the fleet".to_owned(),
        };
        Text::from(format!("{what} is frozen by {}: {} (freeze {})", self.by, self.reason, self.id))
    }
}

/// All freezes in force.
#[derive(Debug, Clone, Default)]
pub struct Freezes {
    all: Vec<Freeze>,
}

impl Freezes {
    /// These are in force and no others; says whether that is a change.
    pub fn replace(&mut self, freezes: Vec<Freeze>, now: Timestamp) -> bool {
        let freezes: Vec<Freeze> = freezes.into_iter().filter(|freeze| !is_over(freeze, now)).collect();
        std::mem::replace(&mut self.all, freezes) != self.all
    }

    /// Ends those that are over by `now`; says whether there were any.
    pub fn end_past(&mut self, now: Timestamp) -> bool {
        let before = self.all.len();
        self.all.retain(|freeze| !is_over(freeze, now));
        self.all.len() < before
    }

    /// When the next one ends by itself.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.all.iter().filter_map(|freeze| freeze.until).min()
    }

    /// What freezes `pool` of `cluster`.
    #[must_use]
    pub fn of(&self, cluster: &ClusterId, pool: &Text) -> Option<&Freeze> {
        self.all.iter().find(|freeze| freeze.covers(cluster, Some(pool)))
    }

    /// Those that concern `cluster`.
    pub fn touching(&self, cluster: &ClusterId) -> impl Iterator<Item = &Freeze> {
        self.all.iter().filter(move |freeze| freeze.touches(cluster))
    }
}

fn is_over(freeze: &Freeze, now: Timestamp) -> bool {
    freeze.until.is_some_and(|until| until <= now)
}
