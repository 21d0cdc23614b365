//! Instance listings of a cloud, shared with the replicas that did not request them.

use std::time::Duration;

/// An instance of a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedInstanceRow {
    /// Cluster tag.
    pub cluster: String,
    /// `spec.providerID` of the Node.
    pub provider_id: String,
    /// Cluster UID tag; empty when absent.
    pub cluster_uid: String,
    /// NodeClaim tag.
    pub claim: String,
    /// Whether the instance is shutting down.
    pub ends: bool,
    /// What it runs with.
    pub details: ListedDetails,
}

/// What a listed instance runs with; each is empty when the cloud did not say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ListedDetails {
    /// Image id.
    pub image: String,
    /// Subnet id.
    pub subnet: String,
    /// Security group ids, sorted.
    pub security_groups: Vec<String>,
    /// Capacity reservation that it runs in.
    pub reservation: Option<String>,
}

/// A complete listing, restricted to the requested clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredListing {
    /// Listing number; each listing has another one.
    pub number: u64,
    /// Minimum age of the listing, by the store's clock.
    pub age: Duration,
    /// Instances, by cluster and provider id.
    pub machines: Vec<ListedInstanceRow>,
}
