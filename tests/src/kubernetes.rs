//! A real Kubernetes API server, kube-scheduler and controller-manager, with nodes that exist only
//! in a simulated cloud.
//!
//! Reading order: [`suite`] (scenarios, and when they are skipped), [`control_plane`] and
//! `go_build` (the source of the control plane), [`machine`] and [`kubelets`] (fake kubelets),
//! [`cluster`] (operations of a scenario), [`environment`] (Fleetwright around the cluster),
//! [`ledger`] (the simulated cloud's ground truth).

pub mod audit;
mod binaries;
pub mod certificate_authority;
mod cleanup;
pub mod cluster;
pub mod control_plane;
pub mod deploy;
pub mod disruption;
pub mod environment;
pub mod expected_placements;
mod go_build;
pub mod kubelets;
pub mod launch_latency;
pub mod ledger;
pub mod machine;
mod node_joiner;
pub mod process;
mod source;
pub mod suite;
pub mod tokens;

use jiff::Timestamp;

/// This machine has no control plane, so that the scenarios are skipped.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// The present time in Kubernetes' format.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The present time in the format of Leases (MicroTime).
fn now_micros() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
