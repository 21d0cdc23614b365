//! The estimator as rows, for a store.

use crate::history::{CLASSES, Counts, History, class_of};
use crate::recalibration::{GROUPS, Interval};
use crate::{CapacityOdds, Scope, Tally};
use model::{CapacityType, SizeClass, Timestamp};

/// Outcomes of one scope and size class.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRow {
    pub scope: Scope,
    pub size: SizeClass,
    /// Outcomes as evidence about the present.
    pub recent: Tally,
    /// Outcomes as evidence about what is usual.
    pub usual: Tally,
    /// The time as of which both are.
    pub at: Timestamp,
    /// The last outcome; `None` if none is about this size.
    pub last: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecalibrationRow {
    /// Whose launches it corrects; `None` for orders of several launches.
    pub capacity_type: Option<CapacityType>,
    /// Position of the group by age of the evidence; `None` for all statements.
    pub group: Option<usize>,
    /// Position of the interval, from the lowest probability.
    pub interval: usize,
    pub values: Interval,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Outcomes, by scope and size.
    pub histories: Vec<HistoryRow>,
    pub recalibrations: Vec<RecalibrationRow>,
}

impl CapacityOdds {
    /// The rows; classes and intervals without outcomes have none.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (scope, history) in &self.histories {
            let counted = SizeClass::ALL.into_iter().zip(history.counts);
            let counted = counted.filter(|(_, counts)| *counts != Counts::default());
            snapshot.histories.extend(counted.map(|(size, Counts { recent, usual, last })| HistoryRow {
                scope: scope.clone(),
                size,
                recent,
                usual,
                at: history.at,
                last,
            }));
        }
        let single = self.recalibrations.iter().map(|(capacity_type, known)| (Some(*capacity_type), known));
        for (capacity_type, known) in single.chain([(None, &self.order_recalibration)]) {
            for group in [None].into_iter().chain((0..GROUPS).map(Some)) {
                let intervals = known.intervals(group).into_iter().flatten().enumerate();
                let used = intervals.filter(|(_, values)| **values != Interval::default());
                let row = |(interval, values): (usize, &Interval)| RecalibrationRow {
                    capacity_type,
                    group,
                    interval,
                    values: *values,
                };
                snapshot.recalibrations.extend(used.map(row));
            }
        }
        snapshot
    }

    /// The estimator that `snapshot` was taken of, with at most `max_scopes` scopes. Rows of an interval that does not
    /// exist are left out.
    #[must_use]
    pub fn restore(snapshot: Snapshot, max_scopes: usize) -> Self {
        let mut odds = Self::with_max_scopes(max_scopes);
        for HistoryRow { scope, size, recent, usual, at, last } in snapshot.histories {
            let history = odds.histories.entry(scope).or_insert_with(|| History::new(at));
            history.counts[class_of(size.smallest()).min(CLASSES - 1)] = Counts { recent, usual, last };
        }
        for RecalibrationRow { capacity_type, group, interval, values } in snapshot.recalibrations {
            let known = match capacity_type {
                Some(capacity_type) => odds.recalibrations.entry(capacity_type).or_default(),
                None => &mut odds.order_recalibration,
            };
            if let Some(slot) = known.intervals_mut(group).and_then(|intervals| intervals.get_mut(interval)) {
                *slot = values;
            }
        }
        odds
    }
}
