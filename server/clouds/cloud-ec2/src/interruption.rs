//! Notices about instances: EventBridge events that a queue of the account and region receives.
//!
//! [`message`] says what an event means, and performs no I/O. [`queue`] receives and deletes messages,
//! `setup` creates the queue and the rules that send events to it. `status` makes notices of the status of instances, and
//! `shown` of what EC2 shows of instances that the notices of a queue name, which `questions` asks for many clusters at once.

pub mod message;
pub(crate) mod questions;
pub mod queue;
pub mod setup;
pub(crate) mod shown;
pub(crate) mod status;
