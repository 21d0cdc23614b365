//! Assembles a chunked snapshot; it is accepted when all parts have arrived.

use cluster::{ClusterSnapshot, Object};
use fleetwright_proto::v1;

use super::decode::{DecodeError, Decoded, Decoder};

/// Reason why a snapshot, or a delta after it, is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Incomplete {
    /// A part is missing or duplicated.
    #[error("snapshot {id} is incomplete: {what}")]
    Torn { id: u64, what: String },
    #[error(transparent)]
    DecodeError(#[from] DecodeError),
}

#[derive(Debug)]
pub(crate) struct SnapshotAssembly {
    id: u64,
    decoder: Decoder,
    snapshot: ClusterSnapshot,
    chunks: u32,
    changes: u64,
}

impl SnapshotAssembly {
    /// Starts snapshot `id` with a fresh `decoder`.
    #[must_use]
    pub fn new(id: u64, decoder: Decoder) -> Self {
        Self { id, decoder, snapshot: ClusterSnapshot::default(), chunks: 0, changes: 0 }
    }

    /// Adds the next chunk of snapshot `id`.
    ///
    /// # Errors
    /// [`Incomplete`] when the chunk is out of order or cannot be decoded.
    pub fn add(&mut self, id: u64, chunk: v1::SnapshotChunk) -> Result<(), Incomplete> {
        self.check(id)?;
        if chunk.index != self.chunks {
            return Err(self.torn(format!("received chunk {}, expected {}", chunk.index, self.chunks)));
        }
        self.chunks += 1;
        self.changes += chunk.changes.len() as u64;
        for change in chunk.changes {
            if let Decoded::Object(object) = self.decoder.decode_change(change)? {
                self.push(object);
            }
        }
        self.decoder.check_total(self.changes)?;
        Ok(())
    }

    /// Completes snapshot `id`; returns it with the decoder for the deltas that follow.
    ///
    /// # Errors
    /// [`Incomplete`] when parts are missing.
    pub fn finish(mut self, id: u64, end: &v1::SnapshotEnd) -> Result<(ClusterSnapshot, Decoder), Incomplete> {
        self.check(id)?;
        if (end.chunk_count, end.change_count) != (self.chunks, self.changes) {
            return Err(self.torn(format!(
                "agent sent {} chunks with {} changes, received {} with {}",
                end.chunk_count, end.change_count, self.chunks, self.changes
            )));
        }
        self.decoder.complete_snapshot(&mut self.snapshot);
        Ok((self.snapshot, self.decoder))
    }

    fn check(&self, id: u64) -> Result<(), Incomplete> {
        if id == self.id { Ok(()) } else { Err(self.torn(format!("received a part of snapshot {id} in between"))) }
    }

    fn torn(&self, what: String) -> Incomplete {
        Incomplete::Torn { id: self.id, what }
    }

    fn push(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.snapshot.pods.push(pod),
            Object::Node(node) => self.snapshot.nodes.push(node),
            Object::Claim(claim) => self.snapshot.claims.push(claim),
            Object::Pool(pool) => self.snapshot.pools.push(pool),
            Object::Daemon(daemon) => self.snapshot.daemons.push(daemon),
            Object::Namespace(namespace) => self.snapshot.namespaces.push(namespace),
            Object::PodBudget(budget) => self.snapshot.budgets.push(budget),
            Object::Class(class) => self.snapshot.classes.push(class),
            Object::Attach(attach) => self.snapshot.attach.push(attach),
            Object::Autoscaler(other) => self.snapshot.autoscalers.push(other),
            Object::Problem(problem) => self.snapshot.problems.push(problem),
        }
    }
}
