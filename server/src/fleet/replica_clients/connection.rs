//! A client of another replica, which asks for the part of an answer that the other one knows itself.

use std::time::Duration;

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

/// Client of another replica.
pub(crate) type ReplicaClient = FleetServiceClient<InterceptedService<Channel, ReplicaCredentials>>;

/// Client of the capacity of another replica.
pub(crate) type CapacityClient = CapacityServiceClient<InterceptedService<Channel, ReplicaCredentials>>;

/// A connection to another replica, with a client for each service.
#[derive(Clone)]
pub(crate) struct ReplicaConnection {
    pub(crate) fleet: ReplicaClient,
    pub(crate) capacity: CapacityClient,
}

/// Adds the token of the replica that is asked, and asks for its part alone.
#[derive(Clone)]
pub(crate) struct ReplicaCredentials {
    bearer: AsciiMetadataValue,
}

impl Interceptor for ReplicaCredentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.bearer.clone());
        request.metadata_mut().insert(PART_KEY, AsciiMetadataValue::from_static("1"));
        Ok(request)
    }
}

/// Whether the client asks for the part that this replica knows.
pub(crate) fn is_part<T>(request: &Request<T>) -> bool {
    request.metadata().contains_key(PART_KEY)
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
    let credentials = ReplicaCredentials { bearer };
    let fleet = FleetServiceClient::with_interceptor(channel.clone(), credentials.clone());
    let capacity = CapacityServiceClient::with_interceptor(channel, credentials);
    // A part has as many rows as the greatest page.
    let most = 4 * MAX_MESSAGE_BYTES;
    Ok(ReplicaConnection {
        fleet: fleet.max_decoding_message_size(most),
        capacity: capacity.max_decoding_message_size(most),
    })
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
