//! What a replica does about the region that it buys in, without I/O.
//!
//! The replica that holds the region's lease asks the cloud for all machines and keeps the answer in the store; the others
//! read it there. Each draws conclusions about its own clusters alone, because only who decides for a cluster knows what
//! that has: a machine is nobody's when a listing shows it and neither rows nor NodeClaims of its cluster do. So it does not
//! matter who listed, or whether either lease changed hands in between: a listing says nothing about a cluster that was
//! taken up after it was asked for. A replica that holds the lease and cannot list gives it up to one that waits for it.

use std::collections::BTreeMap;

use cloud::provider::{Instance, InstanceState};
use engine::control::{ClusterId, ListedInstance};
use engine::model::Timestamp;
use tracing::{debug, error, info, warn};

use super::replica::Call;
use crate::store::StoreError;
use crate::store::lease::{Lease, LeaseAnswer, Scope};
use crate::store::listing::{KeptListing, ListedMachine};

/// Listings that may fail in a row before another replica that waits for the lease is let try: more than a cloud that throttles
/// or a network that flickers takes to come back, at half a collection period each.
const MOST_FAILED: u32 = 4;

/// How long the lease is left to others by who could not list, in milliseconds: several of their tries, which are ten seconds
/// apart.
const HOLD_OFF_MS: i64 = 120_000;

/// Machines by the cluster that they were bought for.
pub(super) type ByCluster = BTreeMap<ClusterId, Vec<ListedInstance>>;

/// The region, as one replica sees it.
#[derive(Debug)]
pub(super) struct Region {
    scope: Scope,
    lease: Option<Lease>,
    /// The store has not answered yet whether the lease is ours.
    taking: bool,
    /// A listing is being asked for or read.
    listing: bool,
    /// The holder who was told that this replica would take over.
    asked: Option<String>,
    /// The last listing of another replica's that was taken in.
    heard: Option<u64>,
    /// Another replica waits for the lease.
    wanted: bool,
    /// Listings that failed since the last one that did not.
    failed: u32,
    /// The lease is left to others until then.
    holds_off_until: Option<Timestamp>,
}

