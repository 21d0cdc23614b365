//! Destinations of pods: existing nodes, and cohorts of machines to launch.

use smallvec::SmallVec;

use super::fits::FitId;
use super::patterns::KeptRoom;
use super::resource_vector::Amounts;
use super::topology::{DomainId, GroupId, Tally};
use model::HostPort;

/// Tallies of hostname groups on one machine, sorted by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostTallies(SmallVec<[(GroupId, Tally); 2]>);

impl HostTallies {
    pub(super) fn get(&self, group: GroupId) -> Tally {
        self.0.binary_search_by_key(&group, |(id, _)| *id).map_or(Tally::default(), |at| self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GroupId, Tally)> {
        self.0.iter().copied()
    }

    pub(super) fn add(&mut self, group: GroupId, matched: u32, carriers: u32) {
        let at = self.0.binary_search_by_key(&group, |(id, _)| *id).unwrap_or_else(|at| {
            self.0.insert(at, (group, Tally::default()));
            at
        });
        self.0[at].1.matched += matched;
        self.0[at].1.carriers += carriers;
    }
}

/// A node of the input that may take pods.
#[derive(Debug)]
pub(super) struct ExistingNode {
    /// Index of the node in the input.
    pub(super) node: u32,
    pub(super) free: Amounts,
    pub(super) ports: Vec<HostPort>,
    pub(super) host: HostTallies,
    /// The node's domain under each wide topology key (hostname excluded), by key.
    pub(super) domains: Vec<Option<DomainId>>,
}

/// Identical machines to launch. Work grows with cohorts, not with machines.
#[derive(Debug, Clone)]
pub(super) struct Cohort {
    /// Numbers of the machines, in the order of opening.
    pub(super) ids: Vec<u32>,
    /// Index of the pool.
    pub(super) pool: u32,
    /// The instance type (index in the supply) whose capacity is filled. The launch may choose a
    /// smaller one.
    pub(super) target_type: u32,
    /// Launch options that suit all pods of the machine, resources not considered.
    pub(super) fit: FitId,
    /// Charge to the pool per machine, along [`super::pool_offerings::PoolOfferings::limited`]: at
    /// least the target's, and what `minValues` need besides.
    pub(super) charged: Vec<i64>,
    pub(super) free: Amounts,
    pub(super) used: Amounts,
    pub(super) ports: Vec<HostPort>,
    pub(super) host: HostTallies,
    /// Room that is kept for classes of the queue.
    pub(super) kept: KeptRoom,
    /// What a larger target could give at most, if computed since the pods or the target changed.
    pub(super) growth: Option<GrowthLimit>,
}

/// Maximum free capacity, resource by resource, of the types that a cohort could change to.
#[derive(Debug, Clone)]
pub(super) struct GrowthLimit {
    pub(super) fit: FitId,
    /// The limits left in the pool at that time: the result is valid while they are not exceeded.
    pub(super) limits: SmallVec<[i64; 2]>,
    pub(super) most: Amounts,
}

/// Where a pod is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    /// An existing node, by index in [`super::packing::Packing::existing_nodes`].
    Existing(u32),
    /// A machine to launch, by number.
    New(u32),
}

/// `count` pods of `class` were placed on `destination`; events are in the order of placement.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacementEvent {
    pub(super) class: u32,
    pub(super) destination: Destination,
    pub(super) count: u32,
}

/// Whether ports `wanted` are free among `taken`.
pub(super) fn ports_free(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().all(|port| !taken.iter().any(|other| port.conflicts_with(other)))
}
