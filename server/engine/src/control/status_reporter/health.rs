//! Whether the machines of a NodePool join (Karpenter: NodeRegistrationHealthy).

use std::collections::{BTreeMap, VecDeque};

use crate::cluster::PoolRecord;
use crate::control::status::{Condition, ConditionStatus};
use crate::model::Text;

/// Outcomes that are remembered for each pool.
const REMEMBERED: usize = 4;
/// Failures among them from which on a pool is unhealthy: half of what is remembered, however few there have been.
const UNHEALTHY: usize = REMEMBERED / 2;
const KIND: &str = "NodeRegistrationHealthy";

/// The last outcomes of each pool: whether a machine joined.
#[derive(Debug, Default)]
pub(in crate::control) struct Health {
    pools: BTreeMap<Text, Record>,
}

#[derive(Debug, Default)]
struct Record {
    revision: Text,
    joined: VecDeque<bool>,
}

impl Health {
    /// A machine of `pool` joined, or did not in time.
    pub(in crate::control) fn note(&mut self, pool: &PoolRecord, joined: bool) {
        let record = self.record(pool);
        record.joined.push_back(joined);
        if record.joined.len() > REMEMBERED {
            record.joined.pop_front();
        }
    }

    /// The record of `pool`; a pool that asks for something else than before begins anew. What an earlier process has written
    /// stands for what it saw.
    fn record(&mut self, pool: &PoolRecord) -> &mut Record {
        let record = self.pools.entry(pool.pool.name.clone()).or_insert_with(|| Record {
            revision: pool.revision.clone(),
            joined: if pool.pool.unhealthy { VecDeque::from([false; UNHEALTHY]) } else { VecDeque::new() },
        });
        if record.revision != pool.revision {
            *record = Record { revision: pool.revision.clone(), joined: VecDeque::new() };
        }
        record
    }

    /// The condition of `pool`.
    pub(in crate::control) fn condition(&mut self, pool: &PoolRecord) -> Condition {
        let generation = pool.meta.generation;
        let record = self.record(pool);
        let failures = record.joined.iter().filter(|joined| !**joined).count();
        match (record.joined.is_empty(), failures >= UNHEALTHY) {
            (true, _) => Condition::lacks(
                KIND,
                ConditionStatus::Unknown,
                "AwaitingReconciliation",
                "no machine was due yet",
                generation,
            ),
            (_, true) => {
                let message = format!("{failures} of the last {} machines did not join in time", record.joined.len());
                Condition::lacks(KIND, ConditionStatus::False, "RegistrationFailed", message, generation)
            }
            (_, false) => Condition::holds(KIND, generation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{pool, text};

    #[test]
    fn two_failures_among_the_last_four_are_unhealthy_and_a_change_begins_anew() {
        let mut health = Health::default();
        let pool = pool();
        let mut after = |joined: bool| {
            health.note(&pool, joined);
            health.condition(&pool).verdict
        };
        // f; f,t; f,t,f: two of three; t,f,t,t after two more: one of four.
        assert_eq!(
            [after(false), after(true), after(false)],
            [ConditionStatus::True, ConditionStatus::True, ConditionStatus::False]
        );
        assert_eq!([after(true), after(true)], [ConditionStatus::False, ConditionStatus::True]);
        let changed = PoolRecord { revision: text("2"), ..pool.clone() };
        assert_eq!(health.condition(&changed).verdict, ConditionStatus::Unknown);
    }

    #[test]
    fn what_an_earlier_process_wrote_is_believed() {
        let mut unhealthy = pool();
        unhealthy.pool.unhealthy = true;
        assert_eq!(Health::default().condition(&unhealthy).verdict, ConditionStatus::False);
    }
}
