//! Limits the connections of a listener whose peers are not authenticated.
//!
//! A connection starts *idle*, becomes *active* with its first public request, and is *admitted*
//! while its peer is authorized as agent or client. Admitted connections have slots of their own, of which each client has a
//! share, and the last ones are kept for clients that operate the fleet.
//! Unauthenticated connections share the remaining slots: a new connection is always accepted, and
//! above the limit the oldest one of the address with the most connections is evicted. So an idle
//! peer blocks neither an agent nor a health probe.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub unauthenticated: usize,
    /// Maximum unauthenticated connections from one address.
    pub unauthenticated_per_address: usize,
    pub admitted: usize,
    /// Maximum admitted connections of one client.
    pub admitted_per_client: usize,
    /// Admitted connections that only agents and clients of scope `operate` get.
    pub reserved: usize,
    pub handshake: Duration,
    /// Maximum time until the first request, including the handshake.
    pub silence: Duration,
}

/// Maximum unauthenticated connections of one listener, if the file descriptor limit allows it.
const UNAUTHENTICATED: usize = 1_024;
/// Maximum admitted connections of one listener, if the file descriptor limit allows it: every
/// cluster of a server, and clients.
const ADMITTED: usize = 16_384;
/// A handshake over a slow line takes a second or two.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An agent sends Hello directly after its handshake.
const SILENCE: Duration = Duration::from_secs(20);

impl ConnectionLimits {
    /// Limits of the gRPC listener for a given file descriptor limit: eleven sixteenths for
    /// admitted connections, one for unauthenticated ones.
    fn grpc(files: usize) -> Self {
        Self::shared(files, files / 16 * 11)
    }

    /// Limits of the HTTP listener: one sixteenth each. An eighth of all file descriptors remains
    /// for everything else.
    fn http(files: usize) -> Self {
        Self::shared(files, files / 16)
    }

    fn shared(files: usize, admitted: usize) -> Self {
        let unauthenticated = (files / 16).clamp(16, UNAUTHENTICATED);
        let admitted = admitted.clamp(16, ADMITTED);
        Self {
            unauthenticated,
            unauthenticated_per_address: unauthenticated / 2,
            admitted,
            // A browser opens six.
            admitted_per_client: (admitted / 4).max(8),
            reserved: admitted / 8,
            handshake: HANDSHAKE,
            silence: SILENCE,
        }
    }

    /// Limits of the gRPC and HTTP listeners, from the file descriptor limit of this process.
    pub fn of_this_process() -> [Self; 2] {
        let files = files(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default());
        [Self::grpc(files), Self::http(files)]
    }
}

/// Soft limit of open files in `/proc/self/limits`; the usual 1,024 if absent.
fn files(limits: &str) -> usize {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    if soft == "unlimited" { usize::MAX / 8 } else { soft.parse().unwrap_or(1_024) }
}

#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By age: the oldest has the smallest number.
    unauthenticated: BTreeMap<u64, UnauthenticatedConnection>,
    per_address: BTreeMap<IpAddr, usize>,
    admitted: usize,
    /// Admitted connections of clients, by name.
    per_client: BTreeMap<Arc<str>, usize>,
    next: u64,
}

#[derive(Debug)]
struct UnauthenticatedConnection {
    address: IpAddr,
    since: Instant,
    silent: bool,
    end: CancellationToken,
}

/// Slot of a connection; released on drop.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    address: IpAddr,
    end: CancellationToken,
    slot_state: Mutex<SlotState>,
}

#[derive(Debug, Clone)]
struct SlotState {
    /// Number among the unauthenticated connections; `None` while admitted.
    unauthenticated: Option<u64>,
    /// Open agent streams; a connection carries one.
    agents: usize,
    /// Whose share it counts against, once a client was admitted.
    client: Option<Option<Arc<str>>>,
}

/// A client that asks for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'n> {
    /// Its name; `None` for one without a share: another replica, and everybody without authentication.
    pub(crate) name: Option<&'n str>,
    /// Whether it may have the slots that are kept for those who operate the fleet.
    pub(crate) operates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// All are in use, but for those that are reserved for others.
    Full,
    /// The client has this many connections, its share.
    Share(usize),
}

