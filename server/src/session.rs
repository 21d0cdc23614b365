//! SESSIONS: the server's side of the conversation with each cluster's agent.
//!
//! A [`Session`] is a state machine without I/O, one for each cluster; it outlives streams, because instructions do. Messages
//! and moments go in, [`Output`]s come out. Proto types stop here: [`decode`] makes the engine's values of them, and
//! [`encode`] goes the other way for instructions.
//!
//! Reading order: [`state`] (the state machine), [`assembly`] (snapshots in parts), [`outbox`] (instructions until they are
//! answered), [`decode`] and [`encode`] (the doors), [`intern`] (what many clusters share), [`account`] (how
//! much each makes the server remember), [`service`] (gRPC around it).

pub mod account;
pub mod assembly;
pub mod decode;
pub mod encode;
pub mod intern;
pub mod outbox;
pub mod service;
pub mod state;

pub use account::Ledger;
pub use decode::pools::{Manifest, ManifestKind, Manifests, ReadManifests, ReadPools};
pub use intern::Interner;
pub use service::Sessions;
pub use state::{Greeting, Output, Session, SessionEvent, Settings};
