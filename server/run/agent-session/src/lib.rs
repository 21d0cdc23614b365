//! Server side of the agent protocol: one session per cluster.
//!
//! A [`Session`] is a state machine without I/O, one per cluster. It outlives streams because
//! instructions do. Its inputs are messages and timestamps; its results are [`Output`]s. Proto
//! types end here: [`decode`] converts messages to values of `model` and `controller`, [`encode`]
//! converts instructions to messages.
//!
//! Reading order: [`state`] (the state machine), [`assembly`] (chunked snapshots), [`outbox`]
//! (unacknowledged instructions), [`spans`] (traces), [`decode`] and [`encode`] (conversion), [`intern`] (pod shapes
//! shared between clusters), [`memory`] (memory limits per cluster).

mod assembly;
pub mod decode;
pub mod encode;
pub mod intern;
pub mod memory;
pub mod outbox;
mod spans;
pub mod state;

pub use decode::pools::{DecodedManifests, Manifest, ManifestKind, Manifests, PoolReader};
pub use intern::Interner;
pub use memory::SessionMemory;
pub use state::{AgentHello, Output, Session, SessionEvent, Settings};
