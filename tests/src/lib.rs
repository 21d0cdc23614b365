//! Support for tests of whole processes: the real programs, temporary folders, and deadlines
//! instead of sleeps.

pub mod agent_state;
pub mod attack;
mod browser;
mod collector;
mod cpu_time;
pub mod go_module;
pub mod identity_provider;
pub mod kubernetes;
pub mod monitoring;
pub mod postgres;
mod process;
pub mod prometheus;
mod proxy;
pub mod random_cluster;
pub mod state_comparison;
mod temp_dir;

pub use browser::Browser;
pub use collector::{Collector, ReceivedSpan};
pub use cpu_time::cpu_share;
pub use postgres::Postgres;
pub use process::{ExitResult, Program, RunningProcess, Signal, authority, urls};
pub use prometheus::Prometheus;
pub use proxy::TcpProxy;
pub use temp_dir::TempDir;
