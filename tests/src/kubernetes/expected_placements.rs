//! The planned node of each pod, from the server's live view.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use fleetwright_proto::v1::{ListPodsRequest, Pod, WatchPodsRequest};
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

/// Records the node that each pending pod was first assigned to. Ends when it is dropped.
#[derive(Debug)]
pub struct ExpectedPlacements {
    expected: Arc<Mutex<BTreeMap<String, String>>>,
    watching: JoinHandle<()>,
}

impl ExpectedPlacements {
    /// Begins to watch the server at `address`.
    ///
    /// # Errors
    /// When the server does not respond.
    pub async fn watch(address: &str) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        let mut client = FleetServiceClient::new(channel);
        let parent = "clusters/-/namespaces/-".to_owned();
        let expected = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let recorded = Arc::clone(&expected);
        let request = ListPodsRequest { parent: parent.clone(), page_size: 1_000, ..ListPodsRequest::default() };
        let listed = client.list_pods(request).await.context("no pods of the fleet")?.into_inner();
        record_placements(&listed.pods, &mut lock(&recorded));
        let request = WatchPodsRequest { parent, resume_token: listed.resume_token, ..WatchPodsRequest::default() };
        let mut changes = client.watch_pods(request).await.context("no changes of pods")?.into_inner();
        let watching = tokio::spawn(async move {
            while let Ok(Some(message)) = changes.message().await {
                record_placements(&message.pods, &mut lock(&recorded));
            }
        });
        Ok(Self { expected, watching })
    }

    /// NodeClaims by `namespace/name` of the pods.
    #[must_use]
    pub fn expected(&self) -> BTreeMap<String, String> {
        lock(&self.expected).clone()
    }
}

impl Drop for ExpectedPlacements {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn lock(expected: &Mutex<BTreeMap<String, String>>) -> MutexGuard<'_, BTreeMap<String, String>> {
    expected.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record_placements(pods: &[Pod], expected: &mut BTreeMap<String, String>) {
    for pod in pods.iter().filter(|pod| !pod.planned_node.is_empty()) {
        // clusters/{cluster}/namespaces/{namespace}/pods/{pod}
        if let [_, _, _, namespace, _, name] = pod.name.split('/').collect::<Vec<_>>()[..] {
            expected.entry(format!("{namespace}/{name}")).or_insert_with(|| pod.planned_node.clone());
        }
    }
}
