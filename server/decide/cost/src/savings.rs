//! What decisions that remove machines were to save, and what they have saved a day later.

use std::collections::BTreeMap;

use model::{ClaimName, MicroUsd, Millis, Timestamp};

use crate::{CostInterval, charge};

/// Savings are predicted for this time after a decision, and realised in it.
pub const SAVINGS_WINDOW: Millis = Millis::from_hours(24);

/// A decision that removes machines to save their price. Amounts are micro-dollars of [`SAVINGS_WINDOW`] after it.
///
/// What was bought later for pods that it moved counts against it, by their share of the machine ([`crate::MovedShare`]).
/// Decisions do not add up to what a month has saved: without one of them others would not have been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saving {
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    pub removed: u32,
    /// Machines that it launches in their place.
    pub launched: u32,
    /// What the removed machines would have cost.
    pub removed_cost: i64,
    /// What the launched machines cost if they run all the time.
    pub launched_cost: i64,
    /// What removed and launched machines have cost, and the shares of those that were bought later.
    pub spent: i64,
    /// Machines that were bought later, in part at least, for pods that it moved.
    pub bought_later: u32,
    /// What their shares have cost; part of `spent`.
    pub bought_later_cost: i64,
    /// A later decision, or the cloud, has ended a launched machine within the time: what is saved then is not of this decision.
    pub is_overtaken: bool,
}

impl Saving {
    /// What the decision was to save.
    #[must_use]
    pub fn predicted(&self) -> i64 {
        self.removed_cost - self.launched_cost
    }

    /// What it has saved once the time is over; at most what the removed machines would have cost.
    #[must_use]
    pub fn realised(&self) -> i64 {
        self.removed_cost - self.spent
    }

    /// When the time is over.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        self.at + SAVINGS_WINDOW
    }
}

/// What a machine is to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Removed,
    Launched,
    /// Launched by another decision, for pods of which this one has moved this share, in parts per million.
    BoughtLater(u32),
}

/// Machines of a decision with their price.
type Machines<'i> = BTreeMap<&'i ClaimName, (MicroUsd, Role)>;

