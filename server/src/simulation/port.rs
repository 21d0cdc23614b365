//! One process's way to the store and to the cloud: each call travels there and back, and troubles strike in between.
//!
//! A process that dies while a call travels takes it along if it has not arrived, and loses its answer if it has.

mod rows;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner, instance_id,
};
use engine::model::Text;
use futures::future::FutureExt;

use super::guard::Guard;
use super::outside::{Act, CloudCall, Incarnation, Outside, Trouble};
use crate::store::lease::Lease;
use crate::store::memory::MemoryStore;
use crate::store::{Answer, StoreError};

/// One way to the store, least and most, in milliseconds.
const STORE_MS: (i64, i64) = (1, 15);
/// One way to the cloud.
const CLOUD_MS: (i64, i64) = (20, 600);

/// A process's way outside.
pub(super) struct Port {
    outside: Arc<Outside>,
    me: Incarnation,
    /// What the cloud has told this process and it has not fetched yet.
    told: Mutex<VecDeque<CloudEvent>>,
    /// The guard that is switched off.
    off: Option<Guard>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Port {
    pub(super) fn new(outside: Arc<Outside>, me: Incarnation, off: Option<Guard>) -> Self {
        Self { outside, me, told: Mutex::default(), off }
    }

    /// The cloud tells this process what has happened.
    pub(super) fn tell(&self, event: CloudEvent) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
    }

    /// Whether there is something to fetch.
    pub(super) fn is_told(&self) -> bool {
        !self.told.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn ask<'a, T: Send + 'a>(
        &'a self,
        what: &'static str,
        act: impl FnOnce(&'a MemoryStore) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        async move {
            let slow = self.outside.suffers(Trouble::StoreSlow).unwrap_or(0);
            self.outside.travel((STORE_MS.0 + slow, STORE_MS.1 + slow)).await;
            if self.outside.suffers(Trouble::StoreDown).is_some() {
                self.outside.felt("store calls refused");
                return Err(failed(what));
            }
            let answer = act(self.outside.store()).await;
            self.outside.travel(STORE_MS).await;
            if self.outside.strikes(Trouble::StoreAmbiguous) {
                self.outside.felt("store answers lost");
                return Err(failed(what));
            }
            answer
        }
        .boxed()
    }

    /// The lease as the store is told; with the fence off, as if it were the present one.
    fn shown(&self, lease: &Lease) -> Lease {
        let cluster = lease.scope.cluster_name().unwrap_or_default();
        let held = self.outside.books().held.get(cluster).copied();
        match (self.off, held) {
            (Some(Guard::StoreEpoch), Some(held)) => {
                Lease { epoch: held.epoch, owner: owner(held.by.process), ..lease.clone() }
            }
            _ => lease.clone(),
        }
    }

    /// What came of a write under `lease`; one that was taken too late is noted.
    fn written(&self, lease: &Lease, answer: Result<(), StoreError>) -> Result<(), StoreError> {
        let cluster = lease.scope.cluster_name().unwrap_or_default();
        let mut books = self.outside.books();
        if answer.is_ok() && books.held.get(cluster).is_some_and(|held| held.epoch > lease.epoch) {
            books.late_writes.insert(Text::from(cluster));
        }
        answer
    }

    fn note(&self, cluster: &Text, what: Act) {
        self.outside.books().calls.push(CloudCall { by: self.me, cluster: cluster.clone(), what });
    }

    async fn reach_cloud(&self) -> Result<(), CloudError> {
        self.outside.travel(CLOUD_MS).await;
        if self.outside.suffers(Trouble::CloudThrottles).is_some() {
            self.outside.felt("cloud calls throttled");
            return Err(CloudError::RequestLimitExceeded { retry_after_ms: 2_000 });
        }
        Ok(())
    }
}

/// The name that a process holds leases under.
pub(super) fn owner(process: usize) -> String {
    format!("server-{process}")
}

fn failed(what: &'static str) -> StoreError {
    StoreError::Database { what, source: sqlx::Error::PoolTimedOut }
}

impl CloudProvider for Port {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        let claim = request.claim.clone();
        self.note(&request.cluster, Act::Launch { claim });
        self.reach_cloud().await?;
        let lost = |felt| {
            self.outside.felt(felt);
            CloudError::Unknown { operation: Text::from("the launch") }
        };
        if self.outside.strikes(Trouble::CloudLost) && self.outside.die().percent(50) {
            return Err(lost("launches lost before"));
        }
        if self.outside.suffers(Trouble::LaunchesRefused).is_some() {
            self.outside.felt("launches refused");
            let (operation, code) = (Text::from("CreateFleet"), Text::from("UnauthorizedOperation"));
            return Err(CloudError::Refused { operation, code, message: "nobody may".to_owned() });
        }
        self.outside.stock();
        let outcome = self.outside.cloud().launch(request, self.outside.now());
        self.outside.travel(CLOUD_MS).await;
        if self.outside.strikes(Trouble::CloudLost) {
            return Err(lost("launches lost after"));
        }
        outcome
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let id = Text::from(instance_id(id));
        self.note(&Text::from(owner.cluster), Act::Terminate { id: id.clone() });
        self.reach_cloud().await?;
        let done = self.outside.cloud().terminate_of(owner, &id, self.outside.now());
        self.outside.travel(CLOUD_MS).await;
        if self.outside.strikes(Trouble::CloudLost) {
            self.outside.felt("terminations lost");
            return Err(CloudError::Unknown { operation: Text::from("the termination") });
        }
        done
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.reach_cloud().await?;
        self.outside.cloud().describe(id).cloned()
    }

    async fn list(&self, cluster: &str) -> Result<Vec<Instance>, CloudError> {
        let list = self.list_all().await?;
        Ok(list.into_iter().filter(|instance| instance.cluster.as_ref() == cluster).collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        self.reach_cloud().await?;
        let list = self.outside.listing()?;
        self.outside.travel(CLOUD_MS).await;
        Ok(list)
    }

    async fn events(&self) -> Result<Vec<CloudEvent>, CloudError> {
        Ok(self.told.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect())
    }
}
