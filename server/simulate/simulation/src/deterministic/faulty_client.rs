//! The cloud client of one process, and what is between it and the store: each call takes time in both directions, and faults
//! apply in between.
//!
//! If the process dies, a call that has not arrived is lost, and the answer of one that has arrived
//! is lost.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, InstanceState, LaunchOutcome, LaunchRequest, Owner, instance_id,
};
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{ClusterName, Text};

use super::environment::{CloudAction, CloudCall, Environment, EnvironmentFault, LeaseOwner, ProcessId, locked};
use super::guard::Guard;
use store::counters::RemoteCounters;
use store::lease::{Lease, LeaseOutcome};
use store::memory::Interceptor;
use store::{StoreError, StoreResult};

/// One-way latency to the store, least and most, in milliseconds.
const STORE_MS: (i64, i64) = (1, 15);
const CLOUD_MS: (i64, i64) = (20, 600);

/// Client of one process for the cloud, and [interceptor](Interceptor) of its calls to the store.
pub(super) struct FaultyClient {
    environment: Arc<Environment>,
    process_id: ProcessId,
    /// Cloud events that this process has not polled yet.
    events: Mutex<VecDeque<CloudEvent>>,
    /// Instances that existed at the last listing and that it lacks, while answers by id repeat it.
    unlisted: Mutex<BTreeSet<Text>>,
    off: Option<Guard>,
}

impl std::fmt::Debug for FaultyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("me", &self.process_id).finish_non_exhaustive()
    }
}

impl FaultyClient {
    pub(super) fn new(environment: Arc<Environment>, process_id: ProcessId, off: Option<Guard>) -> Self {
        Self { environment, process_id, events: Mutex::default(), unlisted: Mutex::default(), off }
    }

    /// Queues a cloud event for this process.
    pub(super) fn push_event(&self, event: CloudEvent) {
        locked(&self.events).push_back(event);
    }

    pub(super) fn has_events(&self) -> bool {
        !locked(&self.events).is_empty()
    }

    /// Records what `list` lacks. With the guard `inspection` off, an answer by id repeats the
    /// listing; with `lists` off as well, because a failed listing does no harm otherwise.
    fn record_unlisted(&self, list: &[Instance]) {
        if matches!(self.off, Some(Guard::Lists | Guard::Inspection)) {
            let existing = self.environment.existing_instances().into_iter().map(|instance| instance.id);
            let is_listed = |id: &Text| list.iter().any(|instance| instance.id == *id);
            *locked(&self.unlisted) = existing.filter(|id| !is_listed(id)).collect();
        }
    }

    fn record_call(&self, cluster: &ClusterName, what: CloudAction) {
        self.environment.ledger().calls.push(CloudCall { by: self.process_id, cluster: cluster.clone(), what });
    }

