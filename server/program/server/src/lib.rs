//! The server as a process: sockets, control loop, clouds, stores and their assembly, around crates that decide without I/O.
//!
//! Reading order: [`serve`] (assembly, start and shutdown order), [`clouds`] (cloud providers), `catalogue_refresh` (their
//! instance types and prices while a server runs), [`mod@api_budget`] (rate limits of EC2), [`stores`] (stores),
//! [`control_loop`] (leases and cluster state), [`agent_service`] (streams of agents), [`process_metrics`], [`cli`] (commands).

pub mod agent_service;
pub mod api_budget;
mod browser_sessions;
mod catalogue_refresh;
pub mod cli;
pub mod clouds;
pub mod control_loop;
mod interruptions;
mod pools;
pub mod process_metrics;
mod replicas;
pub mod serve;
pub mod stores;
