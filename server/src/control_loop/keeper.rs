//! Renewing leases apart from the loop, on a thread and a runtime of its own: however long a step of the loop takes, and however
//! busy the other threads are, leases do not run out.
//!
//! What is held is noted in the [`Roster`] when a lease is granted and when it is given back, so that renewals need not ask
//! the loop. They end when the loop is stuck ([`Heartbeat`]): a process that decides nothing must not keep its clusters from
//! others. What a renewal brought (what was lost, who wants what) goes to the loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, warn};

use super::fence::Fence;
use super::heartbeat::Heartbeat;
use crate::store::Store;
use crate::store::lease::{Lease, Renewal};

/// Leases that the store is asked to renew at one time. Those run out together, and one row is written for all of them; what
/// the store cannot renew keeps no more than these from being renewed.
const RENEWED_AT_ONCE: usize = 2_000;

/// The leases of this process.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<BTreeMap<String, Lease>>);

impl Roster {
    /// A lease was granted.
    pub(crate) fn add(&self, lease: &Lease) {
        self.leases().insert(lease.scope.key(), lease.clone());
    }

    /// A lease was lost, or is given back. One of a later epoch stays.
    pub(crate) fn remove(&self, lease: &Lease) {
        let mut leases = self.leases();
        if leases.get(&lease.scope.key()) == Some(lease) {
            leases.remove(&lease.scope.key());
        }
    }

    /// All of them, and these: what the loop takes itself to hold is renewed too, so that it hears what was lost.
    fn with(&self, others: Vec<Lease>) -> Vec<Lease> {
        let held = self.leases();
        let more = others.into_iter().filter(|lease| held.get(&lease.scope.key()) != Some(lease));
        held.values().cloned().chain(more.collect::<Vec<_>>()).collect()
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<String, Lease>> {
        // Every change is one step, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What renewals are made with.
#[derive(Clone)]
pub(crate) struct Renewer {
    /// Where leases are.
    pub(crate) store: Arc<dyn Store>,
    /// Until when they may be acted on.
    pub(crate) fence: Arc<Fence>,
    /// Which.
    pub(crate) roster: Arc<Roster>,
    /// For how long.
    pub(crate) duration: Duration,
}

impl Renewer {
    /// Prolongs leases, few at a time, so that those that the store has answered for are good whatever becomes of the rest. A
    /// store that does not answer takes nothing away; the fence closes when a lease has run out.
    pub(crate) async fn renew(&self, leases: &[Lease]) -> Renewal {
        let mut all = Renewal::default();
        for some in leases.chunks(RENEWED_AT_ONCE) {
            let asked = self.fence.now();
            match self.store.renew_leases(some, self.duration).await {
                Ok(Renewal { lost, wanted }) => {
                    let held = some.iter().filter(|lease| !lost.contains(lease));
                    held.for_each(|lease| self.fence.extend(lease, asked, self.duration));
                    lost.iter().for_each(|lease| self.roster.remove(lease));
                    all.lost.extend(lost);
                    all.wanted.extend(wanted);
                }
                Err(error) => warn!(%error, leases = some.len(), "leases could not be renewed; trying again"),
            }
        }
        all
    }
}

/// Renews leases until it is dropped.
pub(super) struct Keeper {
    ask: mpsc::UnboundedSender<Vec<Lease>>,
    told: mpsc::UnboundedReceiver<Renewal>,
    _stop: DropGuard,
}

impl Keeper {
    /// A keeper that renews every `interval`, and when it is asked to.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(renewer: Renewer, interval: Duration, heartbeat: Arc<Heartbeat>) -> std::io::Result<Self> {
        let (ask, asked) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("leases".to_owned()).spawn(move || {
            let rounds = keep(renewer, interval, heartbeat, asked, tell);
            runtime.block_on(stopped.run_until_cancelled_owned(rounds));
        })?;
        Ok(Self { ask, told, _stop: stop.drop_guard() })
    }

    /// Has the leases renewed now, these among them. Answered by [`Keeper::next`].
    pub(super) fn ask(&self, leases: Vec<Lease>) {
        if self.ask.send(leases).is_err() {
            error!("the thread that renews leases has ended; they run out, and other replicas take the clusters over");
        }
    }

    /// What the next renewal brought.
    pub(super) async fn next(&mut self) -> Option<Renewal> {
        self.told.recv().await
    }
}

/// What is to be renewed now: whatever the loop asks for, which is answered whatever it is; else what is held, as long as the
/// loop has no fault.
fn due(roster: &Roster, by_loop: Option<Vec<Lease>>, fault: Option<String>) -> Option<Vec<Lease>> {
    if by_loop.is_some() {
        return by_loop.map(|leases| roster.with(leases));
    }
    let leases = roster.with(Vec::new());
    if leases.is_empty() {
        return None;
    }
    if let Some(why) = fault {
        error!(leases = leases.len(), why, "leases are not renewed: other replicas may take the clusters over");
        return None;
    }
    Some(leases)
}

async fn keep(
    renewer: Renewer,
    interval: Duration,
    heartbeat: Arc<Heartbeat>,
    mut asked: mpsc::UnboundedReceiver<Vec<Lease>>,
    tell: mpsc::UnboundedSender<Renewal>,
) {
    loop {
        let by_loop = tokio::select! {
            asked = asked.recv() => match asked {
                Some(leases) => Some(leases),
                None => return,
            },
            () = tokio::time::sleep(interval) => None,
        };
        let Some(leases) = due(&renewer.roster, by_loop, heartbeat.fault()) else { continue };
        let renewal = renewer.renew(&leases).await;
        if tell.send(renewal).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
