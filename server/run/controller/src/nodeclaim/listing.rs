//! Instances of a cluster, as listed by the cloud.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{ClaimName, InstanceDetails, ProviderId, Text, Timestamp};

/// Instances of one cluster, as listed by the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// When the listing was requested.
    pub requested_at: Timestamp,
    pub complete: bool,
    /// Instances tagged with the cluster's name that have not ended.
    pub instances: Vec<ListedInstance>,
}

impl Listing {
    pub(crate) fn provider_ids(&self) -> BTreeSet<&ProviderId> {
        self.instances.iter().map(|instance| &instance.provider_id).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedInstance {
    /// Provider id, as in `spec.providerID` of its Node.
    pub provider_id: ProviderId,
    /// Tag: UID of the cluster that it was launched for; empty without the tag.
    pub cluster_uid: Text,
    /// Tag: NodeClaim that it was launched for.
    pub claim: ClaimName,
    pub terminating: bool,
    /// What it runs with; empty when the cloud does not say it.
    pub details: Arc<InstanceDetails>,
}
