//! `FleetService`: API for operators and tools, the same from every replica.
//!
//! - What a cluster has ([`lists`], [`watches`], [`cost`], [`explanations`]) is answered by the replica that decides for it;
//!   the one that is asked puts the parts together ([`replica_clients`]). A request between replicas asks for a part.
//! - Which clusters a client may see and act on ([`access`]) is asked once for every method, which gets it with its request
//!   ([`api`]), and passed on with a request for a part.
//! - What is wrong ([`problems`]) is read from these lists.
//! - Clusters in numbers are known to every replica ([`directory`]).
//! - What the store has is read from it ([`stored_lists`], [`decision_log`], [`spend`], [`savings`]), and operator commands are written to it
//!   with an audit entry and reach every replica through the [`change_feed`].

mod access;
mod api;
pub mod change_feed;
pub(crate) mod change_log;
mod collections;
mod cost;
pub mod decision_effects;
mod decision_log;
pub mod directory;
pub mod encode;
mod explanations;
pub(crate) mod lists;
mod operations;
pub(crate) mod outages;
mod positions;
mod problem_causes;
mod problem_groups;
mod problem_lists;
mod problems;
pub mod replica_clients;
pub mod rows;
mod savings;
mod schemas;
mod shared_answers;
mod shared_messages;
mod since;
mod spend;
mod stored_lists;
pub mod summaries;
mod watches;

pub(crate) use access::Access;
pub use api::FleetApi;

#[cfg(test)]
mod tests;
