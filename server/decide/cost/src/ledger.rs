//! What the machines of a cluster have cost, machine by machine and cause by cause.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClaimName, Millis, Timestamp};

use crate::{CostInterval, CostParts, CostedMachine, charge, divide};

const HOUR: Millis = Millis::from_mins(60);

/// A gap in the observations that is charged as the interval before it; a longer one is unexplained. It covers the half hour
/// between two writes, and a restart.
const KNOWN_GAP: Millis = Millis::from_mins(45);

/// A longer time without an observation is not charged: what ran in it is not known, and a clock may be wrong.
const MAX_GAP: Millis = Millis::from_hours(31 * 24);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMachine {
    pub machine: CostedMachine,
    /// Since when it is known to run; what it cost before is not charged.
    pub since: Timestamp,
    /// What the price is spent on; its total is the price.
    pub parts: CostParts,
}

/// What machines have cost, from observations of all of them that follow each other. Between two observations a machine is used
/// as in the first of them, and a machine that is missing in the second ran until then: the sooner they follow, the nearer is
/// the sum to the bill.
///
/// Charges are collected in intervals that end with each hour (UTC), and with each change of the machine's price.
#[derive(Debug, Clone, Default)]
pub struct CostLedger {
    running: BTreeMap<ClaimName, Meter>,
    ended: Vec<CostInterval>,
    spent: CostParts,
}

#[derive(Debug, Clone)]
struct Meter {
    /// The machine is charged until its end.
    interval: CostInterval,
    /// What the machine is used for since then.
    parts: CostParts,
    /// When an observation is too late for that, because the machine is not observed since it was restored.
    known_until: Timestamp,
}

impl Meter {
    fn new(machine: CostedMachine, since: Timestamp, parts: CostParts) -> Self {
        Self { interval: CostInterval::begin(machine, since, since), parts, known_until: Timestamp::MAX }
    }

    fn restored(last: CostInterval) -> Self {
        let (parts, known_until) = (last.parts, last.end + KNOWN_GAP);
        let is_full = last.start < last.end && start_of_hour(last.end) == last.end;
        let interval = if is_full { last.next() } else { last };
        Self { interval, parts, known_until }
    }

    /// Charges until `now`, and returns what it charged. Intervals that are over go to `ended`.
    fn advance(&mut self, now: Timestamp, ended: &mut Vec<CostInterval>) -> CostParts {
        let parts = if now <= self.known_until { self.parts } else { CostParts::default() };
        let mut spent = CostParts::default();
        if now.duration_since(self.interval.end) > MAX_GAP {
            let next = CostInterval::begin(self.interval.machine.clone(), now, now);
            ended.push(std::mem::replace(&mut self.interval, next));
        }
        while self.interval.end < now {
            let hour_end = start_of_hour(self.interval.end) + HOUR;
            spent += self.interval.extend(hour_end.min(now), &parts);
            if self.interval.end == hour_end {
                let next = self.interval.next();
                ended.push(std::mem::replace(&mut self.interval, next));
            }
        }
        spent
    }

    fn observe(&mut self, machine: CostedMachine, parts: CostParts, ended: &mut Vec<CostInterval>) {
        let before = &self.interval.machine;
        // A successor does not know what an earlier owner decided.
        let machine = CostedMachine {
            launched_by: machine.launched_by.or(before.launched_by),
            removed_by: machine.removed_by.or(before.removed_by),
            moved: if machine.moved.is_empty() { before.moved.clone() } else { machine.moved },
            ..machine
        };
        if before.price == machine.price {
            self.interval.machine = machine;
        } else {
            // Sums of another price begin anew.
            let next = CostInterval::begin(machine, self.interval.end, self.interval.end);
            ended.push(std::mem::replace(&mut self.interval, next));
        }
        (self.parts, self.known_until) = (parts, Timestamp::MAX);
    }
}

impl CostInterval {
    fn begin(machine: CostedMachine, launched: Timestamp, at: Timestamp) -> Self {
        Self { machine, launched, start: at, end: at, parts: CostParts::default(), is_running: true }
    }

