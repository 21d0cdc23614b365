//! What the machines of a cluster have cost, machine by machine and cause by cause.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClaimName, MicroUsd, Timestamp};

use crate::{CostParts, charge, divide};

/// A machine as it is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMachine {
    /// Its NodeClaim.
    pub claim: ClaimName,
    /// Since when it is known to run; what it cost before is not charged.
    pub since: Timestamp,
    /// Price per hour.
    pub price: MicroUsd,
    /// What the price is spent on; its total is the price.
    pub parts: CostParts,
}

/// What machines have cost, from observations of all of them that follow each other. Between two observations a machine is used
/// as in the first of them, and a machine that is missing in the second ran until then: the sooner they follow, the nearer is
/// the sum to the bill.
#[derive(Debug, Clone, Default)]
pub struct CostLedger {
    running: BTreeMap<ClaimName, Meter>,
    spent: CostParts,
}

#[derive(Debug, Clone)]
struct Meter {
    since: Timestamp,
    /// Until when it is charged.
    until: Timestamp,
    price: MicroUsd,
    parts: CostParts,
}

impl Meter {
    /// Charges until `now`.
    fn advance(&mut self, now: Timestamp) -> CostParts {
        let now = now.max(self.until);
        let amount = charge(self.price, self.until.duration_since(self.since), now.duration_since(self.since));
        self.until = now;
        divide(amount, &self.parts)
    }
}

impl CostLedger {
    /// All machines at `now`.
    pub fn observe(&mut self, now: Timestamp, machines: impl IntoIterator<Item = ObservedMachine>) {
        let mut missing: BTreeSet<ClaimName> = self.running.keys().cloned().collect();
        for ObservedMachine { claim, since, price, parts } in machines {
            missing.remove(&claim);
            let new = || Meter { since: since.min(now), until: since.min(now), price, parts };
            let meter = self.running.entry(claim).or_insert_with(new);
            self.spent += meter.advance(now);
            if meter.price != price {
                // Sums of another price begin anew.
                *meter = Meter { since: now, until: now, price, parts };
            }
            meter.parts = parts;
        }
        for claim in missing {
            if let Some(mut ended) = self.running.remove(&claim) {
                self.spent += ended.advance(now);
            }
        }
    }

    /// What was spent until the last observation, in micro-dollars by cause. The causes add up to the charges of all machines.
    #[must_use]
    pub fn spent(&self) -> CostParts {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::CostCause;

    const HOUR_MS: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(hours * HOUR_MS)
    }

    fn machine(claim: &str, since: Timestamp, parts: &[(CostCause, i64)]) -> ObservedMachine {
        let mut sum = CostParts::default();
        parts.iter().for_each(|(cause, amount)| sum.add(*cause, *amount));
        ObservedMachine { claim: claim.into(), since, price: MicroUsd(sum.total()), parts: sum }
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
        /// The causes add up to what the machine costs in its whole life, at every observation.
        #[test]
        fn causes_add_up_to_the_charge_of_the_whole_life(
            price in 1..10_000_000_i64,
            steps in vec((0..5_000_000_i64, 0..=1_000_i64), 1..50),
        ) {
            let (mut ledger, mut now_ms) = (CostLedger::default(), 0);
            for (wait, permille) in steps {
                now_ms += wait;
                let useful = price * permille / 1_000;
                let parts = [(CostCause::Useful, useful), (CostCause::Unexplained, price - useful)];
                let now = Timestamp::from_millis(now_ms);
                ledger.observe(now, [machine("a", Timestamp::default(), &parts)]);
                let life = now.duration_since(Timestamp::default());
                prop_assert_eq!(ledger.spent().total(), charge(MicroUsd(price), model::Millis::ZERO, life));
            }
        }
    }
}
