//! `CapacityService`: plans, quotes and holds for programs, the same from every replica.
//!
//! - What is asked: [`pod_sets`], [`deadline`], read on `request_threads`. How it fails: [`errors`], [`error_info`].
//! - Quotes ([`quotes`]) and plans that are only shown ([`plans`], [`what_if`]) are made on threads of their own
//!   ([`threads`], `worker`) from what the task of each cluster hands out (`cluster_facts`). What is quoted again and again is
//!   prepared before a quote asks for it ([`known_facts`], `refresh`).
//! - Holds are rows of the store, which the owner of the cluster gives room to ([`holds`]).
//! - Odds and times to ready are learned from launches ([`estimates`], [`learning`]).

mod client_shares;
mod cluster_facts;
pub(crate) mod deadline;
mod encode;
pub(crate) mod error_info;
pub(crate) mod errors;
pub(crate) mod estimates;
pub(crate) mod holds;
pub(crate) mod json_struct;
pub(crate) mod known_facts;
pub(crate) mod learning;
mod plan_message;
mod plans;
pub(crate) mod pod_sets;
mod quote_metrics;
mod quotes;
mod refresh;
pub(crate) mod request_limits;
mod request_threads;
mod service;
pub(crate) mod threads;
mod what_if;
mod worker;

pub(crate) use quote_metrics::QUOTES;
pub(crate) use service::CapacityApi;
