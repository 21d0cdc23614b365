//! The server of Fleetwright: I/O, clocks and user interfaces around the pure engine.
//!
//! Reading order: [`cli`] (commands), `serve` (assembly, start and shutdown order), `clouds` (cloud
//! providers; `simulated_cloud` runs one as a process), `control_loop` (leases and cluster state),
//! [`session`] (agents), `auth` (authentication and authorization), [`store`] (durable state),
//! `log` (decision log for replay), `views` with `fleet` and `web` (API and dashboard), [`config`]
//! (configuration), `demo` (the whole system in one process), `simulation` (deterministic
//! simulation with faults), `crashes` (server processes killed during launches), `load` (many
//! clusters at once).

mod auth;
pub mod cli;
mod clock;
mod clouds;
pub mod config;
mod control_loop;
mod crashes;
mod demo;
mod escape;
mod fleet;
mod histogram;
mod load;
mod log;
mod pools;
mod processes;
mod render;
mod replicas;
mod serve;
pub mod session;
mod simulated_cloud;
mod simulation;
pub mod store;
mod suggest;
mod telemetry;
mod throttle;
mod views;
mod web;