    fn next(&self) -> Self {
        Self::begin(self.machine.clone(), self.launched, self.end)
    }

    /// Charges until `end`, and returns what it charged.
    fn extend(&mut self, end: Timestamp, parts: &CostParts) -> CostParts {
        let since_launch = |at: Timestamp| at.duration_since(self.launched);
        let charged = charge(self.machine.price, since_launch(self.end), since_launch(end));
        let spent = divide(charged, parts);
        self.end = end;
        self.parts += spent;
        spent
    }
}

impl CostLedger {
    /// Continues the last intervals of machines that ran when they were written.
    pub fn restore(&mut self, last: impl IntoIterator<Item = CostInterval>) {
        self.running.extend(last.into_iter().map(|last| (last.machine.claim.clone(), Meter::restored(last))));
    }

    /// All machines at `now`.
    pub fn observe(&mut self, now: Timestamp, machines: impl IntoIterator<Item = ObservedMachine>) {
        let mut missing: BTreeSet<ClaimName> = self.running.keys().cloned().collect();
        for ObservedMachine { machine, since, parts } in machines {
            missing.remove(&machine.claim);
            let since = since.min(now);
            let new = || Meter::new(machine.clone(), since, parts);
            let meter = self.running.entry(machine.claim.clone()).or_insert_with(new);
            self.spent += meter.advance(now, &mut self.ended);
            meter.observe(machine, parts, &mut self.ended);
        }
        for claim in missing {
            if let Some(mut gone) = self.running.remove(&claim) {
                self.spent += gone.advance(now, &mut self.ended);
                self.ended.push(CostInterval { is_running: false, ..gone.interval });
            }
        }
    }

    /// Takes the intervals that are over since the last call.
    pub fn take_ended(&mut self) -> Vec<CostInterval> {
        self.ended.retain(|interval| !interval.is_running || interval.start < interval.end);
        std::mem::take(&mut self.ended)
    }

    /// Whether intervals of machines that are gone wait to be taken.
    #[must_use]
    pub fn has_gone_machines(&self) -> bool {
        self.ended.iter().any(|interval| !interval.is_running)
    }

    /// The intervals of machines that run, as far as they are charged.
    pub fn running(&self) -> impl Iterator<Item = &CostInterval> {
        self.running.values().map(|meter| &meter.interval).filter(|interval| interval.start < interval.end)
    }

    /// Whether no machine runs, and no interval waits to be taken.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }

    /// What was spent from the first observation to the last one, in micro-dollars by cause. The causes add up to the charges
    /// of all machines.
    #[must_use]
    pub fn spent(&self) -> CostParts {
        self.spent
    }
}

fn start_of_hour(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(HOUR.get()) * HOUR.get())
}

#[cfg(test)]
mod tests {
    use model::{CapacityType, MicroUsd};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::CostCause;

