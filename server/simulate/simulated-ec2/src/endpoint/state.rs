//! What an endpoint shares between its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud::simulated::{ClockedCloud, SimulatedCloud};
use model::Timestamp;
use tokio::sync::mpsc::UnboundedSender;

use crate::account::Account;
use crate::call_log::{CallLog, FleetProgress};
use crate::faults::switchboard::Switchboard;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cloud: Arc<ClockedCloud>,
    pub(super) state: Mutex<State>,
    pub(super) fleets: Option<UnboundedSender<FleetProgress>>,
}

/// What calls change. Its lock is taken before that of the cloud.
#[derive(Debug)]
pub(super) struct State {
    pub(super) account: Account,
    pub(super) switchboard: Switchboard,
    pub(super) log: CallLog,
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned lock holds valid data.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changes of the cloud that are due.
    pub(super) fn advance(&self) {
        let mut state = self.state();
        let (now, mut cloud) = (self.cloud.now(), self.cloud.cloud());
        state.follow(&mut cloud, now);
    }
}

impl State {
    pub(super) fn follow(&mut self, cloud: &mut SimulatedCloud, now: Timestamp) {
        // Other interfaces of the cloud read the events from its journal, as this one does.
        cloud.tick(now);
        self.account.follow(cloud, &mut self.switchboard, now);
    }
}
