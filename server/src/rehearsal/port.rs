//! One process's way to the store and to the cloud: each call travels there and back, and troubles strike in between.
//!
//! A process that dies while a call travels takes it along if it has not arrived, and loses its answer if it has.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, instance_id,
};
use engine::model::Text;
use futures::future::{BoxFuture, FutureExt};

use super::guard::Guard;
use super::outside::{Act, CloudCall, Held, Incarnation, Outside, Trouble};
use crate::store::memory::MemoryStore;
use crate::store::{DecisionRecord, Intent, Lease, LeaseAnswer, Store, StoreError, StoredDecision};

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
        act: impl FnOnce(&'a MemoryStore) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        async move {
            let slow = self.outside.suffers(Trouble::StoreSlow).unwrap_or(0);
            self.outside.travel((STORE_MS.0 + slow, STORE_MS.1 + slow)).await;
            if self.outside.suffers(Trouble::StoreDown).is_some() {
                self.outside.felt("store calls refused");
                return Err(failed(what));
            }
            let answer = act(&self.outside.store).await;
            self.outside.travel(STORE_MS).await;
            if self.outside.strikes(Trouble::StoreAmbiguous) {
                self.outside.felt("store answers lost");
                return Err(failed(what));
            }
            answer
        }
        .boxed()
    }

    /// The lease as the store is told; with the fence off, as if its epoch were the present one.
    fn shown(&self, lease: &Lease) -> Lease {
        let held = self.outside.books().held.get(lease.cluster.as_str()).map(|held| held.epoch);
        match (self.off, held) {
            (Some(Guard::StoreEpoch), Some(epoch)) => Lease { epoch, ..lease.clone() },
            _ => lease.clone(),
        }
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
        self.outside.cloud().weather_mut().no_capacity = self.outside.suffers(Trouble::NoCapacity).is_some();
        let mut request = request.clone();
        if self.off == Some(Guard::Tokens) {
            request.token = Text::from(format!("{}-{}", request.token, self.outside.die().value()));
        }
        let outcome = self.outside.cloud().launch(&request, self.outside.now());
        self.outside.travel(CLOUD_MS).await;
        if self.outside.strikes(Trouble::CloudLost) {
            return Err(lost("launches lost after"));
        }
        outcome
    }

    async fn terminate(&self, id: &str) -> Result<(), CloudError> {
        let id = Text::from(instance_id(id));
        let cluster = self.outside.cloud().describe(&id).ok().map(|instance| instance.cluster.clone());
        self.note(&cluster.unwrap_or_default(), Act::Terminate { id: id.clone() });
        self.reach_cloud().await?;
        let done = self.outside.cloud().terminate(&id, self.outside.now());
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
        self.reach_cloud().await?;
        let list = self.outside.listing()?;
        self.outside.travel(CLOUD_MS).await;
        Ok(list.into_iter().filter(|instance| instance.cluster.as_ref() == cluster).collect())
    }

    async fn events(&self) -> Result<Vec<CloudEvent>, CloudError> {
        Ok(self.told.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect())
    }
}

impl Store for Port {
    fn take_lease<'a>(
        &'a self,
        cluster: &'a str,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> BoxFuture<'a, Result<LeaseAnswer, StoreError>> {
        self.ask("take a lease", move |store| {
            let taken = store.take_lease(cluster, owner, seen, duration);
            async move {
                let answer = taken.await;
                if let Ok(LeaseAnswer::Granted { lease, .. }) = &answer {
                    let held = Held { by: self.me, epoch: lease.epoch };
                    self.outside.books().held.insert(Text::from(cluster), held);
                }
                answer
            }
            .boxed()
        })
    }

    fn renew_lease<'a>(&'a self, lease: &'a Lease, duration: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask("renew a lease", move |store| store.renew_lease(lease, duration))
    }

    fn release_lease<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask("release a lease", move |store| store.release_lease(lease))
    }

    fn record<'a>(
        &'a self,
        lease: &'a Lease,
        decision: &'a DecisionRecord,
        intents: &'a [Intent],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask("record a decision", move |store| {
            async move { store.record(&self.shown(lease), decision, intents).await }.boxed()
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        outcome: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask("settle a launch", move |store| {
            async move { store.settle(&self.shown(lease), claim, outcome).await }.boxed()
        })
    }

    fn open_intents<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Vec<Intent>, StoreError>> {
        self.ask("read open launches", move |store| store.open_intents(cluster))
    }

    fn decisions<'a>(&'a self, cluster: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<StoredDecision>, StoreError>> {
        self.ask("read decisions", move |store| store.decisions(cluster, limit))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask("answer", |store| store.ping())
    }
}