    const HOUR_MS: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(hours * HOUR_MS)
    }

    fn at_minute(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000)
    }

    fn machine(claim: &str, since: Timestamp, parts: &[(CostCause, i64)]) -> ObservedMachine {
        let mut sum = CostParts::default();
        parts.iter().for_each(|(cause, amount)| sum.add(*cause, *amount));
        let machine = CostedMachine {
            claim: claim.into(),
            pool: "default".into(),
            provider_id: format!("aws:///us-east-1a/i-{claim}").as_str().into(),
            instance_type: "m6i.xlarge".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            price: MicroUsd(sum.total()),
            launched_by: None,
            removed_by: None,
            moved: Vec::new(),
        };
        ObservedMachine { machine, since, parts: sum }
    }

    fn useful(claim: &str, price: i64) -> ObservedMachine {
        machine(claim, at(0), &[(CostCause::Useful, price)])
    }

    /// Claim, minutes of start and end, cost, and whether it runs on.
    fn brief<'i>(intervals: impl IntoIterator<Item = &'i CostInterval>) -> Vec<(String, i64, i64, i64, bool)> {
        let minutes = |at: Timestamp| at.as_millis() / 60_000;
        let of = |one: &CostInterval| {
            let claim = one.machine.claim.to_string();
            (claim, minutes(one.start), minutes(one.end), one.parts.total(), one.is_running)
        };
        intervals.into_iter().map(of).collect()
    }

    #[test]
    fn intervals_end_with_the_hour_and_with_the_machine() {
        let mut ledger = CostLedger::default();
        ledger.observe(at_minute(30), [useful("a", 600), useful("b", 60)]);
        assert_eq!(brief(&ledger.take_ended()), []);
        // Both are known since 0:00.
        assert_eq!(brief(ledger.running()), [("a".into(), 0, 30, 300, true), ("b".into(), 0, 30, 30, true)]);
        ledger.observe(at_minute(150), [useful("b", 60)]);
        let ended = ledger.take_ended();
        let expected = [
            ("b".into(), 0, 60, 60, true),
            ("b".into(), 60, 120, 60, true),
            ("a".into(), 0, 60, 600, true),
            ("a".into(), 60, 120, 600, true),
            ("a".into(), 120, 150, 300, false),
        ];
        assert_eq!(brief(&ended), expected);
        assert_eq!(brief(ledger.running()), [("b".into(), 120, 150, 30, true)]);
        assert_eq!(brief(&ledger.take_ended()), [], "taken once");
    }

    #[test]
    fn a_changed_price_begins_an_interval() {
        let mut ledger = CostLedger::default();
        ledger.observe(at_minute(0), [useful("a", 600)]);
        ledger.observe(at_minute(30), [useful("a", 1_200)]);
        ledger.observe(at_minute(40), [useful("a", 1_200)]);
        assert_eq!(brief(&ledger.take_ended()), [("a".into(), 0, 30, 300, true)]);
        assert_eq!(brief(ledger.running()), [("a".into(), 30, 40, 200, true)]);
    }

    #[test]
    fn a_successor_continues_the_last_intervals() {
        let mut ledger = CostLedger::default();
        let half = |claim| machine(claim, at(0), &[(CostCause::Useful, 300), (CostCause::Blocked, 300)]);
        ledger.observe(at_minute(0), [half("a"), half("b")]);
        ledger.observe(at_minute(50), [half("a"), half("b")]);
        let written: Vec<CostInterval> = ledger.running().cloned().collect();
        // Within three quarters of an hour, machines are used as before; "b" went in between.
        let mut successor = CostLedger::default();
        successor.restore(written.clone());
        successor.observe(at_minute(95), [half("a")]);
        let ended = successor.take_ended();
        let expected =
            [("a".into(), 0, 60, 600, true), ("b".into(), 0, 60, 600, true), ("b".into(), 60, 95, 350, false)];
        assert_eq!(brief(&ended), expected);
        assert!(ended.iter().all(|one| one.parts.get(CostCause::Useful) == one.parts.total() / 2), "{ended:?}");
        // After more than that it is not known what they were used for.
        let mut late = CostLedger::default();
        late.restore(written);
        late.observe(at_minute(96), [half("a"), half("b")]);
        let parts = late.take_ended()[0].parts;
        let all = [CostCause::Useful, CostCause::Blocked, CostCause::Unexplained].map(|cause| parts.get(cause));
        assert_eq!(all, [250, 250, 100]);
    }

    #[test]
    fn an_interval_that_was_written_at_the_hour_is_not_continued() {
        let mut ledger = CostLedger::default();
        ledger.observe(at_minute(0), [useful("a", 600)]);
        ledger.observe(at_minute(60), [useful("a", 600)]);
        let written = ledger.take_ended();
        assert_eq!(brief(ledger.running()), [], "the next one is empty");
        let mut successor = CostLedger::default();
        successor.restore(written);
        successor.observe(at_minute(70), [useful("a", 600)]);
        assert_eq!(brief(successor.running()), [("a".into(), 60, 70, 100, true)]);
    }

    #[test]
    fn a_month_without_an_observation_is_not_charged() {
        let mut ledger = CostLedger::default();
        ledger.observe(at(0), [useful("a", 600)]);
        ledger.observe(at(31 * 24 + 1), [useful("a", 600)]);
        assert_eq!(ledger.spent().total(), 0);
        ledger.observe(at(31 * 24 + 2), [useful("a", 600)]);
        assert_eq!(ledger.spent().total(), 600);
        ledger.observe(Timestamp::MAX, [useful("a", 600)]);
        assert_eq!(ledger.spent().total(), 600);
    }

    #[test]
    fn each_interval_is_spent_on_what_was_observed_at_its_beginning() {
        let mut ledger = CostLedger::default();
        let boots = |since| machine("a", since, &[(CostCause::Booting, 192_000)]);
        // Launched at 1:00, first seen at 2:00.
        ledger.observe(at(2), [boots(at(1))]);
        assert_eq!(ledger.spent(), CostParts::of(CostCause::Booting, 192_000));
        let half = [(CostCause::Useful, 96_000), (CostCause::DaemonSets, 9_600), (CostCause::Blocked, 86_400)];
        ledger.observe(at(3), [machine("a", at(1), &half), machine("b", at(3), &[(CostCause::Useful, 10_000)])]);
        assert_eq!(ledger.spent().get(CostCause::Booting), 384_000, "until it was seen in use");
        // It is gone at 5:00, and the other one costs more from then on.
        ledger.observe(at(5), [machine("b", at(3), &[(CostCause::NoSavings, 20_000)])]);
        ledger.observe(at(6), [machine("b", at(3), &[(CostCause::NoSavings, 20_000)])]);
        let expected = [
            (CostCause::Useful, 2 * 96_000 + 2 * 10_000),
            (CostCause::Booting, 384_000),
            (CostCause::DaemonSets, 19_200),
            (CostCause::Blocked, 172_800),
            (CostCause::NoSavings, 20_000),
        ];
        let spent: Vec<(CostCause, i64)> = ledger.spent().iter().filter(|(_, amount)| *amount != 0).collect();
        assert_eq!(spent, expected);
    }

    #[test]
    fn an_observation_from_the_past_charges_nothing() {
        let mut ledger = CostLedger::default();
        let of = || machine("a", at(0), &[(CostCause::Useful, 100)]);
        ledger.observe(at(2), [of()]);
        ledger.observe(at(1), [of()]);
        ledger.observe(at(2), [of()]);
        assert_eq!(ledger.spent().total(), 200);
    }

    proptest! {
        /// The causes add up to what the machine costs in its whole life, at every observation, and so do the intervals, which
        /// follow each other without a gap.
        #[test]
        fn causes_add_up_to_the_charge_of_the_whole_life(
            price in 1..10_000_000_i64,
            steps in vec((0..5_000_000_i64, 0..=1_000_i64), 1..50),
        ) {
            let (mut ledger, mut now_ms, mut until, mut ended) = (CostLedger::default(), 0, Timestamp::default(), 0);
            for (wait, permille) in steps {
                now_ms += wait;
                let useful = price * permille / 1_000;
                let parts = [(CostCause::Useful, useful), (CostCause::Unexplained, price - useful)];
                let now = Timestamp::from_millis(now_ms);
                ledger.observe(now, [machine("a", Timestamp::default(), &parts)]);
                let life = now.duration_since(Timestamp::default());
                prop_assert_eq!(ledger.spent().total(), charge(MicroUsd(price), Millis::ZERO, life));
                for interval in ledger.take_ended() {
                    prop_assert_eq!(interval.start, until);
                    prop_assert_eq!(start_of_hour(interval.start), start_of_hour(interval.end - Millis::new(1)));
                    until = interval.end;
                    ended += interval.parts.total();
                }
                let running: i64 = ledger.running().map(|interval| interval.parts.total()).sum();
                prop_assert_eq!(ended + running, ledger.spent().total());
            }
        }
    }
}