/// The savings of the decisions that the intervals of one cluster name, by number.
#[must_use]
pub fn savings(intervals: &[CostInterval]) -> Vec<Saving> {
    let mut decisions = BTreeMap::<u64, (Timestamp, Machines<'_>)>::new();
    for machine in intervals.iter().map(|interval| &interval.machine) {
        if let Some(decision) = machine.removed_by {
            let (_, machines) = decisions.entry(decision.number).or_insert((decision.at, Machines::new()));
            machines.insert(&machine.claim, (machine.price, Role::Removed));
        }
    }
    for machine in intervals.iter().map(|interval| &interval.machine) {
        if let Some((_, machines)) = machine.launched_by.and_then(|number| decisions.get_mut(&number)) {
            machines.entry(&machine.claim).or_insert((machine.price, Role::Launched));
        }
        for share in &machine.moved {
            if let Some((_, machines)) = decisions.get_mut(&share.decision) {
                machines.entry(&machine.claim).or_insert((machine.price, Role::BoughtLater(share.ppm)));
            }
        }
    }
    decisions.into_iter().map(|(number, (at, machines))| saving(number, at, &machines, intervals)).collect()
}

fn saving(number: u64, at: Timestamp, machines: &Machines<'_>, intervals: &[CostInterval]) -> Saving {
    let mut saving = Saving {
        number,
        at,
        removed: 0,
        launched: 0,
        removed_cost: 0,
        launched_cost: 0,
        spent: 0,
        bought_later: 0,
        bought_later_cost: 0,
        is_overtaken: false,
    };
    for (price, role) in machines.values() {
        let cost = charge(*price, Millis::ZERO, SAVINGS_WINDOW);
        let (count, sum) = match role {
            Role::Launched => (&mut saving.launched, &mut saving.launched_cost),
            Role::Removed => (&mut saving.removed, &mut saving.removed_cost),
            // What it costs is not predicted.
            Role::BoughtLater(_) => {
                saving.bought_later += 1;
                continue;
            }
        };
        *count += 1;
        *sum += cost;
    }
    let ends = saving.ends();
    for interval in intervals.iter().filter(|interval| interval.start < ends && interval.end > at) {
        let Some((_, role)) = machines.get(&interval.machine.claim) else { continue };
        let (from, until) = (interval.start.max(at), interval.end.min(ends));
        let cost = charge(interval.machine.price, from - interval.launched, until - interval.launched);
        match role {
            Role::Removed | Role::Launched => saving.spent += cost,
            Role::BoughtLater(ppm) => {
                let part = share(cost, *ppm);
                saving.bought_later_cost += part;
                saving.spent += part;
            }
        }
        saving.is_overtaken |= *role == Role::Launched && !interval.is_running && interval.end < ends;
    }
    saving
}

fn share(cost: i64, ppm: u32) -> i64 {
    i64::try_from(i128::from(cost) * i128::from(ppm) / 1_000_000).unwrap_or(cost)
}

#[cfg(test)]
mod tests {
    use model::CapacityType;
    use proptest::prelude::*;

    use super::*;
    use crate::{CostParts, CostedMachine, MovedShare, SavingDecision};

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(hours * 3_600_000)
    }

    fn interval(claim: &str, hours: (i64, i64), price: i64) -> CostInterval {
        let machine = CostedMachine {
            claim: claim.into(),
            pool: "default".into(),
            provider_id: "".into(),
            instance_type: "m6i.xlarge".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            price: MicroUsd(price),
            launched_by: None,
            removed_by: None,
            moved: Vec::new(),
        };
        let (start, end) = (at(hours.0), at(hours.1));
        CostInterval { machine, launched: at(0), start, end, parts: CostParts::default(), is_running: true }
    }

    fn removed(number: u64, hour: i64, interval: CostInterval) -> CostInterval {
        let removed_by = Some(SavingDecision { number, at: at(hour) });
        CostInterval { machine: CostedMachine { removed_by, ..interval.machine }, is_running: false, ..interval }
    }

    fn launched(number: u64, interval: CostInterval) -> CostInterval {
        CostInterval { machine: CostedMachine { launched_by: Some(number), ..interval.machine }, ..interval }
    }

    /// An m6i.xlarge of $0.192 is replaced by an m6i.large of $0.096, and drained for an hour.
    #[test]
    fn a_replacement_saves_the_difference_but_for_the_time_in_which_both_run() {
        let intervals = [
            interval("old", (8, 10), 192_000),
            removed(5, 10, interval("old", (10, 11), 192_000)),
            launched(5, interval("new", (10, 40), 96_000)),
            interval("other", (0, 40), 1_000_000),
        ];
        let saving = savings(&intervals)[0];
        assert_eq!((saving.number, saving.at, saving.removed, saving.launched), (5, at(10), 1, 1));
        // 24 × 0.192 and 24 × 0.096; 1 × 0.192 for the drain.
        assert_eq!((saving.predicted(), saving.realised()), (4_608_000 - 2_304_000, 4_608_000 - 2_304_000 - 192_000));
        assert!(!saving.is_overtaken);
    }

    fn bought_for(shares: &[(u64, u32)], interval: CostInterval) -> CostInterval {
        let moved = shares.iter().map(|(decision, ppm)| MovedShare { decision: *decision, ppm: *ppm }).collect();
        CostInterval { machine: CostedMachine { moved, ..interval.machine }, ..interval }
    }

    /// An m6i.xlarge of $0.192 is removed at once. Three hours later an m6i.large of $0.096 is bought, half of it for pods of
    /// the removed machine.
    #[test]
    fn what_is_bought_later_for_moved_pods_counts_by_their_share() {
        let intervals = [
            removed(5, 10, interval("old", (9, 10), 192_000)),
            bought_for(&[(5, 500_000), (4, 250_000)], launched(8, interval("later", (13, 20), 96_000))),
            // The day ends at 34.
            bought_for(&[(5, 500_000)], launched(8, interval("later", (20, 40), 96_000))),
        ];
        let saving = savings(&intervals)[0];
        assert_eq!((saving.number, saving.removed, saving.launched, saving.bought_later), (5, 1, 0, 1));
        // 24 × 0.192, of which 21 × 0.048 were spent.
        assert_eq!((saving.predicted(), saving.realised()), (4_608_000, 3_600_000));
        assert_eq!((saving.bought_later_cost, saving.is_overtaken), (1_008_000, false));
    }

    #[test]
    fn a_decision_whose_machine_ends_within_a_day_is_overtaken() {
        let old = removed(5, 10, interval("old", (9, 10), 192_000));
        let ends = |hour| {
            let new = launched(5, interval("new", (10, hour), 96_000));
            savings(&[old.clone(), removed(6, 20, new)])[0]
        };
        assert!(ends(33).is_overtaken);
        assert!(!ends(34).is_overtaken, "a day is over");
        assert_eq!(savings(&[old]).len(), 1);
        // The decision that ended it has savings of its own.
        let both = savings(&[removed(6, 20, launched(5, interval("new", (10, 30), 96_000)))]);
        assert_eq!(
            both.iter().map(|saving| (saving.number, saving.removed_cost)).collect::<Vec<_>>(),
            [(6, 2_304_000)]
        );
    }

    proptest! {
        /// A decision never saves more than what it removes would have cost.
        #[test]
        fn savings_never_exceed_the_cost(
            machines in proptest::collection::vec((1..5_000_000_i64, 0..30_i64, 1..40_i64, 0..3, 0..=1_000_000_u32), 1..10),
        ) {
            let intervals: Vec<CostInterval> = machines.iter().enumerate().map(|(index, (price, start, hours, role, ppm))| {
                let one = interval(&format!("m{index}"), (*start, start + hours), *price);
                match role {
                    0 => removed(1, 5, one),
                    1 => launched(1, one),
                    _ => bought_for(&[(1, *ppm)], launched(2, one)),
                }
            }).collect();
            for saving in savings(&intervals) {
                prop_assert!(saving.realised() <= saving.removed_cost);
                prop_assert!(saving.predicted() <= saving.removed_cost);
                prop_assert!((0..=saving.spent).contains(&saving.bought_later_cost));
            }
        }
    }
}
