//! Memory accounting: estimated bytes per agent and over all agents.
//!
//! The estimate of a decoded change is on the high side: a label set takes several times its wire
//! size, and a NodePool is stored both as received and as parsed. Definitions are accounted for the
//! lifetime of their decoder, objects until they are deleted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use rustc_hash::FxHashMap;

use super::decode::DecodeError;

mod cost;

use cost::MemoryCost;

/// Default of `session.memory`: about 300,000 pods with their Nodes.
pub(crate) const SESSION_BYTES: u64 = 256 << 20;

/// Memory of all sessions of a server. Clones share the counters.
#[derive(Debug, Clone)]
pub struct SessionMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    per_session: u64,
    total: u64,
    held: AtomicU64,
    accounts: AtomicU64,
}

impl Default for SessionMemory {
    fn default() -> Self {
        Self::new(SESSION_BYTES, u64::MAX)
    }
}

impl SessionMemory {
    /// Limits one session to `per_session` bytes and all sessions to `total`. Above the total, a
    /// session can still use an equal share, so one large session cannot lock out the others; the
    /// sum stays below twice the total.
    #[must_use]
    pub fn new(per_session: u64, total: u64) -> Self {
        Self(Arc::new(Shared { per_session, total, held: AtomicU64::new(0), accounts: AtomicU64::new(0) }))
    }

    /// An empty account for a new decoder.
    pub(super) fn account(&self) -> MemoryAccount {
        self.0.accounts.fetch_add(1, Ordering::Relaxed);
        MemoryAccount {
            session_memory: self.clone(),
            hasher: RandomState::new(),
            objects: FxHashMap::default(),
            object_bytes: 0,
            held: 0,
        }
    }

    /// Bytes accounted over all sessions.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    fn reserve(&self, bytes: u64, of_one: u64) -> Result<(), DecodeError> {
        let Shared { per_session, total, held, accounts } = &*self.0;
        if of_one > *per_session {
            return Err(DecodeError::Memory {
                whose: "the objects of this cluster take",
                held: of_one,
                key: "session.memory",
                limit: *per_session,
            });
        }
        let all = held.load(Ordering::Relaxed).saturating_add(bytes);
        let share = total / accounts.load(Ordering::Relaxed).max(1);
        if all > *total && of_one > share {
            return Err(DecodeError::Memory {
                whose: "the objects of all clusters take",
                held: all,
                key: "session.memory-total",
                limit: *total,
            });
        }
        held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Memory of one decoder; released from the total on drop.
#[derive(Debug)]
pub(super) struct MemoryAccount {
    session_memory: SessionMemory,
    /// Keyed with a per-account secret, so an agent cannot construct hash collisions.
    hasher: RandomState,
    /// Bytes per object, by the keyed hash of kind, namespace and name.
    objects: FxHashMap<u64, u32>,
    object_bytes: u64,
    /// Bytes of objects and definitions.
    held: u64,
}

/// Memory of objects that stay valid after their decoder is dropped, for example when a stream
/// closes.
#[derive(Debug)]
pub(super) struct RetainedMemory {
    session_memory: SessionMemory,
    bytes: u64,
}

impl MemoryAccount {
    /// Accounts for `change`.
    ///
    /// # Errors
    /// [`DecodeError::Memory`] above a limit; the change is not accounted then.
    pub(super) fn count(&mut self, change: &Change) -> Result<(), DecodeError> {
        match cost::of(change) {
            MemoryCost::Nothing => Ok(()),
            MemoryCost::Definition(bytes) => self.reserve(bytes),
            MemoryCost::Object { kind, namespace, name, bytes } => {
                let key = self.key(kind, namespace, name);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                let previous = self.objects.insert(key, bytes).unwrap_or(0);
                self.release(previous);
                if let Err(error) = self.reserve(u64::from(bytes)) {
                    self.objects.remove(&key);
                    return Err(error);
                }
                self.object_bytes += u64::from(bytes);
                Ok(())
            }
            MemoryCost::Removed { kind, namespace, name } => {
                let key = self.key(kind, namespace, name);
                let previous = self.objects.remove(&key).unwrap_or(0);
                self.release(previous);
                Ok(())
            }
        }
    }

    /// Memory of the objects that stay valid when the decoder is dropped.
    pub(super) fn retain(&self) -> RetainedMemory {
        self.session_memory.0.held.fetch_add(self.object_bytes, Ordering::Relaxed);
        RetainedMemory { session_memory: self.session_memory.clone(), bytes: self.object_bytes }
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), DecodeError> {
        self.session_memory.reserve(bytes, self.held.saturating_add(bytes))?;
        self.held += bytes;
        Ok(())
    }

    fn release(&mut self, bytes: u32) {
        let bytes = u64::from(bytes);
        self.held -= bytes;
        self.object_bytes -= bytes;
        self.session_memory.0.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn key(&self, kind: v1::ObjectKind, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((kind as i32, namespace, name))
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.session_memory.0.held.fetch_sub(self.held, Ordering::Relaxed);
        self.session_memory.0.accounts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for RetainedMemory {
    fn drop(&mut self) {
        self.session_memory.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
