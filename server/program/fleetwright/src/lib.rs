//! The `fleetwright` program: the commands of [`server::cli`], and those that simulate.

mod capture;
mod cli;
mod cloud_flag;
mod completion;
mod demo;
mod man;
mod simulate;
mod simulated_agent;
mod simulated_cloud;

pub use cli::{main, main_with};
