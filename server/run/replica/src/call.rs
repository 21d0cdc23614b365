//! Calls that a replica asks the surrounding loop to make.

use std::time::Duration;

use controller::ClusterCall;
use controller::executor::CommandId;
use controller::unavailable_offerings::{OfferingKey, OfferingUpdate};
use model::{ClusterName, Millis, Text, Timestamp};
use store::counters::CounterRow;
use store::guardrails::AuditEntry;
use store::lease::{Lease, Scope};

/// A call to the store or the cloud, answered by an [`Input`](crate::Input).
#[derive(Debug)]
pub enum Call {
    /// Acquire the lease of a cluster with an epoch above `agent_epoch`, the highest that its agent
    /// has stored, unless the cluster name is bound to another UID. What consolidation has moved within
    /// `moves_within` is read with it.
    TakeLease {
        cluster: ClusterName,
        agent_epoch: u64,
        uid: Text,
        moves_within: Millis,
    },
    RenewLeases(Vec<Lease>),
    ReleaseLeases(Vec<Lease>),
    /// Request the lease of this cluster or region from its holder.
    RequestLease(Scope),
    TakeRegionLease(Scope),
    PollCloud,
    /// List all instances and store the list for the other replicas.
    ListInstances {
        asked: Timestamp,
        lease: Lease,
    },
    /// Read the instances of these clusters that another replica has listed.
    ReadListing {
        asked: Timestamp,
        scope: Scope,
        clusters: Vec<ClusterName>,
    },
    /// Read the notices about instances that were stored after number `after` and less than `within` ago.
    ReadInterruptions {
        scope: Scope,
        after: u64,
        within: Millis,
    },
    /// Read the status of all instances, and store what it says as notices.
    PollInstanceStatus(Scope),
    /// Write an audit entry of an operator's action.
    Audit(AuditEntry),
    /// Tell the replicas of this region what launches showed of offerings. `holder` is this process, as probes name it.
    PublishOfferings {
        scope: Scope,
        updates: Vec<OfferingUpdate>,
        holder: String,
    },
    /// Claim the probes of these offerings for `holder` until about `until`; answered by
    /// [`Input::ClusterEvent`](crate::Input::ClusterEvent).
    ClaimProbes {
        cluster: ClusterName,
        scope: Scope,
        keys: Vec<OfferingKey>,
        holder: String,
        until: Timestamp,
    },
    /// Publish this process generation's counters and read those of other replicas.
    SyncCounters {
        generation: u64,
        update: Option<CounterUpdate>,
        within: Duration,
    },
    /// Run a command under the lease of its cluster; abandon it at `answer_by`.
    RunCommand {
        cluster: ClusterName,
        id: CommandId,
        call: ClusterCall,
        answer_by: Timestamp,
        lease: Lease,
    },
}

/// The counters that a process writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUpdate {
    /// When the counters were read.
    pub(crate) at: Timestamp,
    /// Machines of the clusters that the process decides for.
    pub machines: i64,
    /// Complete values of the changed buckets.
    pub rows: Vec<CounterRow>,
}
