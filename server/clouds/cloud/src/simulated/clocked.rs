//! [`SimulatedCloud`] as a [`CloudProvider`]: a lock around the state machine, and a clock from the
//! owner.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{ClusterName, Timestamp};

use super::SimulatedCloud;
use crate::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner};

/// A simulated cloud for concurrent callers.
pub struct ClockedCloud {
    cloud: Mutex<SimulatedCloud>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for ClockedCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockedCloud").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

impl ClockedCloud {
    /// `cloud`, on `clock`.
    #[must_use]
    pub fn new(cloud: SimulatedCloud, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { cloud: Mutex::new(cloud), clock: Box::new(clock) }
    }

    /// The state machine, for its ledger and fault profile. The lock must not be held across a
    /// provider call.
    pub fn cloud(&self) -> MutexGuard<'_, SimulatedCloud> {
        // Every method leaves the state valid, so a poisoned lock holds valid data.
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current time of the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

#[async_trait]
impl CloudProvider for ClockedCloud {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        self.cloud().launch(request, self.now())
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        self.cloud().terminate_owned(owner, id, self.now())
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.cloud().describe(id).cloned()
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud(), self.now());
        cloud.check_listing(now)?;
        Ok(cloud.list(cluster, now).cloned().collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud(), self.now());
        cloud.check_listing(now)?;
        Ok(cloud.list_all(now).cloned().collect())
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        super::resolve_node_class(query)
    }

    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError> {
        Ok(Some(self.cloud().tick(self.now())))
    }
}
