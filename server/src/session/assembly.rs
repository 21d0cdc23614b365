//! A snapshot comes in parts and is believed when all of them are there.

use engine::cluster::{ClusterSnapshot, Object};
use fleetwright_proto::v1;

use super::decode::{Decoded, Decoder, Fault};

/// Why a snapshot, or what follows one, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    /// A part is missing or came twice.
    #[error("snapshot {id} is not whole: {what}")]
    Torn {
        /// Which snapshot.
        id: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A part cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A snapshot that is coming in.
#[derive(Debug)]
pub struct Assembly {
    id: u64,
    decoder: Decoder,
    picture: ClusterSnapshot,
    chunks: u32,
    changes: u64,
}

impl Assembly {
    /// The beginning of snapshot `id`, to be read by `decoder`, which has read nothing yet.
    #[must_use]
    pub fn new(id: u64, decoder: Decoder) -> Self {
        Self { id, decoder, picture: ClusterSnapshot::default(), chunks: 0, changes: 0 }
    }

    /// One more chunk, of snapshot `id`.
    ///
    /// # Errors
    /// [`Incomplete`] when it is not the next one, or cannot be read.
    pub fn add(&mut self, id: u64, chunk: v1::SnapshotChunk) -> Result<(), Incomplete> {
        self.check(id)?;
        if chunk.index != self.chunks {
            return Err(self.torn(format!("chunk {} came where {} was due", chunk.index, self.chunks)));
        }
        self.chunks += 1;
        self.changes += chunk.changes.len() as u64;
        for change in chunk.changes {
            if let Decoded::Object(object) = self.decoder.take(change)? {
                self.place(*object);
            }
        }
        self.decoder.check_total(self.changes)?;
        Ok(())
    }

    /// The end of snapshot `id`: the picture, and the decoder that reads what follows.
    ///
    /// # Errors
    /// [`Incomplete`] when parts are missing.
    pub fn finish(mut self, id: u64, end: &v1::SnapshotEnd) -> Result<(ClusterSnapshot, Decoder), Incomplete> {
        self.check(id)?;
        if (end.chunk_count, end.change_count) != (self.chunks, self.changes) {
            return Err(self.torn(format!(
                "{} chunks with {} changes were sent, {} with {} have come",
                end.chunk_count, end.change_count, self.chunks, self.changes
            )));
        }
        self.decoder.complete(&mut self.picture);
        Ok((self.picture, self.decoder))
    }

    fn check(&self, id: u64) -> Result<(), Incomplete> {
        if id == self.id { Ok(()) } else { Err(self.torn(format!("a part of snapshot {id} came in between"))) }
    }

    fn torn(&self, what: String) -> Incomplete {
        Incomplete::Torn { id: self.id, what }
    }

    fn place(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.picture.pods.push(pod),
            Object::Node(node) => self.picture.nodes.push(node),
            Object::Claim(claim) => self.picture.claims.push(claim),
            Object::Pool(pool) => self.picture.pools.push(pool),
            Object::Daemon(daemon) => self.picture.daemons.push(daemon),
            Object::Namespace(namespace) => self.picture.namespaces.push(namespace),
            Object::PodBudget(budget) => self.picture.budgets.push(budget),
            Object::Class(class) => self.picture.classes.push(class),
            Object::Attach(attach) => self.picture.attach.push(attach),
            Object::Autoscaler(other) => self.picture.autoscalers.push(other),
            Object::Problem(problem) => self.picture.problems.push(problem),
        }
    }
}
