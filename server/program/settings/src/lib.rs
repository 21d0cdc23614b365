//! Settings of the server and of the agent. A program states its keys once, in a table that
//! [`keys!`] makes; the configuration file, the environment, the flags and `--print-config` derive
//! from it. The environment overrides the file, and flags override both.

mod error;
mod file;
mod key;
mod layers;
mod log_filter;
pub mod suggest;
mod value_type;

pub use error::{ConfigError, ConfigErrors, Origin};
pub use key::{Key, Schema, join};
pub use layers::{Layers, print};
pub use log_filter::is_log_filter;
pub use value_type::{OtherType, ValueType, parse_duration, parse_micro_dollars};

#[cfg(test)]
mod tests;
