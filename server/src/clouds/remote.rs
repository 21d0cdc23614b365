//! A simulated cloud in another process, behind the port.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use cloud::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner};
use fleetwright_proto::MAX_MESSAGE_BYTES;
use fleetwright_proto::simulation::v1;
use fleetwright_proto::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::wire;

/// A cloud that does not take a connection in this time is tried again by the next call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A book of a long run is larger than what agents may say.
const BOOK_BYTES: usize = 64 * MAX_MESSAGE_BYTES;

/// The client of a simulated cloud's process, for servers and for whoever judges them.
pub(crate) type Client = SimulatedCloudServiceClient<Channel>;

/// A client that connects with its first call, and again whenever the connection is lost.
///
/// # Errors
/// When `address` is none.
pub(crate) fn client(address: &str) -> anyhow::Result<Client> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .with_context(|| format!("{address:?} is no address of a simulated cloud; write http://host:port"))?;
    let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true).connect_lazy();
    Ok(Client::new(channel).max_decoding_message_size(BOOK_BYTES))
}

/// A simulated cloud in another process.
#[derive(Debug)]
pub(crate) struct RemoteCloud {
    client: Client,
    /// The last event that was told; `None` before the first question, which only asks where the events stand.
    heard: Mutex<Option<u64>>,
}

impl RemoteCloud {
    /// The cloud at `address`.
    ///
    /// # Errors
    /// When `address` is none.
    pub(crate) fn at(address: &str) -> anyhow::Result<Self> {
        Ok(Self { client: client(address)?, heard: Mutex::new(None) })
    }

    fn heard(&self) -> MutexGuard<'_, Option<u64>> {
        // It is written in one step, so a panic elsewhere does not spoil it.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that failed on the way may have been carried out.
fn answer<T>(operation: &str, called: Result<Response<T>, Status>) -> Result<T, CloudError> {
    called.map(Response::into_inner).map_err(|status| wire::unknown(&format!("{operation} ({})", status.message())))
}

impl CloudProvider for RemoteCloud {
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        let called = self.client.clone().launch(wire::launch_request(request)).await;
        wire::read_launch_response(answer("the launch", called)?)
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        let (cluster, cluster_uid) = (owner.cluster.to_owned(), owner.uid.to_owned());
        let request = v1::TerminateRequest { id: id.to_owned(), cluster, cluster_uid };
        let called = self.client.clone().terminate(request).await;
        wire::refused(answer("the termination", called)?.failure)
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        let called = self.client.clone().describe(v1::DescribeRequest { id: id.to_owned() }).await;
        let response = answer("the description", called)?;
        wire::refused(response.failure)?;
        response.instance.map(wire::read_instance).ok_or_else(|| wire::unknown("the description"))
    }

    async fn list(&self, cluster: &str) -> Result<Vec<Instance>, CloudError> {
        let called = self.client.clone().list(v1::ListRequest { cluster: cluster.to_owned() }).await;
        let response = answer("the listing", called)?;
        wire::refused(response.failure)?;
        Ok(response.instances.into_iter().map(wire::read_instance).collect())
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        self.list("").await
    }

    async fn events(&self) -> Result<Vec<CloudEvent>, CloudError> {
        let after = *self.heard();
        let called = self.client.clone().events(v1::EventsRequest { after }).await;
        let response = answer("the question for events", called)?;
        *self.heard() = Some(response.last);
        Ok(response.events.into_iter().filter_map(wire::read_event).collect())
    }
}
