//! The endpoint: an account, its faults and its call log behind a lock, on a port.

mod admin;
mod http;
mod incoming;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use model::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use self::http::Front;
use self::state::{Shared, State};
use crate::account::{Account, InstanceProfile};
use crate::call_log::{Call, CallLog, FleetProgress};
use crate::faults::switchboard::Switchboard;
use crate::faults::{FaultRule, Faults};
use crate::settings::AccountSettings;

/// Interval at which the time of the cloud advances while no call does it.
const TICK: Duration = Duration::from_millis(50);

/// A simulated EC2 account. Clones share it.
#[derive(Debug, Clone)]
pub struct SimulatedEc2 {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub struct Builder {
    settings: AccountSettings,
    cloud: Option<Arc<ClockedCloud>>,
    faults: Faults,
    fleets: Option<UnboundedSender<FleetProgress>>,
}

impl Builder {
    /// Uses `cloud` for instances, which another interface may serve as well. Without it, the endpoint has a cloud
    /// of its own on the system's clock, without faults.
    #[must_use]
    pub fn cloud(mut self, cloud: Arc<ClockedCloud>) -> Self {
        self.cloud = Some(cloud);
        self
    }

    /// Reports every executed CreateFleet to `fleets`, when it was executed and when it was answered.
    #[must_use]
    pub fn report_fleets(mut self, fleets: UnboundedSender<FleetProgress>) -> Self {
        self.fleets = Some(fleets);
        self
    }

    /// Begins with `faults`.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    #[must_use]
    pub fn build(self) -> SimulatedEc2 {
        let own = || Arc::new(ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), system_time));
        let state = State {
            account: Account::new(self.settings),
            switchboard: Switchboard::new(self.faults),
            log: CallLog::default(),
        };
        let cloud = self.cloud.unwrap_or_else(own);
        SimulatedEc2 { shared: Arc::new(Shared { cloud, state: Mutex::new(state), fleets: self.fleets }) }
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl SimulatedEc2 {
    /// An endpoint for an account that contains `settings`.
    #[must_use]
    pub fn builder(settings: AccountSettings) -> Builder {
        Builder { settings, cloud: None, faults: Faults::default(), fleets: None }
    }

    /// The cloud that has the instances: their states and the ledger.
    #[must_use]
    pub fn cloud(&self) -> &Arc<ClockedCloud> {
        &self.shared.cloud
    }

    /// The faults at present, with the capacity that is left.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.shared.state().switchboard.faults().clone()
    }

    pub fn change_faults(&self, change: impl FnOnce(&mut Faults)) {
        let mut state = self.shared.state();
        let mut faults = state.switchboard.faults().clone();
        change(&mut faults);
        state.switchboard.set(faults);
    }

    /// Adds a rule after those that there are.
    pub fn add_fault(&self, rule: FaultRule) {
        self.change_faults(|faults| faults.rules.push(rule));
    }

    /// Changes what the account contains: network, images, parameters, roles, clusters, reservations, prices. Launch
    /// templates and instance profiles are changed by calls only.
    pub fn change_account(&self, change: impl FnOnce(&mut AccountSettings)) {
        self.shared.state().account.change_settings(change);
    }

    /// Ends all sessions of roles: their credentials are not known any more.
    pub fn revoke_sessions(&self) {
        self.shared.state().account.revoke_sessions();
    }

    /// Instance profiles by name.
    #[must_use]
    pub fn instance_profiles(&self) -> BTreeMap<String, InstanceProfile> {
        self.shared.state().account.instance_profiles().clone()
    }

    /// All kept calls, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().log.after(0).cloned().collect()
    }

    /// The calls of one action, oldest first.
    #[must_use]
    pub fn calls_of(&self, action: &str) -> Vec<Call> {
        self.shared.state().log.after(0).filter(|call| call.action == action).cloned().collect()
    }

    /// Serves the account on `listener` until `stop`. There is no authentication: the listener should be on a
    /// loopback address.
    ///
    /// # Errors
    /// When a connection cannot be accepted.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) -> std::io::Result<()> {
        let mut connections = JoinSet::new();
        let mut ticks = tokio::time::interval(TICK);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    stream.set_nodelay(true)?;
                    let front = TowerToHyperService::new(Front::new(Arc::clone(&self.shared)));
                    connections.spawn(async move {
                        let builder = auto::Builder::new(TokioExecutor::new()).http1_only();
                        // An error is a connection that the client or a fault has closed.
                        let _closed = builder.serve_connection(TokioIo::new(stream), front).await;
                    });
                }
                Some(_) = connections.join_next() => {}
                _ = ticks.tick() => self.shared.advance(),
                () = &mut stop => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
