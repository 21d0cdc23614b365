//! The planned node of each pod, from the server's live view.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use fleetwright_proto::v1::{WatchRequest, WatchResponse};
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

/// Minimum interval between two views, in milliseconds.
const INTERVAL_MS: u32 = 100;

/// Records the node that each pending pod was first assigned to. Ends when it is dropped.
#[derive(Debug)]
pub struct ExpectedPlacements {
    expected: Arc<Mutex<BTreeMap<String, String>>>,
    watching: JoinHandle<()>,
}

impl ExpectedPlacements {
    /// Begins to watch the server at `address`. A view has at most 200 pending pods.
    ///
    /// # Errors
    /// When the server does not respond.
    pub async fn watch(address: &str) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        let request = WatchRequest { cluster_name: String::new(), min_interval_ms: INTERVAL_MS };
        let mut views =
            FleetServiceClient::new(channel).watch(request).await.context("no view of the fleet")?.into_inner();
        let expected = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let recorded = Arc::clone(&expected);
        let watching = tokio::spawn(async move {
            while let Ok(Some(view)) = views.message().await {
                record_placements(&view, &mut recorded.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        Ok(Self { expected, watching })
    }

    /// NodeClaims by `namespace/name` of the pods.
    #[must_use]
    pub fn expected(&self) -> BTreeMap<String, String> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ExpectedPlacements {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn record_placements(view: &WatchResponse, expected: &mut BTreeMap<String, String>) {
    for pod in view.clusters.iter().flat_map(|cluster| &cluster.pending_pods) {
        if !pod.expected_on.is_empty() {
            let name = format!("{}/{}", pod.namespace, pod.name);
            expected.entry(name).or_insert_with(|| pod.expected_on.clone());
        }
    }
}
