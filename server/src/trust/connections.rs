//! How many connections of a listener may be open before their peers have shown who they are, and for how long.
//!
//! A connection begins *silent*, becomes *known* when it has asked something that anybody may ask, and is *admitted* while its
//! peer speaks for a cluster or has passed the gate as a client. Admitted connections have places of their own, which no
//! stranger can take. Strangers share the other places: a new connection is always accepted, and when there are too many, the
//! oldest stranger of the address that holds the most is closed. So neither an honest agent nor a probe waits for a place that
//! a silent peer holds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Connections whose peers have not shown who they are.
    pub(crate) strangers: usize,
    /// Of these, from one address.
    pub(crate) strangers_per_address: usize,
    /// Connections whose peers have.
    pub(crate) admitted: usize,
    /// A handshake that takes longer is given up.
    pub(crate) handshake: Duration,
    /// A connection that has asked nothing for so long is closed: handshake and first request together.
    pub(crate) silence: Duration,
}

/// Strangers of one listener, where file descriptors allow for so many.
const STRANGERS: usize = 1_024;
/// Admitted connections of one listener, where file descriptors allow for so many: every cluster that a server may know, and
/// clients beside them.
const ADMITTED: usize = 16_384;
/// A handshake over a slow line takes a second or two.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An agent says Hello at once after its handshake.
const SILENCE: Duration = Duration::from_secs(20);

impl ConnectionLimits {
    /// Limits for the listener that agents connect to, in a process that may open so many files: eleven sixteenths of them are
    /// for agents and clients, one is for strangers.
    fn agents(files: usize) -> Self {
        Self::shared(files, files / 16 * 11)
    }

    /// The same for the listener of pages: one sixteenth each. An eighth of all is left for everything else.
    fn pages(files: usize) -> Self {
        Self::shared(files, files / 16)
    }

    fn shared(files: usize, admitted: usize) -> Self {
        let strangers = (files / 16).clamp(16, STRANGERS);
        Self {
            strangers,
            strangers_per_address: strangers / 2,
            admitted: admitted.clamp(16, ADMITTED),
            handshake: HANDSHAKE,
            silence: SILENCE,
        }
    }

    /// Limits for the two listeners, agents' and pages', by what this process may open.
    pub(crate) fn of_this_process() -> [Self; 2] {
        let files = files(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default());
        [Self::agents(files), Self::pages(files)]
    }
}

/// The soft limit of open files, from the system's table; the customary 1,024 where it says none.
fn files(limits: &str) -> usize {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    if soft == "unlimited" { usize::MAX / 8 } else { soft.parse().unwrap_or(1_024) }
}

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Strangers by age: the oldest has the smallest number.
    strangers: BTreeMap<u64, Stranger>,
    per_address: BTreeMap<IpAddr, usize>,
    admitted: usize,
    next: u64,
}

#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    since: Instant,
    silent: bool,
    end: CancellationToken,
}

/// A connection's place. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
    end: CancellationToken,
    standing: Mutex<Standing>,
}

#[derive(Debug, Clone, Copy)]
struct Standing {
    /// The number among strangers; `None` while admitted.
    stranger: Option<u64>,
    /// Open streams of agents, of which a connection carries one.
    agents: usize,
    client: bool,
}

/// An agent's stream on a connection; when it ends, the connection is a stranger's again.
#[derive(Debug)]
pub(crate) struct AgentStream(Arc<Place>);

impl Connections {
    /// None yet.
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// A place for a connection from `address`. The oldest strangers give way.
    pub(crate) fn open(self: &Arc<Self>, address: IpAddr, now: Instant) -> Arc<Place> {
        let end = CancellationToken::new();
        let mut state = self.state();
        let number = state.add(address, now, end.clone(), true);
        state.make_room(self.limits, address);
        drop(state);
        let standing = Mutex::new(Standing { stranger: Some(number), agents: 0, client: false });
        Arc::new(Place { connections: Arc::clone(self), address, end, standing })
    }

