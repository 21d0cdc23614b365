//! The server of Fleetwright: I/O, clocks and user interfaces around crates that decide without
//! I/O.
//!
//! Reading order: [`cli`] (commands), [`serve`] (assembly, start and shutdown order), [`clouds`]
//! (cloud providers), `catalogue_refresh` (their instance types and prices while a server runs), [`mod@api_budget`] (rate limits of EC2), [`stores`] (stores), [`conditions`] (whether all of these work), [`control_loop`] (leases and cluster state),
//! [`agent_service`] (streams of agents), [`views`] with [`fleet`] and [`web`] (API and dashboard),
//! [`config`] (configuration).

pub mod agent_service;
pub mod api_budget;
mod background_runtime;
mod browser_sessions;
mod caller;
mod capacity;
mod catalogue_refresh;
pub mod cli;
pub mod clouds;
pub mod conditions;
pub mod config;
pub mod control_loop;
mod escape;
pub mod fleet;
mod histogram;
mod interruptions;
mod metrics;
mod pools;
mod questions;
mod render;
mod replicas;
pub mod serve;
pub mod stores;
pub mod telemetry;
pub mod views;
pub mod web;

pub use settings::suggest;
