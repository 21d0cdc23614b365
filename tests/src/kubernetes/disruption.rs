//! Whether a voluntary disruption keeps its rules at every instant, judged from the API server's objects alone.
//!
//! [`recording`] watches Nodes and Pods. [`history`] orders the changes by resource version, which is the order in
//! which the API server stored them, so that neither the delay of a watch nor that of a test decides. [`rules`]
//! judges the state after each change. [`capacity`] answers whether pods that leave have room elsewhere.

pub mod capacity;
pub mod history;
pub mod recording;
pub mod rules;
