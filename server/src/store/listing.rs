//! What a cloud has listed, for those who did not ask it themselves.

use std::time::Duration;

/// A machine, as its region's cloud lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedMachine {
    /// The cluster that it was bought for.
    pub cluster: String,
    /// Provider id.
    pub provider_id: String,
    /// UID of the cluster; empty when it has none.
    pub cluster_uid: String,
    /// NodeClaim that it was bought for.
    pub claim: String,
    /// It is going down already.
    pub ends: bool,
}

/// A whole listing, as far as it is about the clusters that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptListing {
    /// Differs from listing to listing.
    pub number: u64,
    /// How long ago the cloud was asked for it, at least, by the store's clock.
    pub age: Duration,
    /// The machines, by cluster and provider id.
    pub machines: Vec<ListedMachine>,
}
