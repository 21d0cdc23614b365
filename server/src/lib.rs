//! The shell of Fleetwright: everything that talks to files, sockets, clocks and people, around an engine that does not.
//!
//! Reading order: [`cli`] (what a person types), `serve` (the server's parts and their order of starting and ending),
//! `clouds` (which cloud; `simulated_cloud` is one in a process of its own), `control_loop` (who owns what is believed),
//! [`session`] (agents), `trust` (who may say what), [`store`] (what survives a crash), `log` (what decisions are repeated
//! from), `views` with `fleet` and `web` (what people see), [`config`] (what an operator sets), `demo` (the whole system on
//! one machine), `simulation` (the whole system by seed, with faults), `crashes` (real servers killed while they buy), `load`
//! (many clusters at once).

pub mod cli;
mod clock;
mod clouds;
pub mod config;
mod control_loop;
mod crashes;
mod demo;
mod fleet;
mod load;
mod log;
mod measure;
mod pace;
mod pools;
mod processes;
mod render;
mod replicas;
mod serve;
pub mod session;
mod simulated_cloud;
mod simulation;
mod spelling;
pub mod store;
mod telemetry;
mod trust;
mod views;
mod visible;
mod web;
