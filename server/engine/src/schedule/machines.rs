//! Machines that pods are put on: rooms (they exist) and cohorts (they are to be bought).

use smallvec::SmallVec;

use super::axis::Amounts;
use super::fits::FitId;
use super::topology::{DomainId, GroupId, Tally};
use crate::model::HostPort;

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

    pub(super) fn add(&mut self, group: GroupId, matched: u32, owners: u32) {
        let at = self.0.binary_search_by_key(&group, |(id, _)| *id).unwrap_or_else(|at| {
            self.0.insert(at, (group, Tally::default()));
            at
        });
        self.0[at].1.matched += matched;
        self.0[at].1.owners += owners;
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
    /// The node's domain under each wide topology key (hostname apart), by key.
    pub(super) domains: Vec<Option<DomainId>>,
}

/// Machines to buy that are alike in every respect. Work grows with cohorts, not with machines.
#[derive(Debug, Clone)]
pub(super) struct Cohort {
    /// Numbers of the machines, in order of opening.
    pub(super) ids: Vec<u32>,
    /// Index of the pool.
    pub(super) pool: u32,
    /// The machine (index in the market) whose room is being filled. What is launched in the end may be smaller.
    pub(super) target: u32,
    /// Launch options that suit everything on the machine, resources apart.
    pub(super) fit: FitId,
    /// What the pool is charged for each machine, along [`super::stall::PoolOfferings::limited`]: at least the target, and what
    /// `minValues` need besides.
    pub(super) charged: Vec<i64>,
    /// ExistingNode that is left on the target.
    pub(super) free: Amounts,
    /// What the pods ask for.
    pub(super) used: Amounts,
    pub(super) ports: Vec<HostPort>,
    pub(super) host: HostTallies,
    /// What a larger target could give at most, if that was looked for since the contents or the target changed.
    pub(super) growth: Option<Growth>,
}

/// What the machines that a cohort could change to have room for beside its pods, resource by resource at most.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    /// The options that were looked at.
    pub(super) fit: FitId,
    /// What the limits of the pool left: it holds for as long as they leave no more.
    pub(super) limits: SmallVec<[i64; 2]>,
    pub(super) most: Amounts,
}

/// Where pods went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A node of the input, by room.
    ExistingNode(u32),
    /// A machine to buy, by number.
    New(u32),
}

/// `count` pods of `class` went to `place`; in order of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) class: u32,
    pub(super) place: Place,
    pub(super) count: u32,
}

/// Whether ports `wanted` are free among `taken`.
pub(super) fn ports_free(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().all(|port| !taken.iter().any(|other| port.conflicts_with(other)))
}
