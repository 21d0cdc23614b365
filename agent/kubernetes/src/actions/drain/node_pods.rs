//! The pods on the nodes that are being drained.
//!
//! The cache is keyed by pod, and a scan for every drain would grow with the number of drains: one
//! scan a second serves all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Record;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::eviction_order::{self, NodePod};
use crate::api::Api;
use crate::error::{ApiError, ErrorKind};
use crate::object_cache::ObjectCache;
use crate::records::pod;
use crate::records::shape::ShapeInterner;
use crate::resource::POD;
use crate::timestamps::now_ms;

/// Maximum age of a scan of the cache.
const MAX_AGE: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub struct NodePods(Mutex<CachedPods>);

#[derive(Debug, Default)]
struct CachedPods {
    /// Number of drains of each node.
    nodes: BTreeMap<String, usize>,
    refreshed: Option<Instant>,
    pods: BTreeMap<String, Vec<NodePod>>,
}

/// Registration of one drain, until it is dropped.
pub(crate) struct DrainHandle<'r> {
    node_pods: &'r NodePods,
    node: String,
}

impl NodePods {
    /// Registers a drain of `node`, until the returned value is dropped.
    pub(crate) fn register_drain(&self, node: &str) -> DrainHandle<'_> {
        let mut inner = self.inner();
        *inner.nodes.entry(node.to_owned()).or_default() += 1;
        DrainHandle { node_pods: self, node: node.to_owned() }
    }

    fn inner(&self) -> MutexGuard<'_, CachedPods> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DrainHandle<'_> {
    /// The pods on the node at `now`, from a scan of the cache within the last second.
    pub(crate) fn pods(&self, cache: &ObjectCache, now: i64) -> Vec<NodePod> {
        let mut inner = self.node_pods.inner();
        let fresh = inner.refreshed.is_some_and(|refreshed| refreshed.elapsed() < MAX_AGE);
        if !fresh || !inner.pods.contains_key(&self.node) {
            let nodes: BTreeSet<String> = inner.nodes.keys().cloned().collect();
            inner.pods = cache.pods_on_nodes(&nodes, now);
            inner.refreshed = Some(Instant::now());
        }
        inner.pods.get(&self.node).cloned().unwrap_or_default()
    }
}

impl Drop for DrainHandle<'_> {
    fn drop(&mut self) {
        let mut inner = self.node_pods.inner();
        if let Some(drains) = inner.nodes.get_mut(&self.node) {
            *drains -= 1;
            if *drains == 0 {
                inner.nodes.remove(&self.node);
                inner.pods.remove(&self.node);
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct PodList {
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    r#continue: String,
}

/// Lists the pods on `node` from the API server.
pub(crate) async fn list_node_pods(api: &Api, node: &str) -> Result<Vec<NodePod>, ApiError> {
    let mut pods = Vec::new();
    let mut shared = ShapeInterner::default();
    let mut next = String::new();
    loop {
        let path = format!("{}?fieldSelector=spec.nodeName%3D{node}&limit=250&continue={next}", POD.all());
        let page: PodList = api.get(&path).await?;
        for item in &page.items {
            let parsed = pod::parse(item.get(), &mut shared).map_err(|error| ApiError {
                kind: ErrorKind::Server,
                ..ApiError::unreachable(format!("read a pod of Node {node}"), error)
            })?;
            if let Record::Pod { record, shape, volume_claims, .. } = parsed.record {
                pods.push(eviction_order::node_pod(&record, &shape, volume_claims.as_ref(), now_ms()));
            }
        }
        next = page.metadata.r#continue;
        if next.is_empty() {
            return Ok(pods);
        }
    }
}
