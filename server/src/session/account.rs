//! How much one agent makes the server remember, in bytes, and all agents together.
//!
//! What is counted is an estimate of what a change takes once it is decoded, on the high side: a label set takes several
//! times its size on the wire, a NodePool is kept as it came and as it was read. Definitions are counted for as long as their
//! decoder lives; objects until they are gone.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;

use super::decode::Fault;

mod weight;

use weight::Weight;

/// `session.memory`: 300,000 pods with their nodes, by the estimate.
pub(crate) const SESSION_BYTES: u64 = 256 << 20;

/// What all sessions of a server remember. Cloning it costs a counter.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    per_session: u64,
    total: u64,
    held: AtomicU64,
    accounts: AtomicU64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new(SESSION_BYTES, u64::MAX)
    }
}

impl Ledger {
    /// With at most `per_session` bytes for one session, and `total` for all. Beyond the total a session still has its even
    /// share, so that one that takes everything shuts nobody out: all together stay below twice the total.
    #[must_use]
    pub fn new(per_session: u64, total: u64) -> Self {
        Self(Arc::new(Shared { per_session, total, held: AtomicU64::new(0), accounts: AtomicU64::new(0) }))
    }

    /// An account with nothing in it.
    pub(super) fn account(&self) -> Account {
        self.0.accounts.fetch_add(1, Ordering::Relaxed);
        Account { ledger: self.clone(), hasher: RandomState::new(), objects: HashMap::new(), object_bytes: 0, held: 0 }
    }

    /// Bytes that all sessions remember.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64, of_one: u64) -> Result<(), Fault> {
        let Shared { per_session, total, held, accounts } = &*self.0;
        if of_one > *per_session {
            return Err(Fault::Memory {
                whose: "this cluster's objects take",
                held: of_one,
                key: "session.memory",
                limit: *per_session,
            });
        }
        let all = held.load(Ordering::Relaxed).saturating_add(bytes);
        let share = total / accounts.load(Ordering::Relaxed).max(1);
        if all > *total && of_one > share {
            return Err(Fault::Memory {
                whose: "the objects of all clusters of this server take",
                held: all,
                key: "session.memory-total",
                limit: *total,
            });
        }
        held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// What one decoder remembers. What it holds of the ledger is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Account {
    ledger: Ledger,
    /// Keys are hashed with a secret of this account, so that nobody can make two of them meet.
    hasher: RandomState,
    /// What each object takes, by the hash of its kind, namespace and name.
    objects: HashMap<u64, u32>,
    object_bytes: u64,
    /// Objects and definitions.
    held: u64,
}

/// Objects that are believed without a decoder: what a stream that has ended left behind.
#[derive(Debug)]
pub(super) struct Kept {
    ledger: Ledger,
    bytes: u64,
}

impl Account {
    /// Takes `change` into account.
    ///
    /// # Errors
    /// [`Fault::Memory`] when it is too much; nothing of it is counted then.
    pub(super) fn count(&mut self, change: &Change) -> Result<(), Fault> {
        match weight::of(change) {
            Weight::Nothing => Ok(()),
            Weight::Definition(bytes) => self.take(bytes),
            Weight::Object { kind, namespace, name, bytes } => {
                let key = self.key(kind, namespace, name);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                let before = self.objects.remove(&key).unwrap_or(0);
                self.give_back(before);
                self.take(u64::from(bytes))?;
                self.object_bytes += u64::from(bytes);
                self.objects.insert(key, bytes);
                Ok(())
            }
            Weight::Gone { kind, namespace, name } => {
                let key = self.key(kind, namespace, name);
                let before = self.objects.remove(&key).unwrap_or(0);
                self.give_back(before);
                Ok(())
            }
        }
    }

    /// What goes on to be believed when the decoder goes.
    pub(super) fn kept(&self) -> Kept {
        self.ledger.0.held.fetch_add(self.object_bytes, Ordering::Relaxed);
        Kept { ledger: self.ledger.clone(), bytes: self.object_bytes }
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.ledger.take(bytes, self.held.saturating_add(bytes))?;
        self.held += bytes;
        Ok(())
    }

    fn give_back(&mut self, bytes: u32) {
        let bytes = u64::from(bytes);
        self.held -= bytes;
        self.object_bytes -= bytes;
        self.ledger.0.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn key(&self, kind: v1::ObjectKind, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((kind as i32, namespace, name))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.ledger.0.held.fetch_sub(self.held, Ordering::Relaxed);
        self.ledger.0.accounts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ledger.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
