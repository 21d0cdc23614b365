//! What is estimated of launches to come: the odds of capacity, and the time to ready.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use controller::launch_evidence::ReadyNode;
use model::Timestamp;
use odds::{CapacityOdds, CapacityPool};
use quote::ReadyTimes;

/// The estimates. One task changes them; threads that quote read them.
#[derive(Debug, Default)]
pub struct Estimates {
    odds: RwLock<CapacityOdds>,
    ready: Mutex<Arc<ReadyTimes>>,
}

/// What became of a launch in one capacity pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolOutcome {
    pub pool: CapacityPool,
    pub asked: u32,
    pub launched: u32,
    pub at: Timestamp,
}

impl Estimates {
    /// The odds of capacity, which do not change meanwhile.
    pub fn odds(&self) -> RwLockReadGuard<'_, CapacityOdds> {
        // A record that panicked leaves a usable estimator.
        self.odds.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The times to ready as they are now.
    pub(crate) fn ready_times(&self) -> Arc<ReadyTimes> {
        Arc::clone(&self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records outcomes of launches, in this order.
    pub(crate) fn record_outcomes(&self, outcomes: &[PoolOutcome]) {
        let mut odds = self.odds.write().unwrap_or_else(PoisonError::into_inner);
        for PoolOutcome { pool, asked, launched, at } in outcomes {
            odds.record(pool, *asked, *launched, *at);
        }
    }

    pub(crate) fn record_ready(&self, nodes: &[ReadyNode]) {
        if nodes.is_empty() {
            return;
        }
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let times = Arc::make_mut(&mut ready);
        nodes.iter().for_each(|node| times.record(&node.instance_type, node.capacity_type, node.took));
    }
}
