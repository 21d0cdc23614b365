//! A world for tests: the real program as a process of its own, folders that vanish, and deadlines instead of sleeps.

mod folder;
pub mod kubernetes;
mod process;

pub use folder::Folder;
pub use process::{Ended, Program, Running};
