//! [`CloudProvider`] client of a simulated cloud in another process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use cloud::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner};
use fleetwright_proto::simulation::v1;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use fleetwright_rpc::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use model::ClusterName;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::wire;

/// Connect timeout; the next call connects again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum message size: the ledger of a long run exceeds the limit for agents.
const MAX_LEDGER_BYTES: usize = 64 * MAX_MESSAGE_BYTES;

/// gRPC client of a simulated cloud, for servers and test harnesses.
pub type Client = SimulatedCloudServiceClient<Channel>;

/// A client that connects on its first call, and reconnects when the connection is lost.
///
/// # Errors
/// When `address` is invalid.
pub fn client(address: &str) -> anyhow::Result<Client> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .with_context(|| format!("{address:?} is no address of a simulated cloud; write http://host:port"))?;
    let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true).connect_lazy();
    Ok(Client::new(channel).max_decoding_message_size(MAX_LEDGER_BYTES))
}

/// A simulated cloud in another process.
#[derive(Debug)]
pub struct RemoteCloud {
    client: Client,
    /// Number of the last event; `None` before the first poll, which only reads the position.
    last_event: Mutex<Option<u64>>,
}

impl RemoteCloud {
    /// Client of the cloud at `address`.
    ///
    /// # Errors
    /// When `address` is invalid.
    pub fn new(address: &str) -> anyhow::Result<Self> {
        Ok(Self { client: client(address)?, last_event: Mutex::new(None) })
    }

    fn last_event(&self) -> MutexGuard<'_, Option<u64>> {
        // Every change is atomic, so a poisoned lock holds valid data.
        self.last_event.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps a transport error to `Unknown`: the call may have been executed.
fn unwrap_response<T>(operation: &str, called: Result<Response<T>, Status>) -> Result<T, CloudError> {
    called.map(Response::into_inner).map_err(|status| wire::unknown(&format!("{operation} ({})", status.message())))
}

#[tonic::async_trait]
impl CloudProvider for RemoteCloud {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        let called = self.client.clone().launch(wire::launch_request(request)).await;
        wire::read_launch_response(unwrap_response("the launch", called)?)
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let (cluster, cluster_uid) = (owner.cluster.to_string(), owner.uid.to_owned());
        let request = v1::TerminateRequest { id: id.to_owned(), cluster, cluster_uid };
        let called = self.client.clone().terminate(request).await;
        wire::check_failure(unwrap_response("the termination", called)?.failure)
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        let called = self.client.clone().describe(v1::DescribeRequest { id: id.to_owned() }).await;
        let response = unwrap_response("the description", called)?;
        wire::check_failure(response.failure)?;
        response.instance.map(wire::read_instance).ok_or_else(|| wire::unknown("the description"))
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        let called = self.client.clone().list(v1::ListRequest { cluster: cluster.to_string() }).await;
        let response = unwrap_response("the listing", called)?;
        wire::check_failure(response.failure)?;
        Ok(response.instances.into_iter().map(wire::read_instance).collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        // An empty name requests the instances of all clusters.
        self.list(&ClusterName::default()).await
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        cloud::simulated::resolve_node_class(query)
    }

    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError> {
        let after = *self.last_event();
        let called = self.client.clone().events(v1::EventsRequest { after }).await;
        let response = unwrap_response("the question for events", called)?;
        *self.last_event() = Some(response.last);
        Ok(Some(response.events.into_iter().filter_map(wire::read_event).collect()))
    }
}
