//! Lease renewal on its own thread and runtime: leases do not expire however long a step of the
//! loop takes and however busy other threads are.
//!
//! [`HeldLeases`] is updated when a lease is granted or released, so renewal does not depend on the
//! loop. Renewal stops when the loop is stalled ([`Heartbeat`]): a process that makes no decisions
//! must not keep its clusters from other replicas. The result of a renewal (lost leases, requested
//! leases) is sent to the loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::error;

use super::heartbeat::Heartbeat;
use fleet_api::conditions::{Conditions, Dependency, Failure};
use replica::fence::Fence;
use store::lease::{Lease, Renewal};
use store::{Store, clock};

/// Leases renewed by one statement. They expire together and share one row; a failure affects no
/// more than these.
const LEASES_PER_RENEWAL: usize = 2_000;

#[derive(Debug, Default)]
pub struct HeldLeases(Mutex<BTreeMap<String, Lease>>);

impl HeldLeases {
    pub fn add(&self, lease: &Lease) {
        self.leases().insert(lease.scope.key(), lease.clone());
    }

    /// Removes a lost or released lease. A lease of a later epoch stays.
    pub fn remove(&self, lease: &Lease) {
        let mut leases = self.leases();
        if leases.get(&lease.scope.key()) == Some(lease) {
            leases.remove(&lease.scope.key());
        }
    }

    /// All held leases and `others`. The loop's leases are renewed too, so that the loop learns of
    /// those that were lost.
    fn union(&self, others: Vec<Lease>) -> Vec<Lease> {
        let held = self.leases();
        let more = others.into_iter().filter(|lease| held.get(&lease.scope.key()) != Some(lease));
        held.values().cloned().chain(more.collect::<Vec<_>>()).collect()
    }

    fn is_empty(&self) -> bool {
        self.leases().is_empty()
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<String, Lease>> {
        // Every critical section is one map operation, so a poisoned lock guards a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews leases in the store and extends the fence.
#[derive(Clone)]
pub(crate) struct LeaseRenewer {
    pub store: Arc<dyn Store>,
    pub fence: Arc<Fence>,
    pub held_leases: Arc<HeldLeases>,
    pub duration: Duration,
    pub conditions: Arc<Conditions>,
}

impl LeaseRenewer {
    /// Renews leases in chunks, so that a renewed chunk is valid whatever happens to the rest. A
    /// store failure drops no lease; the fence closes when a lease expires.
    pub async fn renew(&self, leases: &[Lease]) -> Renewal {
        let mut all = Renewal::default();
        for some in leases.chunks(LEASES_PER_RENEWAL) {
            let asked = self.fence.now();
            match self.store.renew_leases(some, self.duration).await {
                Ok(Renewal { lost, requested }) => {
                    let held = some.iter().filter(|lease| !lost.contains(lease));
                    held.for_each(|lease| self.fence.extend(lease, asked, self.duration));
                    lost.iter().for_each(|lease| self.held_leases.remove(lease));
                    all.lost.extend(lost);
                    all.requested.extend(requested);
                    self.report(Ok(()));
                }
                // Logged once, where it is reported.
                Err(error) => self.report(Err(Failure::no_answer(error.to_string()))),
            }
        }
        all
    }

    fn report(&self, renewed: Result<(), Failure>) {
        self.conditions.report(&Dependency::Leases, renewed, clock::now());
    }
}

/// Handle of the renewal thread; dropping it stops the thread.
pub(crate) struct LeaseRenewalThread {
    request_sender: mpsc::UnboundedSender<Vec<Lease>>,
    renewals: mpsc::UnboundedReceiver<Renewal>,
    _stop: DropGuard,
}

impl LeaseRenewalThread {
    /// Starts a thread that renews every `interval` and on request.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(renewer: LeaseRenewer, interval: Duration, heartbeat: Arc<Heartbeat>) -> std::io::Result<Self> {
        let (request_sender, requests) = mpsc::unbounded_channel();
        let (renewal_sender, renewals) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("leases".to_owned()).spawn(move || {
            let renewing = renew_periodically(renewer, interval, heartbeat, requests, renewal_sender);
            runtime.block_on(stopped.run_until_cancelled_owned(renewing));
        })?;
        Ok(Self { request_sender, renewals, _stop: stop.drop_guard() })
    }

    /// Requests a renewal now, including `leases`. [`LeaseRenewalThread::next`] returns its result.
    pub(crate) fn request_renewal(&self, leases: Vec<Lease>) {
        if self.request_sender.send(leases).is_err() {
            error!("lease renewal thread ended; leases expire and other replicas take over");
        }
    }

    /// The result of the next renewal.
    pub async fn next(&mut self) -> Option<Renewal> {
        self.renewals.recv().await
    }
}

/// The leases to renew now: on request all leases, because each request is answered; otherwise the
/// held leases unless the loop is stalled.
fn leases_due(
    held_leases: &HeldLeases,
    by_loop: Option<Vec<Lease>>,
    stall_reason: Option<String>,
) -> Option<Vec<Lease>> {
    if by_loop.is_some() {
        return by_loop.map(|leases| held_leases.union(leases));
    }
    let leases = held_leases.union(Vec::new());
    if leases.is_empty() {
        return None;
    }
    if let Some(why) = stall_reason {
        error!(leases = leases.len(), why, "skipping lease renewal: control loop stalled");
        return None;
    }
    Some(leases)
}

async fn renew_periodically(
    renewer: LeaseRenewer,
    interval: Duration,
    heartbeat: Arc<Heartbeat>,
    mut requests: mpsc::UnboundedReceiver<Vec<Lease>>,
    renewal_sender: mpsc::UnboundedSender<Renewal>,
) {
    loop {
        let by_loop = tokio::select! {
            asked = requests.recv() => match asked {
                Some(leases) => Some(leases),
                None => return,
            },
            () = tokio::time::sleep(interval) => None,
        };
        let Some(leases) = leases_due(&renewer.held_leases, by_loop, heartbeat.stall_reason()) else {
            if renewer.held_leases.is_empty() {
                renewer.report(Ok(()));
            }
            continue;
        };
        let renewal = renewer.renew(&leases).await;
        if renewal_sender.send(renewal).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
