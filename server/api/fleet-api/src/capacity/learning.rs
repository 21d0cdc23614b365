//! Learns the odds of capacity and the times to ready from launches.
//!
//! Each replica writes the outcomes of its own launches to the store, and learns from what all replicas have written, in the
//! order of the store: all of them state the same odds, but for outcomes of the last seconds, and a restarted one states
//! what it did before. Outcomes that the store does not take are kept and written later. Times to ready are those of the
//! nodes of this process alone, and begin anew at a start: the replica that quotes a cluster is the one that saw its nodes.

use std::sync::Arc;
use std::time::Duration;

use controller::RegionState;
use controller::launch_evidence::LaunchEvidence;
use model::{CapacityType, Timestamp};
use odds::CapacityPool;
use store::outcomes::{KEPT, OUTCOMES_AT_ONCE, OutcomeRow, StoredOutcome};
use store::{Store, StoreError, clock};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::estimates::{Estimates, PoolOutcome};

/// Interval between two writes and reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Outcomes that wait for the store; of more, the oldest are dropped.
const MOST_UNWRITTEN: usize = 100_000;

/// An account and region, whose launches teach.
pub struct TaughtRegion {
    pub state: Arc<RegionState>,
    pub account: String,
}

/// Learns until `stop`.
///
/// # Errors
/// Never: a store that does not answer is asked again.
pub async fn run(
    store: Arc<dyn Store>,
    process: String,
    regions: Vec<TaughtRegion>,
    estimates: Arc<Estimates>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut due = tokio::time::interval(INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut learner = Learner::new(process, estimates);
    let mut is_failing = false;
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        let failed = learner.learn(&*store, &regions).await.err();
        if let Some(error) = failed.as_ref().filter(|_| !is_failing) {
            warn!(%error, "could not exchange outcomes of launches; odds are those of before");
        }
        is_failing = failed.is_some();
    }
    Ok(())
}

/// What one process has written and learned.
struct Learner {
    process: String,
    estimates: Arc<Estimates>,
    /// Number of outcomes of this process.
    sequence: u64,
    unwritten: Vec<OutcomeRow>,
    /// Number of the last outcome of the store that was learned.
    last: u64,
}

impl Learner {
    fn new(process: String, estimates: Arc<Estimates>) -> Self {
        Self { process, estimates, sequence: 0, unwritten: Vec::new(), last: 0 }
    }

    async fn learn(&mut self, store: &dyn Store, regions: &[TaughtRegion]) -> Result<(), StoreError> {
        for region in regions {
            self.estimates.record_ready(&region.state.take_ready_nodes());
            self.collect(&region.state.take_launch_outcomes(), &region.account);
        }
        if !self.unwritten.is_empty() {
            store.put_launch_outcomes(&self.unwritten).await?;
            self.unwritten.clear();
        }
        loop {
            let read = store.launch_outcomes(self.last, KEPT).await?;
            let now = clock::now();
            let outcomes: Vec<PoolOutcome> = read.iter().filter_map(|stored| outcome(stored, now)).collect();
            self.record(outcomes).await;
            self.last = read.last().map_or(self.last, |stored| stored.number);
            if read.len() < OUTCOMES_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Waits until no quote reads the odds, on a thread that may wait.
    async fn record(&self, outcomes: Vec<PoolOutcome>) {
        if outcomes.is_empty() {
            return;
        }
        let estimates = Arc::clone(&self.estimates);
        let recorded = tokio::task::spawn_blocking(move || estimates.record_outcomes(&outcomes)).await;
        if let Err(error) = recorded {
            warn!(%error, "cannot read launch outcomes; odds unchanged");
        }
    }

    fn collect(&mut self, evidence: &[LaunchEvidence], account: &str) {
        for outcome in evidence {
            self.sequence += 1;
            self.unwritten.push(row(outcome, account, &self.process, self.sequence));
        }
        let surplus = self.unwritten.len().saturating_sub(MOST_UNWRITTEN);
        self.unwritten.drain(..surplus);
    }
}

/// An outcome as a row. It holds for all accounts under the same conditions as quotes ask for it: the id of the zone is known,
/// and it is no reservation; and it is no quota of the account.
fn row(evidence: &LaunchEvidence, account: &str, process: &str, sequence: u64) -> OutcomeRow {
    let offering = &evidence.offering;
    let is_shared =
        !evidence.is_of_account && offering.zone_id.is_some() && offering.capacity_type != CapacityType::Reserved;
    let zone = offering.zone_id.as_ref().unwrap_or_else(|| offering.zone.as_text());
    OutcomeRow {
        process: process.to_owned(),
        sequence,
        account: (!is_shared).then(|| account.to_owned()),
        zone: zone.to_string(),
        instance_type: offering.instance_type.to_string(),
        capacity_type: offering.capacity_type.as_str().to_owned(),
        asked: evidence.asked,
        launched: evidence.launched,
    }
}

/// The outcome of a row; `None` for a capacity type that this program does not know.
fn outcome(stored: &StoredOutcome, now: Timestamp) -> Option<PoolOutcome> {
    let OutcomeRow { account, zone, instance_type, capacity_type, asked, launched, .. } = &stored.row;
    let known = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved];
    let capacity_type = known.into_iter().find(|known| known.as_str() == capacity_type)?;
    let pool = CapacityPool {
        zone: zone.as_str().into(),
        instance_type: instance_type.as_str().into(),
        capacity_type,
        account: account.as_deref().map(Into::into),
    };
    Some(PoolOutcome { pool, asked: *asked, launched: *launched, at: now - clock::millis(stored.age) })
}

#[cfg(test)]
mod tests {
    use controller::unavailable_offerings::Offering;
    use odds::Odds;
    use store::memory::MemoryStore;

