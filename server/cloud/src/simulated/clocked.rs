//! The simulated cloud behind the port: a lock around the state machine, and a clock that its owner hands in.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::model::Timestamp;

use super::SimulatedCloud;
use crate::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner};

/// A simulated cloud that several tasks may call.
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
    /// `cloud`, with the time from `clock`.
    #[must_use]
    pub fn new(cloud: SimulatedCloud, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { cloud: Mutex::new(cloud), clock: Box::new(clock) }
    }

    /// The cloud itself, for its book and its weather. The lock must not be held across a call to the port.
    pub fn cloud(&self) -> MutexGuard<'_, SimulatedCloud> {
        // Every method of the state machine leaves it whole, so a panic elsewhere does not spoil it.
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl CloudProvider for ClockedCloud {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        self.cloud().launch(request, self.now())
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        self.cloud().terminate_of(owner, id, self.now())
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.cloud().describe(id).cloned()
    }

    async fn list(&self, cluster: &str) -> Result<Vec<Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud(), self.now());
        cloud.admit_list(now)?;
        Ok(cloud.list(cluster, now).cloned().collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud(), self.now());
        cloud.admit_list(now)?;
        Ok(cloud.list_all(now).cloned().collect())
    }

    async fn events(&self) -> Result<Vec<CloudEvent>, CloudError> {
        Ok(self.cloud().tick(self.now()))
    }
}
