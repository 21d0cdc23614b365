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

/// Deadline of a request about the fleet, whose answer is in memory.
const FLEET_TIMEOUT: Duration = Duration::from_secs(5);

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
    pub fn fleet(&self, access: &ClusterAccess) -> ReplicaClient {
        let credentials = ReplicaCredentials { timeout: Some(FLEET_TIMEOUT), ..self.credentials(access) };
        let client = FleetServiceClient::with_interceptor(self.channel.clone(), credentials);
        client.max_decoding_message_size(MAX_PART_BYTES)
    }

    /// The client of the capacity, for requests of clients with this access. Each request states what is left of the deadline
    /// of the client's own.
    pub fn capacity(&self, access: &ClusterAccess) -> CapacityClient {
        let client = CapacityServiceClient::with_interceptor(self.channel.clone(), self.credentials(access));
        client.max_decoding_message_size(MAX_PART_BYTES)
    }

    fn credentials(&self, access: &ClusterAccess) -> ReplicaCredentials {
        // Names of clusters have no character that metadata lack; the other replica refuses a request with an empty value.
        let value = |clusters: String| clusters.parse().unwrap_or_else(|_| AsciiMetadataValue::from_static(""));
        let clusters = access.to_metadata().map(value);
        ReplicaCredentials { bearer: self.bearer.clone(), clusters, timeout: None }
    }
}

/// Adds the token of the replica that is asked and what the client may see, and asks for its part alone.
#[derive(Clone)]
pub(crate) struct ReplicaCredentials {
    bearer: AsciiMetadataValue,
    clusters: Option<AsciiMetadataValue>,
    timeout: Option<Duration>,
}

impl Interceptor for ReplicaCredentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.bearer.clone());
        request.metadata_mut().insert(PART_KEY, AsciiMetadataValue::from_static("1"));
        if let Some(clusters) = &self.clusters {
            request.metadata_mut().insert(CLUSTERS_KEY, clusters.clone());
        }
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
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
    let channel = endpoint_of_dialed().connect_with_connector(dial).await.map_err(|error| innermost(&error))?;
    let mut bearer = bearer;
    bearer.set_sensitive(true);
    Ok(ReplicaConnection { channel, bearer })
}

/// The address is the authority of requests alone: the connection is dialed. Its requests have no timeout but their own.
fn endpoint_of_dialed() -> Endpoint {
    Endpoint::from_static("http://localhost")
        .http2_keep_alive_interval(Duration::from_secs(1))
        .keep_alive_timeout(Duration::from_secs(2))
        .keep_alive_while_idle(true)
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::io;

    use fleetwright_proto::v1;
    use futures::stream;
    use tokio::time::{Instant, sleep};
    use tonic::Code;
    use tonic::service::Routes;
    use tonic::transport::Server;

    use super::*;

    /// A replica that answers each request after twenty seconds, with `UNAUTHENTICATED`.
    async fn connect_to_slow_replica() -> ReplicaConnection {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let answer = async || {
            sleep(Duration::from_secs(20)).await;
            [("content-type", "application/grpc"), ("grpc-status", "16")]
        };
        let routes = Routes::from(axum::Router::new().fallback(answer));
        let incoming = stream::iter([Ok::<_, io::Error>(theirs)]);
        tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
        let mut ours = Some(TokioIo::new(ours));
        let dial = service_fn(move |_| {
            let dialed = ours.take().ok_or_else(|| io::Error::other("dialed twice"));
            async { dialed }
        });
        let channel = endpoint_of_dialed().connect_with_connector(dial).await.expect("it is connected");
        ReplicaConnection { channel, bearer: AsciiMetadataValue::from_static("Bearer token") }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_has_the_deadline_of_its_client_and_requests_about_the_fleet_have_five_seconds() {
        let replica = connect_to_slow_replica().await;
        let began = Instant::now();
        let mut request = Request::new(v1::PlanClusterRequest::default());
        request.set_timeout(Duration::from_secs(40));
        let planned = replica.capacity(&ClusterAccess::all()).plan_cluster(request).await;
        assert_eq!(planned.expect_err("it answers an error").code(), Code::Unauthenticated);
        assert_eq!(began.elapsed().as_secs(), 20);

        let began = Instant::now();
        let listed = replica.fleet(&ClusterAccess::all()).list_clusters(v1::ListClustersRequest::default()).await;
        assert_eq!(listed.expect_err("it is too slow").code(), Code::Cancelled);
        assert_eq!(began.elapsed().as_secs(), 5);
    }
}
