//! A client of another replica, which asks for the part of an answer that the other one knows itself.

use std::time::Duration;

use auth::cluster_access::{CLUSTERS_KEY, ClusterAccess};
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use fleetwright_rpc::v1::capacity_service_client::CapacityServiceClient;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use hyper_util::rt::TokioIo;
use store::replicas::ReplicaEndpoint;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tower::service_fn;

/// Metadata key of requests for the part of an answer that the replica itself knows.
pub(crate) const PART_KEY: &str = "fleetwright-part";

/// Deadline of a request to a replica.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum bytes of an answer: a part has as many rows as the greatest page.
const MAX_PART_BYTES: usize = 4 * MAX_MESSAGE_BYTES;

pub(crate) type ReplicaClient = FleetServiceClient<InterceptedService<Channel, ReplicaCredentials>>;

/// Client of the capacity of another replica.
pub(crate) type CapacityClient = CapacityServiceClient<InterceptedService<Channel, ReplicaCredentials>>;

#[derive(Clone)]
pub(crate) struct ReplicaConnection {
    channel: Channel,
    bearer: AsciiMetadataValue,
}

impl ReplicaConnection {
    /// The client of the fleet, for requests of clients with this access.
    pub(crate) fn fleet(&self, access: &ClusterAccess) -> ReplicaClient {
        let client = FleetServiceClient::with_interceptor(self.channel.clone(), self.credentials(access));
        client.max_decoding_message_size(MAX_PART_BYTES)
    }

    /// The client of the capacity, for requests of clients with this access.
    pub(crate) fn capacity(&self, access: &ClusterAccess) -> CapacityClient {
        let client = CapacityServiceClient::with_interceptor(self.channel.clone(), self.credentials(access));
        client.max_decoding_message_size(MAX_PART_BYTES)
    }

    fn credentials(&self, access: &ClusterAccess) -> ReplicaCredentials {
        // Names of clusters have no character that metadata lack; the other replica refuses a request with an empty value.
        let value = |clusters: String| clusters.parse().unwrap_or_else(|_| AsciiMetadataValue::from_static(""));
        let clusters = access.to_metadata().map(value);
        ReplicaCredentials { bearer: self.bearer.clone(), clusters }
    }
}

/// Adds the token of the replica that is asked and what the client may see, and asks for its part alone.
#[derive(Clone)]
pub(crate) struct ReplicaCredentials {
    bearer: AsciiMetadataValue,
    clusters: Option<AsciiMetadataValue>,
}

impl Interceptor for ReplicaCredentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.bearer.clone());
        request.metadata_mut().insert(PART_KEY, AsciiMetadataValue::from_static("1"));
        if let Some(clusters) = &self.clusters {
            request.metadata_mut().insert(CLUSTERS_KEY, clusters.clone());
        }
        Ok(request)
    }
}

/// A connection to the replica at `endpoint`, once it is connected.
pub(super) async fn connect(endpoint: &ReplicaEndpoint) -> Result<ReplicaConnection, String> {
    let ReplicaEndpoint { address, token, certificate } = endpoint.clone();
    if address.is_empty() {
        return Err("it has told no address; set listen.advertise".to_owned());
    }
    let bearer = AsciiMetadataValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
    let dial = service_fn(move |_| {
        let (address, certificate) = (address.clone(), certificate.clone());
        async move { auth::replica_connection::connect(&address, &certificate).await.map(TokioIo::new) }
    });
    // The connection is that of `dial`; the address here is the authority of its requests.
    let channel = Endpoint::from_static("http://localhost")
        .timeout(REQUEST_TIMEOUT)
        .http2_keep_alive_interval(Duration::from_secs(1))
        .keep_alive_timeout(Duration::from_secs(2))
        .keep_alive_while_idle(true)
        .connect_with_connector(dial)
        .await
        .map_err(|error| innermost(&error))?;
    let mut bearer = bearer;
    bearer.set_sensitive(true);
    Ok(ReplicaConnection { channel, bearer })
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
