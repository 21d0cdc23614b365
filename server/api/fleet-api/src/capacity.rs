//! `CapacityService`: plans, quotes and holds for programs, the same from every replica.
//!
//! - What is asked: [`pod_sets`], [`deadline`], read on `request_threads`. How it fails: [`api_messages::errors`],
//!   [`error_info`].
//! - Quotes ([`quotes`]) and plans that are only shown ([`plans`], [`what_if`]) are made on threads of their own
//!   ([`threads`], `worker`) from what the task of each cluster hands out (`cluster_facts`). What is quoted again and again is
//!   prepared before a quote asks for it ([`known_facts`], `refresh`).
//! - Holds are rows of the store, which the owner of the cluster gives room to ([`holds`]).
//! - Odds and times to ready are learned from launches ([`estimates`], [`learning`]).

mod client_shares;
mod cluster_facts;
pub mod deadline;
mod encode;
pub mod error_info;
pub mod estimates;
pub mod holds;
pub(crate) mod known_facts;
pub mod learning;
mod plan_message;
mod plans;
pub mod pod_sets;
mod quote_metrics;
mod quotes;
mod refresh;
pub(crate) mod request_limits;
mod request_threads;
mod service;
pub mod threads;
mod what_if;
mod worker;

pub use quote_metrics::QUOTES;
pub use service::CapacityApi;
