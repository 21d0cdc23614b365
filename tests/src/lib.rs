//! A world for tests: the real program as a process of its own, folders that vanish, and deadlines instead of sleeps.

mod folder;
pub mod kubernetes;
mod postgres;
mod process;

pub use folder::Folder;
pub use postgres::Postgres;
pub use process::{Ended, Program, Running};
