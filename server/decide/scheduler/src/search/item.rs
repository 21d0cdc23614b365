//! What the pricing problem fills a machine with.

use smallvec::SmallVec;

use crate::topology::GroupId;

/// Pods of one row that could be put on the machine.
#[derive(Debug, Clone)]
pub(super) struct Item<'a> {
    pub(super) row: u32,
    /// Along the resources of the covering problem.
    pub(super) request: &'a [i64],
    /// Maximum number on the machine, at least 1.
    pub(super) most: u32,
    pub(super) value: f64,
    /// The hostname group whose members exclude each other.
    pub(super) exclusive: Option<GroupId>,
}

impl Item<'_> {
    /// The largest value of a pod among those that exclude this one, itself included.
    pub(super) fn largest_of_group(&self, items: &[Item<'_>]) -> f64 {
        if self.exclusive.is_none() {
            return self.value;
        }
        let rivals = items.iter().filter(|other| other.exclusive == self.exclusive);
        rivals.map(|other| other.value).fold(0.0, f64::max)
    }
}

/// (row, pods), by row.
pub(super) type Pods = SmallVec<[(u32, u32); 4]>;
