//! Listing the instances of the region, without I/O.
//!
//! The replica that holds the region's lease lists all instances at the cloud and stores the list;
//! the other replicas read it from the store. Each replica evaluates it only for the clusters that
//! it owns: an instance is orphaned when a listing shows it and neither the rows nor the NodeClaims
//! of its cluster do. Therefore neither the author of a listing nor a change of either lease
//! matters: a listing is ignored for a cluster acquired after the listing was requested. A replica
//! that holds the region's lease and cannot list releases it to a replica that requests it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud::provider::{Instance, InstanceState};
use controller::ListedInstance;
use model::{ClusterName, InstanceDetails, Millis, Text, Timestamp};
use tracing::{debug, error, info, warn};

use crate::call::Call;
use store::lease::{Lease, LeaseOutcome, Scope};
use store::listing::{ListedDetails, ListedInstanceRow, StoredListing};
use store::{StoreError, clock};

/// Consecutive failed listings before the lease is released to a replica that requests it. At half
/// a collection period each, this is longer than throttling or a short network failure.
const MAX_FAILED_LISTINGS: u32 = 4;

/// How long a replica that could not list leaves the lease to others: several of their attempts,
/// which are ten seconds apart.
const HOLD_OFF: Millis = Millis::from_mins(2);

/// Instances by owning cluster.
pub(crate) type InstancesByCluster = BTreeMap<ClusterName, Vec<ListedInstance>>;

/// The region's lease and listings, as one replica sees them.
#[derive(Debug)]
pub(crate) struct RegionLister {
    scope: Scope,
    lease: Option<Lease>,
    /// A `TakeRegionLease` call is in flight.
    lease_call_in_flight: bool,
    /// A listing is being requested or read.
    listing_in_flight: bool,
    /// The lease holder that this replica has requested the lease from.
    requested_from: Option<String>,
    /// Number of the last stored listing that was processed.
    last_read: Option<u64>,
    /// Another replica has requested the lease.
    wanted: bool,
    failed_listings: u32,
    /// No attempt to take the lease before this moment.
    hold_off_until: Option<Timestamp>,
}

impl RegionLister {
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            lease: None,
            lease_call_in_flight: false,
            listing_in_flight: false,
            requested_from: None,
            last_read: None,
            wanted: false,
            failed_listings: 0,
            hold_off_until: None,
        }
    }

    /// Name of the region that this replica launches in.
    pub fn name(&self) -> &str {
        match &self.scope {
            Scope::Region { region, .. } => region,
            Scope::Cluster(name) => name,
        }
    }

    /// The region's lease, as far as this replica knows.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Tries to take the region's lease unless this replica holds it.
    pub(crate) fn try_take_lease(&mut self, now: Timestamp) -> Option<Call> {
        let holds_off = self.hold_off_until.is_some_and(|until| now < until);
        if self.lease.is_some() || holds_off || std::mem::replace(&mut self.lease_call_in_flight, true) {
            return None;
        }
        self.hold_off_until = None;
        Some(Call::TakeRegionLease(self.scope.clone()))
    }

    /// Handles the store's answer. A holder is asked for the lease once, so that it releases the
    /// lease when it shuts down.
    pub(crate) fn handle_lease_answer(&mut self, answer: Result<LeaseOutcome, StoreError>) -> Option<Call> {
        self.lease_call_in_flight = false;
        match answer {
            Ok(LeaseOutcome::Granted { lease, .. }) => {
                info!(region = %lease.scope, epoch = lease.epoch, "acquired region lease; listing its instances");
                (self.lease, self.requested_from, self.wanted, self.failed_listings) = (Some(lease), None, false, 0);
                None
            }
            Ok(LeaseOutcome::Held { owner, .. }) if self.requested_from.as_ref() == Some(&owner) => None,
            Ok(LeaseOutcome::Held { owner, .. }) => {
                debug!(region = %self.scope, owner, "region lease is held by another replica");
                self.requested_from = Some(owner);
                Some(Call::RequestLease(self.scope.clone()))
            }
            Err(error) => {
                error!(region = %self.scope, %error, "cannot acquire region lease; retrying");
                None
            }
        }
    }

    /// Notes that another replica has requested this lease.
    pub(crate) fn mark_wanted(&mut self, lease: &Lease) {
        self.wanted |= self.lease.as_ref() == Some(lease);
    }

    /// Drops the lease if it is the region's; returns whether it was.
    pub(crate) fn drop_lease(&mut self, lease: &Lease) -> bool {
        let ours = self.lease.as_ref() == Some(lease);
        if ours {
            warn!(region = %lease.scope, epoch = lease.epoch, "lost region lease");
            self.lease = None;
        }
        ours
    }

    /// Begins a listing of the instances of these clusters.
    pub(crate) fn begin_listing<'c>(
        &mut self,
        clusters: impl Iterator<Item = &'c ClusterName>,
        now: Timestamp,
    ) -> Option<Call> {
        if std::mem::replace(&mut self.listing_in_flight, true) {
            return None;
        }
        Some(match &self.lease {
            Some(lease) => Call::ListInstances { asked: now, lease: lease.clone() },
            None => Call::ReadListing { asked: now, scope: self.scope.clone(), clusters: clusters.cloned().collect() },
        })
    }

    /// Handles the end of a listing. A replica that cannot list releases the lease if it was
    /// requested: the cause may be its own credentials or network.
    pub(crate) fn finish_listing(&mut self, complete: bool, now: Timestamp) -> Option<Call> {
        self.listing_in_flight = false;
        self.failed_listings = if complete { 0 } else { self.failed_listings.saturating_add(1) };
        if self.failed_listings < MAX_FAILED_LISTINGS || !self.wanted {
            return None;
        }
        let lease = self.lease.take()?;
        let failed_listings = self.failed_listings;
        warn!(region = %lease.scope, failed_listings, "cannot list instances; releasing region lease to another replica");
        self.hold_off_until = Some(now + HOLD_OFF);
        Some(Call::ReleaseLeases(vec![lease]))
    }

    /// Handles a stored listing requested at `asked`: the instances of `clusters` and when the
    /// cloud was asked for them; `None` if it was processed before.
    pub(crate) fn finish_reading(
        &mut self,
        asked: Timestamp,
        clusters: Vec<ClusterName>,
        answer: Result<Option<StoredListing>, StoreError>,
    ) -> Option<(Timestamp, InstancesByCluster)> {
        self.listing_in_flight = false;
        let kept = answer.unwrap_or_else(|error| {
            warn!(%error, "cannot read stored instance listing; skipping this round");
            None
        })?;
        if self.last_read.replace(kept.number) == Some(kept.number) {
            return None;
        }
        // The store computed the age after the request, so the cloud was asked no earlier than
        // this.
        let age = clock::millis(kept.age);
        let mut machines: InstancesByCluster = clusters.into_iter().map(|cluster| (cluster, Vec::new())).collect();
        let mut shared = SharedDetails::default();
        for machine in kept.machines {
            if let Some(listed) = machines.get_mut(machine.cluster.as_str()) {
                listed.push(from_row(machine, &mut shared));
            }
        }
        Some((asked - age, machines))
    }
}

