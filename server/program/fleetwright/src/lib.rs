//! The `fleetwright` program: the commands of [`client`], [`offline`] and [`server::cli`], and those of its own.

mod capture;
mod cli;
mod man;

pub use cli::{main, main_with};
