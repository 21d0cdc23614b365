//! Implements the agent's port for a Kubernetes API server.

use std::sync::Arc;
use std::time::Duration;

use agent::config::FactsConfig;
use agent::{Cluster, ClusterError, Done, Identity, ListWatch};
use fleetwright_proto::v1;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

use crate::actions::InstructionExecutor;
use crate::actions::drain::DRAIN_ANNOTATION;
use crate::actions::event::EventRecorder;
use crate::actions::guard::RemovalGuard;
use crate::api::Api;
use crate::api_access::ApiAccess;
use crate::autoscaler;
use crate::epoch::EpochStore;
use crate::error::ApiError;
use crate::facts::FactsReader;
use crate::nomination;
use crate::object_cache::ObjectCache;
use crate::watch;

/// Timeout of the first list; the next attempt waits again.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of an agent in its cluster.
#[derive(Debug)]
pub struct ClusterOptions {
    /// Identity of this process, as shown in events.
    pub instance: String,
    /// Whether to use streaming lists; otherwise lists in pages.
    pub streaming_lists: bool,
    /// The operator states that no Karpenter is active in the cluster.
    pub karpenter_absent: bool,
    /// How the client reaches the API server.
    pub access: ApiAccess,
    /// What nodes need to join the cluster, as far as it is configured.
    pub facts: FactsConfig,
    pub guard: RemovalGuard,
}

/// A cluster with its watches, for one agent.
pub struct Kubernetes {
    identity: Identity,
    facts: FactsReader,
    cache: Arc<ObjectCache>,
    epochs: EpochStore,
    executor: InstructionExecutor,
    /// Whether the API server does not answer; `None` where nothing observes that.
    unreachable: Option<Receiver<bool>>,
    /// The watches; they end with the cluster.
    _watches: JoinSet<()>,
}

impl Kubernetes {
    /// Starts to watch a cluster. `epochs` stores the highest epoch.
    #[must_use]
    pub fn start(api: Api, identity: Identity, epochs: EpochStore, options: ClusterOptions) -> Self {
        let facts = FactsReader::new(api.clone(), options.access, options.facts);
        let cache = Arc::new(watch::empty_cache());
        let mut watches = watch::start_watches(&api, &cache, options.streaming_lists);
        watches.spawn(autoscaler::watch_autoscalers(api.clone(), Arc::clone(&cache), options.karpenter_absent));
        let events = EventRecorder::new(api.clone(), options.instance);
        let supports_nomination = nomination::is_supported(&identity.kubernetes_version);
        let executor = InstructionExecutor::new(api, Arc::clone(&cache), options.guard, events, supports_nomination);
        Self { identity, facts, cache, epochs, executor, unreachable: None, _watches: watches }
    }

    /// Reports to the server when the API server does not answer.
    #[must_use]
    pub fn with_api_server_status(self, unreachable: Receiver<bool>) -> Self {
        Self { unreachable: Some(unreachable), ..self }
    }

    /// Resumes the drains that the previous leader did not complete. Returns when they complete.
    pub async fn resume_drains(self: Arc<Self>) {
        let mut drains = JoinSet::new();
        for (node, annotation) in self.cache.annotated_nodes(DRAIN_ANNOTATION).await {
            let cluster = Arc::clone(&self);
            drains.spawn(async move { cluster.executor.resume_drain(&node, &annotation).await });
        }
        while drains.join_next().await.is_some() {}
    }

    fn epoch_error(&self, operation: &str, error: &ApiError) -> ClusterError {
        let remedy = self.epochs.remedy(error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
        ClusterError { operation: operation.to_owned(), reason: format!("{error}{remedy}") }
    }
}

impl Cluster for Kubernetes {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    async fn facts(&self) -> Option<v1::ClusterFacts> {
        Some(self.facts.read().await)
    }

    fn api_server_unreachable(&self) -> Option<Receiver<bool>> {
        self.unreachable.clone()
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        self.cache.list_and_watch(OBSERVE_TIMEOUT).await
    }

    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        self.executor.execute_instruction(&instruction).await
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        self.epochs.read_epoch().await.map_err(|error| self.epoch_error("read the highest epoch", &error))
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        self.epochs.raise_epoch(epoch).await.map_err(|error| self.epoch_error("store the highest epoch", &error))
    }
}
