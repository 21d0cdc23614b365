//! REMOVE: machines that need not be there.
//!
//! What is here looks at what is believed and names machines; the controller records the decision, looks again when it is
//! durable, and has it carried out.
//!
//! Reading order: [`empty`] (nodes without pods of their own).

pub mod empty;

pub use empty::{EmptyNodes, empty_nodes};
