//! A world for tests: the real program as a process of its own, folders that vanish, and deadlines instead of sleeps.

pub mod attack;
mod board;
mod folder;
pub mod kubernetes;
pub mod postgres;
mod process;

pub use board::Board;
pub use folder::Folder;
pub use postgres::Postgres;
pub use process::{Ended, Program, Running, Signal};