impl Region {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            lease: None,
            taking: false,
            listing: false,
            asked: None,
            heard: None,
            wanted: false,
            failed: 0,
            holds_off_until: None,
        }
    }

    /// The lease that this replica takes itself to hold.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The name of the region among rows that are no lease's.
    pub(super) fn key(&self) -> String {
        self.scope.key()
    }

    /// It is time to look after leases: whoever does not hold the region's tries to.
    pub(super) fn renewal_due(&mut self, now: Timestamp) -> Option<Call> {
        let holds_off = self.holds_off_until.is_some_and(|until| now < until);
        if self.lease.is_some() || holds_off || std::mem::replace(&mut self.taking, true) {
            return None;
        }
        self.holds_off_until = None;
        Some(Call::TakeRegion(self.scope.clone()))
    }

    /// The store answered. A holder is told once that somebody waits, so that its orderly end is heard of.
    pub(super) fn taken(&mut self, answer: Result<LeaseAnswer, StoreError>) -> Option<Call> {
        self.taking = false;
        match answer {
            Ok(LeaseAnswer::Granted { lease, .. }) => {
                info!(region = %lease.scope, epoch = lease.epoch, "listing the machines of this region");
                (self.lease, self.asked, self.wanted, self.failed) = (Some(lease), None, false, 0);
                None
            }
            Ok(LeaseAnswer::Held { owner, .. }) if self.asked.as_ref() == Some(&owner) => None,
            Ok(LeaseAnswer::Held { owner, .. }) => {
                debug!(region = %self.scope, owner, "another replica lists the machines of this region");
                self.asked = Some(owner);
                Some(Call::AskFor(self.scope.clone()))
            }
            Err(error) => {
                error!(region = %self.scope, %error, "the lease of a region could not be taken; trying again");
                None
            }
        }
    }

    /// Another replica waits for this lease.
    pub(super) fn is_wanted(&mut self, lease: &Lease) {
        self.wanted |= self.lease.as_ref() == Some(lease);
    }

    /// The lease has passed on; says whether it was this one.
    pub(super) fn lost(&mut self, lease: &Lease) -> bool {
        let ours = self.lease.as_ref() == Some(lease);
        if ours {
            warn!(region = %lease.scope, epoch = lease.epoch, "another replica lists the machines of this region");
            self.lease = None;
        }
        ours
    }

    /// It is time to look at the machines of these clusters.
    pub(super) fn listing_due<'c>(
        &mut self,
        clusters: impl Iterator<Item = &'c ClusterId>,
        now: Timestamp,
    ) -> Option<Call> {
        if std::mem::replace(&mut self.listing, true) {
            return None;
        }
        Some(match &self.lease {
            Some(lease) => Call::List { asked: now, lease: lease.clone() },
            None => Call::ReadListing { asked: now, scope: self.scope.clone(), clusters: clusters.cloned().collect() },
        })
    }

    /// The cloud has answered, or not. Who cannot list, and is waited for, makes room: what is wrong may be this replica's own
    /// credentials or network.
    pub(super) fn listed(&mut self, complete: bool, now: Timestamp) -> Option<Call> {
        self.listing = false;
        self.failed = if complete { 0 } else { self.failed.saturating_add(1) };
        if self.failed < MOST_FAILED || !self.wanted {
            return None;
        }
        let lease = self.lease.take()?;
        warn!(region = %lease.scope, failed = self.failed, "the machines of this region cannot be listed from here: another replica is let try");
        self.holds_off_until = Some(Timestamp(now.0.saturating_add(HOLD_OFF_MS)));
        Some(Call::Release(vec![lease]))
    }

    /// The store has answered a question of `asked` about `clusters`: their machines, and when the cloud was asked for them;
    /// `None` when there is no news.
    pub(super) fn overheard(
        &mut self,
        asked: Timestamp,
        clusters: Vec<ClusterId>,
        answer: Result<Option<KeptListing>, StoreError>,
    ) -> Option<(Timestamp, ByCluster)> {
        self.listing = false;
        let kept = answer.unwrap_or_else(|error| {
            warn!(%error, "the listing of the region's machines could not be read; nothing is concluded from that");
            None
        })?;
        if self.heard.replace(kept.number) == Some(kept.number) {
            return None;
        }
        // The age was counted when the store read it, which was after the question: the cloud was asked no earlier than this.
        let age = i64::try_from(kept.age.as_millis()).unwrap_or(i64::MAX);
        let mut machines: ByCluster = clusters.into_iter().map(|cluster| (cluster, Vec::new())).collect();
        for machine in kept.machines {
            if let Some(listed) = machines.get_mut(machine.cluster.as_str()) {
                listed.push(read(machine));
            }
        }
        Some((Timestamp(asked.0.saturating_sub(age)), machines))
    }
}

/// What a listing says about these clusters.
pub(super) fn sorted<'c>(clusters: impl Iterator<Item = &'c ClusterId>, instances: Vec<Instance>) -> ByCluster {
    let mut machines: ByCluster = clusters.map(|cluster| (cluster.clone(), Vec::new())).collect();
    for instance in instances {
        if let Some(listed) = machines.get_mut(&instance.cluster) {
            let ends = ends(&instance);
            let Instance { provider_id, cluster_uid, claim, .. } = instance;
            listed.push(ListedInstance { provider_id, cluster_uid, claim, ends });
        }
    }
    machines
}

/// The row of a machine.
pub(super) fn row(instance: &Instance) -> ListedMachine {
    ListedMachine {
        cluster: instance.cluster.to_string(),
        provider_id: instance.provider_id.to_string(),
        cluster_uid: instance.cluster_uid.to_string(),
        claim: instance.claim.to_string(),
        ends: ends(instance),
    }
}

fn read(machine: ListedMachine) -> ListedInstance {
    let ListedMachine { provider_id, cluster_uid, claim, ends, .. } = machine;
    ListedInstance { provider_id: provider_id.into(), cluster_uid: cluster_uid.into(), claim: claim.into(), ends }
}

fn ends(instance: &Instance) -> bool {
    matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated)
}

#[cfg(test)]
mod tests;