    /// Closes the oldest stranger of the address that holds the most, because no file descriptor is left. Says whether there
    /// was one.
    pub(crate) fn shed(&self) -> bool {
        self.state().close_oldest(None)
    }

    /// Closes those that have asked nothing for too long.
    pub(crate) fn close_silent(&self, now: Instant) {
        let silence = self.limits.silence;
        let over = |stranger: &Stranger| stranger.silent && now.duration_since(stranger.since) >= silence;
        self.state().strangers.values().filter(|stranger| over(stranger)).for_each(|stranger| stranger.end.cancel());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, address: IpAddr, since: Instant, end: CancellationToken, silent: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        self.strangers.insert(number, Stranger { address, since, silent, end });
        *self.per_address.entry(address).or_default() += 1;
        number
    }

    fn remove(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&number)?;
        if let Some(count) = self.per_address.get_mut(&stranger.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&stranger.address);
            }
        }
        Some(stranger)
    }

    fn make_room(&mut self, limits: ConnectionLimits, newest: IpAddr) {
        if self.per_address.get(&newest).is_some_and(|count| *count > limits.strangers_per_address) {
            self.close_oldest(Some(newest));
        }
        if self.strangers.len() > limits.strangers {
            self.close_oldest(None);
        }
    }

    /// Closes the oldest of `address`, or of the address that holds the most.
    fn close_oldest(&mut self, address: Option<IpAddr>) -> bool {
        let most = || self.per_address.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address);
        let Some(address) = address.or_else(most) else { return false };
        let oldest = self.strangers.iter().find(|(_, stranger)| stranger.address == address).map(|(number, _)| *number);
        let Some(closed) = oldest.and_then(|number| self.remove(number)) else { return false };
        closed.end.cancel();
        true
    }
}

impl Place {
    /// Completes when the connection has to be closed.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.end.clone()
    }

    /// The peer has asked something that anybody may ask: it is no longer silent.
    pub(crate) fn known(&self) {
        let standing = self.standing();
        if let Some(number) = standing.stranger
            && let Some(stranger) = self.connections.state().strangers.get_mut(&number)
        {
            stranger.silent = false;
        }
    }

    /// The peer has passed the gate as a client. Says whether there was a place for it.
    pub(crate) fn admit_client(&self) -> bool {
        let mut standing = self.standing();
        let admitted = self.admit(&mut standing);
        standing.client |= admitted;
        admitted
    }

    /// A stream on which somebody wants to speak for a cluster; a connection carries one at a time.
    pub(crate) fn begin_agent(self: &Arc<Self>) -> Option<AgentStream> {
        let mut standing = self.standing();
        if standing.agents > 0 {
            return None;
        }
        standing.agents += 1;
        Some(AgentStream(Arc::clone(self)))
    }

    fn admit(&self, standing: &mut Standing) -> bool {
        let Some(number) = standing.stranger else { return true };
        let mut state = self.connections.state();
        if state.admitted >= self.connections.limits.admitted || self.end.is_cancelled() {
            return false;
        }
        state.remove(number);
        state.admitted += 1;
        standing.stranger = None;
        true
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentStream {
    /// The peer speaks for a cluster. Says whether there was a place for it.
    pub(crate) fn admit(&self) -> bool {
        let mut standing = self.0.standing();
        self.0.admit(&mut standing)
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        let place = &self.0;
        let mut standing = place.standing();
        standing.agents -= 1;
        if standing.stranger.is_none() && !standing.client {
            let mut state = place.connections.state();
            state.admitted -= 1;
            standing.stranger = Some(state.add(place.address, Instant::now(), place.end.clone(), false));
            state.make_room(place.connections.limits, place.address);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let standing = *self.standing();
        let mut state = self.connections.state();
        match standing.stranger {
            Some(number) => drop(state.remove(number)),
            None => state.admitted -= 1,
        }
    }
}

#[cfg(test)]
mod tests;
