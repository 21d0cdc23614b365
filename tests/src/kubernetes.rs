//! A real Kubernetes API server, kube-scheduler and controller-manager, with nodes that exist only in a simulated cloud.
//!
//! Reading order: [`suite`] (what runs, and what is said where it cannot), [`control_plane`] and `program` (where a control
//! plane comes from), [`machine`] and [`kubelets`] (who plays the nodes), [`cluster`] (what a scenario does and sees),
//! [`world`] (Fleetwright around the cluster), [`book`] (the judge).

mod assets;
pub mod audit;
pub mod authority;
pub mod book;
pub mod cluster;
pub mod control_plane;
pub mod deploy;
mod empty;
mod joiner;
pub mod kubelets;
pub mod machine;
pub mod plan;
pub mod process;
mod program;
mod source;
pub mod suite;
pub mod tokens;
pub mod waits;
pub mod world;

use jiff::Timestamp;

/// Why there is no control plane on this machine. Not a failure of what is tested, and not a success either.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// As Kubernetes writes a moment.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As Kubernetes writes a moment of a Lease.
fn now_micros() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