/// Groups a listing by these clusters.
pub(crate) fn group_by_cluster<'c>(
    clusters: impl Iterator<Item = &'c ClusterName>,
    instances: Vec<Instance>,
) -> InstancesByCluster {
    let mut machines: InstancesByCluster = clusters.map(|cluster| (cluster.clone(), Vec::new())).collect();
    let mut shared = SharedDetails::default();
    for instance in instances {
        if let Some(listed) = machines.get_mut(&instance.cluster) {
            let ends = is_terminating(&instance);
            let Instance { provider_id, cluster_uid, claim, details, .. } = instance;
            let details = shared.share(details);
            listed.push(ListedInstance { provider_id, cluster_uid, claim, terminating: ends, details });
        }
    }
    machines
}

pub fn to_row(instance: &Instance) -> ListedInstanceRow {
    ListedInstanceRow {
        cluster: instance.cluster.to_string(),
        provider_id: instance.provider_id.to_string(),
        cluster_uid: instance.cluster_uid.to_string(),
        claim: instance.claim.to_string(),
        ends: is_terminating(instance),
        details: details_to_row(&instance.details),
    }
}

fn details_to_row(details: &InstanceDetails) -> ListedDetails {
    let InstanceDetails { image, subnet, security_groups, reservation } = details;
    ListedDetails {
        image: image.to_string(),
        subnet: subnet.to_string(),
        security_groups: security_groups.iter().map(Text::to_string).collect(),
        reservation: reservation.as_ref().map(Text::to_string),
    }
}

fn details_from_row(row: ListedDetails) -> InstanceDetails {
    let ListedDetails { image, subnet, security_groups, reservation } = row;
    InstanceDetails {
        image: image.into(),
        subnet: subnet.into(),
        security_groups: security_groups.into_iter().map(Text::from).collect(),
        reservation: reservation.map(Text::from),
    }
}

/// Details of listed instances. Most instances of a cluster have those of others.
#[derive(Debug, Default)]
struct SharedDetails(BTreeSet<Arc<InstanceDetails>>);

impl SharedDetails {
    fn share(&mut self, details: InstanceDetails) -> Arc<InstanceDetails> {
        if let Some(known) = self.0.get(&details) {
            return Arc::clone(known);
        }
        let details = Arc::new(details);
        self.0.insert(Arc::clone(&details));
        details
    }
}

fn from_row(machine: ListedInstanceRow, shared: &mut SharedDetails) -> ListedInstance {
    let ListedInstanceRow { cluster: _, provider_id, cluster_uid, claim, ends, details } = machine;
    ListedInstance {
        provider_id: provider_id.into(),
        cluster_uid: cluster_uid.into(),
        claim: claim.into(),
        terminating: ends,
        details: shared.share(details_from_row(details)),
    }
}

fn is_terminating(instance: &Instance) -> bool {
    matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated)
}

#[cfg(test)]
mod tests;