    use super::*;

    fn evidence(zone_id: Option<&str>, launched: u32) -> LaunchEvidence {
        let offering = Offering {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            zone_id: zone_id.map(Into::into),
            capacity_type: CapacityType::Spot,
        };
        LaunchEvidence { offering, asked: 1, launched, is_of_account: false, at: clock::now() }
    }

    fn odds(estimates: &Estimates, account: Option<&str>, zone: &str) -> Odds {
        let pool = CapacityPool {
            zone: zone.into(),
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::Spot,
            account: account.map(Into::into),
        };
        estimates.odds().odds(&pool, 1, clock::now())
    }

    fn learner(process: &str) -> Learner {
        Learner::new(process.to_owned(), Arc::default())
    }

    #[tokio::test]
    async fn every_replica_learns_from_all_and_a_restarted_one_from_what_was() {
        let store = MemoryStore::new();
        let (mut one, mut two) = (learner("one/1"), learner("two/1"));
        one.collect(&[evidence(Some("use1-az1"), 0), evidence(Some("use1-az1"), 0)], "1234");
        one.learn(&store, &[]).await.expect("the store answers");
        two.collect(&[evidence(Some("use1-az1"), 1)], "5678");
        two.learn(&store, &[]).await.expect("the store answers");
        one.learn(&store, &[]).await.expect("the store answers");
        let mut again = learner("one/2");
        again.learn(&store, &[]).await.expect("the store answers");
        // Two refusals and a success, of any account.
        for learner in [&one, &two, &again] {
            let known = odds(&learner.estimates, None, "use1-az1");
            assert!((known.samples - 3.0).abs() < 0.05, "{known:?}");
            assert!(known.probability < 0.9, "{known:?}");
        }
        let nothing = odds(&learner("three/1").estimates, None, "use1-az1");
        assert!((nothing.probability - 0.95).abs() < 1e-9 && nothing.samples == 0.0, "{nothing:?}");
    }

    #[tokio::test]
    async fn a_zone_without_an_id_and_a_quota_say_something_about_the_account_alone() {
        let store = MemoryStore::new();
        let mut one = learner("one/1");
        let quota = LaunchEvidence { is_of_account: true, ..evidence(Some("use1-az1"), 0) };
        one.collect(&[evidence(None, 0), quota], "1234");
        one.learn(&store, &[]).await.expect("the store answers");
        let samples = |account, zone| odds(&one.estimates, account, zone).samples;
        assert!((samples(Some("1234"), "us-east-1a") - 1.0).abs() < 0.01);
        assert!((samples(Some("1234"), "use1-az1") - 1.0).abs() < 0.01);
        assert!(samples(Some("5678"), "us-east-1a") == 0.0 && samples(None, "use1-az1") == 0.0);
    }

    #[test]
    fn rows_of_an_unknown_capacity_type_are_left_out_and_times_are_those_of_the_store() {
        let row = row(&evidence(Some("use1-az1"), 1), "1234", "one/1", 7);
        let now = Timestamp::from_millis(100_000);
        let stored = StoredOutcome { number: 1, age: Duration::from_secs(30), row };
        assert_eq!(outcome(&stored, now).map(|outcome| outcome.at), Some(Timestamp::from_millis(70_000)));
        let other = OutcomeRow { capacity_type: "future".to_owned(), ..stored.row.clone() };
        assert_eq!(outcome(&StoredOutcome { row: other, ..stored }, now), None);
    }
}