/// Slot of an agent's stream; when it is dropped, the connection is unauthenticated again.
#[derive(Debug)]
pub struct AgentStreamSlot(Arc<ConnectionSlot>);

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Registers a connection from `address`. Above the limits the oldest unauthenticated ones are
    /// evicted.
    pub fn open(self: &Arc<Self>, address: IpAddr, now: Instant) -> Arc<ConnectionSlot> {
        let end = CancellationToken::new();
        let mut state = self.state();
        let number = state.add(address, now, end.clone(), true);
        state.evict_excess(self.limits, address);
        drop(state);
        let slot_state = Mutex::new(SlotState { unauthenticated: Some(number), agents: 0, client: None });
        Arc::new(ConnectionSlot { connections: Arc::clone(self), address, end, slot_state })
    }

    /// Evicts the oldest unauthenticated connection of the address with the most, to free a file
    /// descriptor. Returns whether there was one.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.state().close_oldest(None)
    }

    /// Closes connections without a request for too long.
    pub(crate) fn close_idle(&self, now: Instant) {
        let silence = self.limits.silence;
        let over = |entry: &UnauthenticatedConnection| entry.silent && now.duration_since(entry.since) >= silence;
        self.state().unauthenticated.values().filter(|entry| over(entry)).for_each(|entry| entry.end.cancel());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change can panic halfway, so a poisoned lock still guards a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, address: IpAddr, since: Instant, end: CancellationToken, silent: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        self.unauthenticated.insert(number, UnauthenticatedConnection { address, since, silent, end });
        *self.per_address.entry(address).or_default() += 1;
        number
    }

    fn remove(&mut self, number: u64) -> Option<UnauthenticatedConnection> {
        let entry = self.unauthenticated.remove(&number)?;
        if let Some(count) = self.per_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&entry.address);
            }
        }
        Some(entry)
    }

    fn evict_excess(&mut self, limits: ConnectionLimits, newest: IpAddr) {
        if self.per_address.get(&newest).is_some_and(|count| *count > limits.unauthenticated_per_address) {
            self.close_oldest(Some(newest));
        }
        if self.unauthenticated.len() > limits.unauthenticated {
            self.close_oldest(None);
        }
    }

    /// Closes the oldest connection of `address`, or of the address with the most.
    fn close_oldest(&mut self, address: Option<IpAddr>) -> bool {
        let most = || self.per_address.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address);
        let Some(address) = address.or_else(most) else { return false };
        let oldest = self.unauthenticated.iter().find(|(_, entry)| entry.address == address).map(|(number, _)| *number);
        let Some(closed) = oldest.and_then(|number| self.remove(number)) else { return false };
        closed.end.cancel();
        true
    }
}

impl ConnectionSlot {
    /// Cancelled when the connection has to be closed.
    pub fn ended(&self) -> CancellationToken {
        self.end.clone()
    }

    /// Records a public request: the connection is no longer idle.
    pub(crate) fn mark_active(&self) {
        let slot_state = self.slot_state();
        if let Some(number) = slot_state.unauthenticated
            && let Some(entry) = self.connections.state().unauthenticated.get_mut(&number)
        {
            entry.silent = false;
        }
    }

    /// Admits the peer as client.
    ///
    /// # Errors
    /// No slot is free for it.
    pub(crate) fn admit_client(&self, claimant: Claimant<'_>) -> Result<(), NoSlot> {
        let mut slot_state = self.slot_state();
        if slot_state.client.is_some() {
            return Ok(());
        }
        let mut state = self.connections.state();
        if slot_state.unauthenticated.is_some() && !self.has_room(&state, claimant.operates) {
            return Err(NoSlot::Full);
        }
        let name: Option<Arc<str>> = claimant.name.map(Arc::from);
        if let Some(name) = &name {
            let held = state.per_client.get(name).copied().unwrap_or(0);
            if held >= self.connections.limits.admitted_per_client {
                return Err(NoSlot::Share(held));
            }
            state.per_client.insert(Arc::clone(name), held + 1);
        }
        Self::take(&mut state, &mut slot_state);
        slot_state.client = Some(name);
        Ok(())
    }

    /// Reserves the slot of an agent stream; a connection carries one at a time.
    pub(crate) fn open_agent_stream(self: &Arc<Self>) -> Option<AgentStreamSlot> {
        let mut slot_state = self.slot_state();
        if slot_state.agents > 0 {
            return None;
        }
        slot_state.agents += 1;
        Some(AgentStreamSlot(Arc::clone(self)))
    }

    fn admit(&self, slot_state: &mut SlotState) -> bool {
        let mut state = self.connections.state();
        let is_admitted = slot_state.unauthenticated.is_none() || self.has_room(&state, true);
        if is_admitted {
            Self::take(&mut state, slot_state);
        }
        is_admitted
    }

    /// Whether there is a slot for another connection.
    fn has_room(&self, state: &State, operates: bool) -> bool {
        let limits = self.connections.limits;
        let open = limits.admitted.saturating_sub(if operates { 0 } else { limits.reserved });
        state.admitted < open && !self.end.is_cancelled()
    }

    /// Takes a slot, unless the connection has one.
    fn take(state: &mut State, slot_state: &mut SlotState) {
        if let Some(number) = slot_state.unauthenticated.take() {
            state.remove(number);
            state.admitted += 1;
        }
    }

    fn slot_state(&self) -> MutexGuard<'_, SlotState> {
        self.slot_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentStreamSlot {
    /// Admits the peer as agent. Returns whether a slot was free.
    pub fn admit(&self) -> bool {
        let mut slot_state = self.0.slot_state();
        self.0.admit(&mut slot_state)
    }
}

impl Drop for AgentStreamSlot {
    fn drop(&mut self) {
        let slot = &self.0;
        let mut slot_state = slot.slot_state();
        slot_state.agents -= 1;
        if slot_state.unauthenticated.is_none() && slot_state.client.is_none() {
            let mut state = slot.connections.state();
            state.admitted -= 1;
            slot_state.unauthenticated = Some(state.add(slot.address, Instant::now(), slot.end.clone(), false));
            state.evict_excess(slot.connections.limits, slot.address);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let slot_state = self.slot_state().clone();
        let mut state = self.connections.state();
        if let Some(Some(name)) = &slot_state.client
            && let Some(count) = state.per_client.get_mut(name)
        {
            *count -= 1;
            if *count == 0 {
                state.per_client.remove(name);
            }
        }
        match slot_state.unauthenticated {
            Some(number) => drop(state.remove(number)),
            None => state.admitted -= 1,
        }
    }
}

#[cfg(test)]
mod tests;
