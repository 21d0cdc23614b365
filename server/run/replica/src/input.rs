//! Inputs of a replica: events of agents and the cloud, timers, and the answers to its calls.

use cloud::provider::{CloudError, CloudEvent, Instance};
use controller::ClusterEvent;
use controller::executor::{CommandId, Outcome, Retry};
use model::{ClusterName, Timestamp};

use super::call::{Call, CounterUpdate};
use agent_session::SessionEvent;
use store::StoreError;
use store::counters::RemoteCounters;
use store::interruptions::StoredInterruption;
use store::lease::{LeaseOutcome, Renewal};
use store::listing::StoredListing;
use store::operations::RecentAttempt;

/// An event that this process handles.
#[derive(Debug)]
pub enum Input {
    /// An event of an agent session.
    Session(SessionEvent),
    /// Answer to [`Call::TakeLease`].
    LeaseAnswered {
        cluster: ClusterName,
        answer: Result<LeaseOutcome, StoreError>,
        /// Recent launches of the cluster, if the lease was granted.
        past: Vec<RecentAttempt>,
        /// What consolidation moved lately in the cluster, if the lease was granted.
        moves: Vec<String>,
    },
    /// Answer to [`Call::RunCommand`].
    CommandEnded { cluster: ClusterName, id: CommandId, outcome: Outcome },
    /// Answer to [`Call::PollCloud`]; `None` when the cloud did not answer.
    CloudEvents(Option<Vec<CloudEvent>>),
    /// Result of a renewal: lost and requested leases.
    Renewed(Renewal),
    /// Answer to [`Call::TakeRegionLease`].
    RegionLeaseAnswered(Result<LeaseOutcome, StoreError>),
    /// Answer to [`Call::ListInstances`] requested at `asked`, or why it was not sent.
    Listed { asked: Timestamp, answer: Result<Vec<Instance>, ListingError> },
    /// Answer to [`Call::ReadListing`] requested at `asked` about these clusters.
    ListingRead { asked: Timestamp, clusters: Vec<ClusterName>, answer: Result<Option<StoredListing>, StoreError> },
    /// Answer to [`Call::ReadInterruptions`].
    InterruptionsRead(Result<Vec<StoredInterruption>, StoreError>),
    /// Answer to [`Call::PollInstanceStatus`], or why it failed.
    InstanceStatusPolled(Result<(), String>),
    /// Answer to [`Call::SyncCounters`]: the update that the store acknowledged, and the counters
    /// of other replicas.
    CountersSynced { acknowledged: Option<CounterUpdate>, answer: Result<RemoteCounters, StoreError> },
    /// What a call of a cluster resulted in.
    ClusterEvent(ClusterEvent),
    /// A call without a result has ended.
    Done,
    /// Timer: poll cloud events.
    CloudPoll,
    /// Timer: synchronize counters with other replicas.
    CounterSyncDue,
    /// Timer: renew every lease.
    RenewalDue,
    /// A replica has requested or released a lease.
    LeaseRequested,
    /// Timer: list instances.
    ListingDue,
    /// Timer: read the notices about instances, and poll their status.
    InterruptionsDue,
    /// Timer: deadlines may be due.
    Time,
}

/// Why the instances were not listed.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error("the region's lease may have run out")]
    LeaseExpired,
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

impl Call {
    /// The moment at which the call is abandoned and the input that follows then; `None` for calls
    /// without a limit.
    pub fn limit(&self) -> Option<(Timestamp, Input)> {
        let Self::RunCommand { cluster, id, answer_by, .. } = self else { return None };
        let outcome = Err(Retry { after: None, why: "no answer in time".to_owned() });
        Some((*answer_by, Input::CommandEnded { cluster: cluster.clone(), id: *id, outcome }))
    }
}
