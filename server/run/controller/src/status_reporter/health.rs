//! Whether machines of a NodePool register in time (Karpenter: NodeRegistrationHealthy).

use std::collections::{BTreeMap, VecDeque};

use crate::status::{Condition, ConditionStatus};
use cluster::PoolRecord;
use model::{PoolName, Text};

/// Number of outcomes kept per NodePool.
const RECORDED_OUTCOMES: usize = 4;
/// Failures from which on a NodePool is unhealthy: half of the kept outcomes, however few there
/// have been.
const UNHEALTHY_FAILURES: usize = RECORDED_OUTCOMES / 2;
const KIND: &str = "NodeRegistrationHealthy";

/// The last registration outcomes of each NodePool.
#[derive(Debug, Default)]
pub(crate) struct RegistrationHealth {
    pools: BTreeMap<PoolName, Record>,
}

#[derive(Debug, Default)]
struct Record {
    revision: Text,
    joined: VecDeque<bool>,
}

impl RegistrationHealth {
    /// Records whether a machine of `pool` registered in time.
    pub(crate) fn record_outcome(&mut self, pool: &PoolRecord, joined: bool) {
        let record = self.record(pool);
        record.joined.push_back(joined);
        if record.joined.len() > RECORDED_OUTCOMES {
            record.joined.pop_front();
        }
    }

    /// The record of `pool`. A changed revision starts a new record. An unhealthy condition written
    /// by a previous process counts as its failures.
    fn record(&mut self, pool: &PoolRecord) -> &mut Record {
        let record = self.pools.entry(pool.pool.name.clone()).or_insert_with(|| Record {
            revision: pool.revision.clone(),
            joined: if pool.pool.unhealthy { VecDeque::from([false; UNHEALTHY_FAILURES]) } else { VecDeque::new() },
        });
        if record.revision != pool.revision {
            *record = Record { revision: pool.revision.clone(), joined: VecDeque::new() };
        }
        record
    }

    /// The condition `NodeRegistrationHealthy` of `pool`.
    pub(crate) fn condition(&mut self, pool: &PoolRecord) -> Condition {
        let generation = pool.meta.generation;
        let record = self.record(pool);
        let failures = record.joined.iter().filter(|joined| !**joined).count();
        match (record.joined.is_empty(), failures >= UNHEALTHY_FAILURES) {
            (true, _) => Condition::unmet(
                KIND,
                ConditionStatus::Unknown,
                "AwaitingReconciliation",
                "no registration was due yet",
                generation,
            ),
            (_, true) => {
                let message =
                    format!("{failures} of the last {} machines did not register in time", record.joined.len());
                Condition::unmet(KIND, ConditionStatus::False, "RegistrationFailed", message, generation)
            }
            (_, false) => Condition::met(KIND, generation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{pool, text};

    #[test]
    fn two_failures_among_the_last_four_are_unhealthy_and_a_new_revision_starts_over() {
        let mut health = RegistrationHealth::default();
        let pool = pool();
        let mut after = |joined: bool| {
            health.record_outcome(&pool, joined);
            health.condition(&pool).status
        };
        // f; f,t; f,t,f: two of three; t,f,t,t after two more: one of four.
        assert_eq!(
            [after(false), after(true), after(false)],
            [ConditionStatus::True, ConditionStatus::True, ConditionStatus::False]
        );
        assert_eq!([after(true), after(true)], [ConditionStatus::False, ConditionStatus::True]);
        let changed = PoolRecord { revision: text("2"), ..pool.clone() };
        assert_eq!(health.condition(&changed).status, ConditionStatus::Unknown);
    }

    #[test]
    fn an_unhealthy_condition_of_a_previous_process_counts() {
        let mut unhealthy = pool();
        unhealthy.pool.unhealthy = true;
        assert_eq!(RegistrationHealth::default().condition(&unhealthy).status, ConditionStatus::False);
    }
}
