//! Implements the agent's port for a Kubernetes API server.

use std::sync::Arc;
use std::time::Duration;

use agent::{Cluster, ClusterError, Done, Identity, ListWatch};
use fleetwright_proto::v1;
use tokio::task::JoinSet;

use crate::actions;
use crate::actions::drain::node_pods::NodePods;
use crate::actions::drain::volumes::Attachments;
use crate::actions::drain::{self, ServerDrains};
use crate::actions::event::{EventRecorder, EventSpec};
use crate::actions::guard::RemovalGuard;
use crate::api::Api;
use crate::autoscaler;
use crate::epoch::EpochStore;
use crate::error::ApiError;
use crate::nomination::{self, PendingRegistrations};
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
    /// Limits that no instruction exceeds.
    pub guard: RemovalGuard,
}

/// A cluster with its watches, for one agent.
pub struct Kubernetes {
    api: Api,
    identity: Identity,
    /// Identity of this process, as shown in events.
    instance: String,
    cache: Arc<ObjectCache>,
    epochs: EpochStore,
    events: EventRecorder,
    registrations: PendingRegistrations,
    server_drains: ServerDrains,
    guard: RemovalGuard,
    node_pods: NodePods,
    attachments: Attachments,
    /// The watches; they end with the cluster.
    _watches: JoinSet<()>,
}

impl Kubernetes {
    /// Starts to watch a cluster. `epochs` stores the highest epoch.
    #[must_use]
    pub fn start(api: Api, identity: Identity, epochs: EpochStore, options: ClusterOptions) -> Self {
        let cache = Arc::new(watch::empty_cache());
        let mut watches = watch::start_watches(&api, &cache, options.streaming_lists);
        watches.spawn(autoscaler::watch_autoscalers(api.clone(), Arc::clone(&cache), options.karpenter_absent));
        Self::new(api, identity, epochs, options, cache, watches)
    }

    /// A cluster with this cache and these watches.
    fn new(
        api: Api,
        identity: Identity,
        epochs: EpochStore,
        options: ClusterOptions,
        cache: Arc<ObjectCache>,
        watches: JoinSet<()>,
    ) -> Self {
        Self {
            api,
            identity,
            instance: options.instance,
            cache,
            epochs,
            events: EventRecorder::default(),
            registrations: PendingRegistrations::default(),
            server_drains: ServerDrains::default(),
            guard: options.guard,
            node_pods: NodePods::default(),
            attachments: Attachments::default(),
            _watches: watches,
        }
    }

    /// A cluster without watches: the test fills its cache.
    #[cfg(test)]
    pub(crate) fn unwatched(api: Api, guard: RemovalGuard) -> Self {
        let epochs = EpochStore::new(api.clone(), "default".to_owned(), "epochs".to_owned());
        let options =
            ClusterOptions { instance: "test".to_owned(), streaming_lists: true, karpenter_absent: false, guard };
        Self::new(api, Identity::default(), epochs, options, Arc::new(watch::empty_cache()), JoinSet::new())
    }

    /// The cache, for tests that fill it.
    #[cfg(test)]
    pub(crate) fn shared_cache(&self) -> Arc<ObjectCache> {
        Arc::clone(&self.cache)
    }

    /// Resumes the drains that the previous leader did not complete. Returns when they complete.
    pub async fn resume_drains(self: Arc<Self>) {
        let mut drains = JoinSet::new();
        for (node, annotation) in self.cache.annotated_nodes(drain::DRAIN_ANNOTATION).await {
            let cluster = Arc::clone(&self);
            drains.spawn(async move { drain::resume_drain(&cluster, &node, &annotation).await });
        }
        while drains.join_next().await.is_some() {}
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    pub(crate) fn cache(&self) -> &ObjectCache {
        &self.cache
    }

    pub(crate) fn registrations(&self) -> &PendingRegistrations {
        &self.registrations
    }

    pub(crate) fn server_drains(&self) -> &ServerDrains {
        &self.server_drains
    }

    pub(crate) fn guard(&self) -> &RemovalGuard {
        &self.guard
    }

    pub(crate) fn node_pods(&self) -> &NodePods {
        &self.node_pods
    }

    pub(crate) fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Whether this cluster's scheduler honours nominations.
    pub(crate) fn supports_nomination(&self) -> bool {
        nomination::is_supported(&self.identity.kubernetes_version)
    }

    pub(crate) async fn record_event(&self, spec: &EventSpec, uid: &str) -> Result<(), ApiError> {
        self.events.record_event(&self.api, &self.instance, spec, uid).await
    }
}

impl Cluster for Kubernetes {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        self.cache.list_and_watch(OBSERVE_TIMEOUT).await
    }

    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        actions::execute_instruction(self, &instruction).await
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        self.epochs.read_epoch().await.map_err(|error| cluster_error("read the highest epoch", &error))
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        self.epochs.raise_epoch(epoch).await.map_err(|error| cluster_error("store the highest epoch", &error))
    }
}

fn cluster_error(operation: &str, error: &ApiError) -> ClusterError {
    ClusterError { operation: operation.to_owned(), reason: error.to_string() }
}
