//! The trace of a decision: its ids, and its spans.
//!
//! ```text
//! decision ─┬─ observe          from the first pod's creation until the server has it
//!           ├─ gather           the batch window
//!           ├─ plan             from the end of the window, queues among it, until the plan is verified
//!           ├─ record           each try
//!           ├─ create           the agent creates the NodeClaim
//!           ├─ launch           each attempt
//!           ├─ mark_launched    the agent writes the instance into the NodeClaim
//!           ├─ register         from the launch until the Node is registered
//!           ├─ ready            from then until the Node is Ready
//!           ├─ bound            from then until the planned pods are bound
//!           ├─ initialize       the agent marks the Node as initialized
//!           └─ drain, terminate, delete    of each machine that is removed
//! ```
//!
//! Reading order: [`context`] (ids), [`span`] (values), [`tracker`] (what follows from which input).

pub mod context;
pub mod span;
pub mod tracker;

pub use context::{SpanContext, SpanId, TraceId};
pub use span::{Attribute, Kind, Span, SpanEvent, Value, attribute};
pub use tracker::{InstructionContext, Tracker};
