//! The API over HTTP/1.1 and HTTP/2: as JSON under `/v1`, and as gRPC-Web. Both call the gRPC service behind its
//! authorization, in process.

use std::sync::Arc;

use anyhow::Context;
use auth::authorizer::Authorizer;
use auth::middleware::AuthLayer;
use axum::Router;
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_rpc::v1::fleet_service_server::FleetServiceServer;
use tonic_web::GrpcWebLayer;
use tower::ServiceBuilder;
use transcoding::Transcoder;

use crate::fleet::FleetApi;

/// Domain of the reasons of errors.
const ERROR_DOMAIN: &str = "fleetwright.dev";

/// Routes of the API.
///
/// # Errors
/// The descriptors have no valid routes, which is an error of this program.
pub(super) fn router(fleet: FleetApi, authorizer: Arc<Authorizer>) -> anyhow::Result<Router> {
    let service = ServiceBuilder::new().layer(AuthLayer(authorizer)).service(FleetServiceServer::new(fleet));
    let transcoder = Transcoder::new(DESCRIPTOR_SET, ERROR_DOMAIN).context("the API has no valid routes")?;
    let grpc_web = ServiceBuilder::new().layer(GrpcWebLayer::new()).service(service.clone());
    Ok(Router::new()
        .route_service("/v1/{*path}", transcoder.service(service))
        .route_service("/fleetwright.v1.FleetService/{method}", grpc_web))
}