    async fn reach_cloud(&self) -> Result<(), CloudError> {
        self.environment.delay(CLOUD_MS).await;
        if self.environment.active_fault(EnvironmentFault::CloudThrottles).is_some() {
            self.environment.count_effect("cloud calls throttled");
            return Err(CloudError::RequestLimitExceeded { retry_after_ms: 2_000 });
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Interceptor for FaultyClient {
    async fn before(&self, call: &'static str) -> StoreResult<()> {
        let slow = self.environment.active_fault(EnvironmentFault::StoreSlow).unwrap_or(0);
        self.environment.delay((STORE_MS.0 + slow, STORE_MS.1 + slow)).await;
        if self.environment.active_fault(EnvironmentFault::StoreDown).is_some() {
            self.environment.count_effect("store calls refused");
            return Err(failed(call));
        }
        Ok(())
    }

    async fn after(&self, call: &'static str) -> StoreResult<()> {
        self.environment.delay(STORE_MS).await;
        if self.environment.fault_hits(EnvironmentFault::StoreAmbiguous) {
            self.environment.count_effect("store answers lost");
            return Err(failed(call));
        }
        Ok(())
    }

    /// With the guard `store-epoch` off, a lease is presented as if it were current.
    fn change_request(&self, request: &mut dyn Any) {
        let (Some(Guard::StoreEpoch), Some(lease)) = (self.off, request.downcast_mut::<Lease>()) else { return };
        let held = self.environment.ledger().held.get(lease.scope.cluster_name().unwrap_or_default()).copied();
        if let Some(held) = held {
            (lease.epoch, lease.owner) = (held.epoch, owner(held.by.process));
        }
    }

    fn change_answer(&self, answer: &mut dyn Any) {
        if let Some(Ok(LeaseOutcome::Granted { lease, open })) = answer.downcast_mut::<StoreResult<LeaseOutcome>>() {
            match self.off {
                Some(Guard::Recovery) => open.intents.clear(),
                Some(Guard::Extents) => open.extent = None,
                // The records stand in for plans that know of machines in flight.
                Some(Guard::Replacements | Guard::InFlight) => open.replacements.clear(),
                _ => {}
            }
            if let Some(cluster) = lease.scope.cluster_name() {
                let held = LeaseOwner { by: self.process_id, epoch: lease.epoch };
                self.environment.ledger().held.insert(ClusterName::from(cluster), held);
            }
        }
        if let (Some(Guard::RemoteCounters), Some(counters)) =
            (self.off, answer.downcast_mut::<StoreResult<RemoteCounters>>())
        {
            *counters = Ok(RemoteCounters::default());
        }
    }

    /// Records a write that the store should have refused.
    fn written(&self, lease: &Lease) {
        let cluster = lease.scope.cluster_name().unwrap_or_default();
        let mut ledger = self.environment.ledger();
        if ledger.held.get(cluster).is_some_and(|held| held.epoch > lease.epoch) {
            ledger.late_writes.insert(ClusterName::from(cluster));
        }
    }
}

/// Lease owner name of a process.
pub(super) fn owner(process: usize) -> String {
    format!("server-{process}")
}

fn failed(what: &'static str) -> StoreError {
    StoreError::Database { what, cause: sqlx::Error::PoolTimedOut.into() }
}

#[tonic::async_trait]
impl CloudProvider for FaultyClient {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        let claim = request.claim.clone();
        self.record_call(&request.cluster, CloudAction::Launch { claim });
        self.reach_cloud().await?;
        let lost = |effect| {
            self.environment.count_effect(effect);
            CloudError::Unknown { operation: Text::from("the launch") }
        };
        if self.environment.fault_hits(EnvironmentFault::CloudLost) && self.environment.next_rng().percent(50) {
            return Err(lost("launches lost before"));
        }
        if self.environment.active_fault(EnvironmentFault::LaunchesRefused).is_some() {
            self.environment.count_effect("launches refused");
            let (operation, code) = (Text::from("CreateFleet"), Text::from("UnauthorizedOperation"));
            return Err(CloudError::Refused { operation, code, message: "no permission".to_owned() });
        }
        self.environment.apply_capacity_faults();
        let outcome = self.environment.cloud().launch(request, self.environment.now());
        self.environment.delay(CLOUD_MS).await;
        if self.environment.fault_hits(EnvironmentFault::CloudLost) {
            return Err(lost("launches lost after"));
        }
        outcome
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let id = Text::from(instance_id(id));
        self.record_call(owner.cluster, CloudAction::Terminate { id: id.clone() });
        self.reach_cloud().await?;
        let done = self.environment.cloud().terminate_owned(owner, &id, self.environment.now());
        self.environment.delay(CLOUD_MS).await;
        if self.environment.fault_hits(EnvironmentFault::CloudLost) {
            self.environment.count_effect("terminations lost");
            return Err(CloudError::Unknown { operation: Text::from("the termination") });
        }
        done
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.reach_cloud().await?;
        let instance = self.environment.cloud().describe(id).cloned()?;
        let unlisted = locked(&self.unlisted).contains(id);
        Ok(if unlisted { Instance { state: InstanceState::Terminated, ..instance } } else { instance })
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        let list = self.list_all().await?;
        Ok(list.into_iter().filter(|instance| instance.cluster == *cluster).collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        self.reach_cloud().await?;
        let list = match self.environment.listing() {
            // Without the guard, what was read before the failure counts as the whole listing.
            Err(_) if self.off == Some(Guard::Lists) => Vec::new(),
            list => list?,
        };
        self.record_unlisted(&list);
        self.environment.delay(CLOUD_MS).await;
        Ok(list)
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        cloud::simulated::resolve_node_class(query)
    }

    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError> {
        Ok(Some(locked(&self.events).drain(..).collect()))
    }
}
