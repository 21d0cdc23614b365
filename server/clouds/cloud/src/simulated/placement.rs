//! Launches whose instance type and zone the caller has chosen: for interfaces of the cloud that have their
//! own rules for choosing, tokens and errors.

use model::{CapacityType, ClaimName, ClusterName, MicroUsd, PoolName, Text};

use crate::provider::Override;

/// An instance to launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Client token of the call, for the ledger; it identifies nothing here.
    pub token: Text,
    /// Cluster name of the tags; empty when absent.
    pub cluster: ClusterName,
    /// Cluster UID of the tags; empty when absent.
    pub cluster_uid: Text,
    /// NodeClaim name of the tags; empty when absent.
    pub claim: ClaimName,
    /// NodePool name of the tags; empty when absent.
    pub pool: PoolName,
    /// Instance type and zone.
    pub option: Override,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// Price per hour, for the ledger.
    pub price: Option<MicroUsd>,
}
